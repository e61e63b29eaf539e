/* SPDX-License-Identifier: GPL-2.0 */
#ifndef DIFF_CORE_H
#define DIFF_CORE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Variants, as bits: what the two families are. */
enum {
	V_INET		= 1 << 0,
	V_REV		= 1 << 1,
	V_INET6		= 1 << 2,
	V_UNIX		= 1 << 3,
	V_ABSTRACT	= 1 << 4,
	V_TO_PLAIN	= 1 << 5,
	V_FROM_PLAIN	= 1 << 6,
	V_FORCED	= 1 << 7,
	V_ALL		= (1 << 8) - 1,
	V_PACKETS	= 1 << 8,	/* SOCK_SEQPACKET over AF_UNIX */
	V_UN		= V_UNIX | V_ABSTRACT,
	V_TCP		= V_ALL & ~V_UN,
	V_RING_TCP	= V_INET | V_REV | V_INET6,
	V_RING		= V_RING_TCP | V_UN,
};

/**
 * struct variant - two families to compare
 * @bit: its bit among V_ALL
 * @name: of it
 * @dom: the kernel's own family
 * @type: of the sockets, 0: SOCK_STREAM
 * @l5_client: in the AF_L5 run the connecting socket is AF_L5
 * @l5_server: in the AF_L5 run the listening socket is AF_L5
 * @transport: what a connection of that run must be carried by
 */
struct variant {
	unsigned int bit;
	const char *name;
	int dom;
	int type;
	bool l5_client;
	bool l5_server;
	int transport;
};

/* One thing that a scenario wrote down. */
struct line {
	char label[120];
	char value[200];
};

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif

#define LINES_MAX	8192

struct transcript {
	int n;
	struct line line[LINES_MAX];
};

/**
 * struct ctx - what a scenario knows
 * @v: the variant
 * @own: this is the run on the kernel's own family
 * @t: where it writes
 * @dir: a directory of its own
 * @names: sockets named so far, for names that both runs share
 * @a: the end of the pair that is tested (see pair())
 * @b: its peer
 * @la: where the listener of listener() is
 */
struct addr {
	socklen_t len;
	struct sockaddr_storage ss;
};

#define SA(addr)	((struct sockaddr *)&(addr)->ss)

struct ctx {
	const struct variant *v;
	bool own;
	struct transcript *t;
	char dir[40];
	int names;
	int a;
	int b;
	struct addr la;
};

enum { DIFF_SAME, DIFF_DIFFERENT, DIFF_SKIP };

int diff_compare(const char *name, const struct variant *v,
		 void (*fn)(struct ctx *c), char *why, size_t len);

/* Sockets: of the connecting and of the listening side. */
int cl_socket(struct ctx *c, int flags);
int sv_socket(struct ctx *c, int flags);

/* The first and the third argument of socket() that make a client. */
int tested_family(struct ctx *c, int *proto);

/* An address to bind: loopback and port 0, or a new name. */
void addr_new(struct ctx *c, struct addr *a);

/* Where a socket is bound. */
void addr_of(int fd, struct addr *a);

/* A bound and listening socket; its address goes to c->la. */
int listener(struct ctx *c, int backlog);

/* Connect a new client to the listener @l, accept it: c->a and c->b. */
void pair_on(struct ctx *c, int l);

/* The same with a listener that is closed afterwards. */
void pair(struct ctx *c);

/* Is this end's transport what the variant wants? If not it is written down. */
void check_transport(struct ctx *c, int fd, bool server);

bool is_unix(const struct ctx *c);

void log_val(struct ctx *c, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void log_ret(struct ctx *c, const char *label, long ret);
void log_poll(struct ctx *c, const char *label, int fd, int want);
void log_data(struct ctx *c, const char *label, const void *buf, ssize_t n);
/* Write down an address: its family, and which of the known addresses it is. */
void log_addr(struct ctx *c, const char *label, const struct sockaddr *sa,
	      socklen_t len);
const char *events_name(unsigned int ev, char *buf, size_t len);

/* Make a call and write down what it returned. */
#define R(call) ({							\
	errno = 0;							\
	long r_ = (long)(call);						\
	int e_ = errno;							\
									\
	log_ret(c, #call, r_);						\
	errno = e_;							\
	r_;								\
})

/* Make a call that only prepares; stop the scenario if it fails. */
#define OK(call) ({							\
	errno = 0;							\
	long r_ = (long)(call);						\
									\
	if (r_ < 0) {							\
		log_ret(c, "preparing: " #call, r_);			\
		return;							\
	}								\
	r_;								\
})

#define V(label, ...)	log_val(c, label, __VA_ARGS__)
#define D(buf, n)	log_data(c, "data " #buf, buf, n)

/*
 * Write down the poll mask of @fd, after having waited for @want, which is
 * what is known to come and may take its time; 0 for nothing.
 */
#define P(fd, want)	log_poll(c, "poll " #fd, fd, want)

/* As log_val, for a number. */
#define N(expr)		log_val(c, #expr, "%lld", (long long)(expr))

/* Run @fn in a process, when this one sleeps. Reaped at the end. */
void when_asleep(struct ctx *c, void (*fn)(struct ctx *c));

/* Run @fn in a process now; returns its pid. */
pid_t beside(struct ctx *c, void (*fn)(struct ctx *c));

/* Read exactly @len pattern bytes (position @pos) and check: 0, or -1. */
int drain(int fd, size_t len, uint64_t pos);
/* Send exactly @len of them. */
int feed(int fd, size_t len, uint64_t pos);

/* Wait until @fd has @n bytes to read (by FIONREAD), or some seconds. */
void await(int fd, int n);

/*
 * l5_settle() where there is a network: AF_UNIX has nothing under way. Not to
 * be called between when_asleep() and the call that is to sleep.
 */
void settle(struct ctx *c);

/* An address where nothing is, which the compiler does not see through. */
void *bad_pointer(void);

/* Memory whose first @good bytes are there, and that ends then. */
char *edge(size_t good);

/*
 * Send until not a byte more is taken, for a while: TCP's buffers move on
 * their own. Returns the number of bytes.
 */
long fill_up(int fd);

/* The process that a scenario runs in, if the scenario says so, for usr1() */
extern pid_t parent;
void usr1(struct ctx *c);

/* SO_ERROR of a socket */
int so_error(int fd);

/* More than any ring or socket buffer here */
#define BIG	(3 << 20)

/* Receive BIG bytes at b, say so to the other end, and wait for its answer. */
void drain_big(struct ctx *c);

/* Where a deviation is one. */
enum {
	D_ALWAYS,
	D_KERNEL,		/* not under the library of l5run */
	D_FULL,			/* only under it, with everything mapped */
};

/*
 * The table of deviations. An entry that says how AF_L5's run ends ("end: ...")
 * stands for all that would have followed.
 */
struct deviation {
	const char *scenario;	/* a glob */
	const char *label;	/* a glob */
	unsigned int variants;
	const char *own;	/* a glob: what TCP or AF_UNIX says */
	const char *l5;		/* a glob: what AF_L5 says */
	bool maybe;		/* may also be equal: a matter of amounts */
	const char *reason;
	int where;		/* D_* */
};

/* Is this program under the library? */
bool is_full(void);

extern const struct deviation deviations[];
extern const int deviations_n;

#endif /* DIFF_CORE_H */
