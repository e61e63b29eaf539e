/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processes that make the calls, and what they share. A worker is a process
 * that runs one program after the other; a program has lanes, threads and
 * processes of it.
 */
#ifndef FZ_EXEC_H
#define FZ_EXEC_H

#include <setjmp.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "call.h"
#include "cover.h"
#include "pool.h"

/* How much of the address space a mapping may take */
#define FZ_ROOM		(16UL << 20)
#define FZ_BYTES	0x100000UL

/**
 * struct fz_map - what is in a slot of mappings
 * @len: bytes mapped, 0 for nothing
 * @region: which of the areas, as FZ_MMAP has it
 * @slot: of the socket
 */
struct fz_map {
	size_t len;
	uint32_t region;
	uint32_t slot;
};

/* No error is as large. */
#define FZ_ERRORS	540

/**
 * struct fz_count - of one kind of call
 * @made: how often
 * @ns: time that they took, asleep or not
 * @busy_ns: the most that one of them took of a CPU
 * @err: how many of these ended with that error; 0: with none
 */
struct fz_count {
	uint64_t made;
	uint64_t ns;
	uint64_t busy_ns;
	uint32_t err[FZ_ERRORS];
};

/**
 * struct fz_log - in memory that the parent shares: what a worker is at
 * @prog: the program that runs
 * @at: the call that each lane is at, and one; 0 before the first
 * @calls: how many were made
 * @programs: how many were run
 * @rests: a count of looks whether another worker still wants to be alone
 * @running: between the beginning and the end of a program
 * @busy_us: how long each of its short calls kept a CPU; 0 of others
 * @changed: what proc.c has to take back when it ends
 * @complaint: of the kernel, empty if there was none
 * @count: of each kind of call
 */
struct fz_log {
	struct fz_prog prog;
	uint32_t at[FZ_LANES];
	uint64_t calls;
	uint64_t programs;
	uint64_t rests;
	uint32_t running;
	uint32_t busy_us[FZ_CALLS];
	uint32_t changed;
	char complaint[200];
	struct fz_count count[FZ_OP_COUNT];
};

/**
 * enum fz_without - what of a program is left out
 * @FZ_WHOLE: nothing
 * @FZ_NO_HANDS: no thread pokes meanwhile
 * @FZ_NO_LANES: that, and all calls are made by one thread
 */
enum fz_without { FZ_WHOLE, FZ_NO_HANDS, FZ_NO_LANES };

/**
 * struct fz_world - what is the same for all workers of a run
 * @family: the number of AF_L5
 * @plain: no AF_L5 here: the bootstrap's own families in its place
 * @rdma: addresses are of an RDMA device, which most sockets are to use
 * @far: a second network namespace, or -1
 * @home: the first
 * @ticks_ms: so often a call that sleeps is interrupted
 * @trace: print each call and what it returned
 * @without: what of programs is left out
 */
struct fz_world {
	int family;
	bool plain;
	bool rdma;
	int far;
	int home;
	int ticks_ms;
	bool trace;
	enum fz_without without;
};

extern struct fz_world fz_world;
extern struct fz_log *fz_log;
extern struct fz_map fz_map[FZ_MAPS];
extern uint8_t fz_bytes[FZ_BYTES];
extern int fz_memfd;

/*
 * fz_exec_begin() once for each worker; then run a program, and take away what
 * it left. True if it reached something new.
 */
bool fz_exec_begin(struct fz_cover *cover);
bool fz_exec(const struct fz_prog *p);

/* Where descriptors of the worker itself begin, which no program closes */
#define FZ_OWN_FDS	200

/* A descriptor moves there. */
int fz_own_fd(int fd);

/*
 * What is in a slot, or in the next one that has something, -1 if none has.
 * What was in a slot is closed when something new is put there.
 */
int fz_fd(unsigned int s);
void fz_put(unsigned int s, int fd);
int fz_take(unsigned int s);

/* Where the mapping of a slot is, if there is one. */
uint8_t *fz_at(unsigned int m);

/*
 * FZ_BYTES bytes whose first page is not there: a call that touches it sleeps a
 * moment there, with whatever it has and holds. NULL if that cannot be had.
 */
void *fz_late(void);
void fz_late_begin(void);

/* A buffer of at least @len bytes, good or bad: an &enum fz_buf */
void *fz_buf(unsigned int kind, size_t len);

/*
 * Touch memory that may not be there: the statement is left at the signal,
 * which has no other effect.
 */
extern __thread sigjmp_buf fz_jump;
extern __thread volatile int fz_jumps;
#define FZ_TRY(statement) do {						\
	if (!sigsetjmp(fz_jump, 0)) {					\
		fz_jumps = 1;						\
		statement;						\
	}								\
	fz_jumps = 0;							\
} while (0)

/* kmsg.c: a line that no kernel should print, since the last time */
void fz_kmsg_begin(void);
bool fz_kmsg_complains(char *to, size_t room);

/* where.c */
socklen_t fz_address(uint32_t which, struct sockaddr_storage *to);
socklen_t fz_addr_len(uint32_t kind, socklen_t right);
int fz_family_of(uint32_t which);

/* The address to connect to: as above, or the name of the socket in slot @s */
socklen_t fz_target(uint32_t which, unsigned int s,
		    struct sockaddr_storage *to);

/* L5_TRANSPORT and, above four bits, L5_REASON; 0 if it has none */
long fz_carried(int fd);

/* A call's return value, or -errno */
#define FZ_RET(call) ({							\
	long ret_ = (call);						\
									\
	ret_ < 0 ? -(long)errno : ret_;					\
})

/* The calls, by name */
#define FZ_DO(name)	long fz_do_##name(const struct fz_call *c)
FZ_DO(socket);
FZ_DO(pair);
FZ_DO(listener);
FZ_DO(dial);
FZ_DO(bind);
FZ_DO(listen);
FZ_DO(connect);
FZ_DO(accept);
FZ_DO(unconnect);
FZ_DO(relisten);
FZ_DO(shutdown);
FZ_DO(close);
FZ_DO(dup);
FZ_DO(name);
FZ_DO(send);
FZ_DO(recv);
FZ_DO(pass);
FZ_DO(poll);
FZ_DO(epoll);
FZ_DO(epoll_ctl);
FZ_DO(epoll_wait);
FZ_DO(pipe);
FZ_DO(unix);
FZ_DO(getopt);
FZ_DO(setopt);
FZ_DO(ioctl);
FZ_DO(map_info);
FZ_DO(fcntl);
FZ_DO(file);
FZ_DO(map);
FZ_DO(mmap);
FZ_DO(munmap);
FZ_DO(mprotect);
FZ_DO(madvise);
FZ_DO(mremap);
FZ_DO(poke);
FZ_DO(flood);
FZ_DO(look);
FZ_DO(netns);
FZ_DO(sysctl);
FZ_DO(rule);
FZ_DO(read_proc);
FZ_DO(sleep);
FZ_DO(uring);
FZ_DO(destroy);

/* Does a thread poke while it runs? */
bool fz_has_hands(const struct fz_prog *p);

/* A poke, again and again, as fast as it goes */
long fz_poke_until(const struct fz_call *c, const bool *stop);

/* Put back what calls changed that outlives their program. */
/* How records are published to another host, until a program says otherwise */
void fz_proc_notify(uint32_t way);
void fz_proc_begin(void);
void fz_proc_reset(void);
void fz_netns_reset(void);
void fz_map_reset(void);
void fz_map_forked(void);
bool fz_map_begin(void);

#endif /* FZ_EXEC_H */
