/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as kmod/far needs outside of it, in one thread: a lock
 * that is taken twice, or that is missing where one is due, is a failure. Work
 * and timers are queues, from which far.c takes what runs next.
 */
#ifndef L5_TEST_KERNEL_H
#define L5_TEST_KERNEL_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <linux/types.h>

/* far.c: this run fails; say where and stop. */
void fail(const char *file, int line, const char *what)
	__attribute__((noreturn));
#define must(cond)	((cond) ? (void)0 : fail(__FILE__, __LINE__, #cond))

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef __u64 u64;
typedef int32_t s32;
typedef __s64 s64;
typedef __u32 __poll_t;

#define __init
#define __user
#define __rcu
#define __percpu
#define __aligned(n)		__attribute__((aligned(n)))
#define ____cacheline_aligned_in_smp
#define unlikely(x)		(x)
#define likely(x)		(x)
#define BIT(n)			(1UL << (n))
#define BITS_PER_LONG		64
#define PAGE_SHIFT		12
#define PAGE_SIZE		4096UL
#define IFNAMSIZ		16
#define HZ			250
#define MAX_ERRNO		4095

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member)				\
	((type *)((char *)(p) - offsetof(type, member)))
#define min(a, b)	({				\
	__typeof__(a) a_ = (a);				\
	__typeof__(b) b_ = (b);				\
							\
	a_ < b_ ? a_ : b_; })
#define max(a, b)	({				\
	__typeof__(a) c_ = (a);				\
	__typeof__(b) d_ = (b);				\
							\
	c_ > d_ ? c_ : d_; })
#define min_t(t, a, b)		min((t)(a), (t)(b))
#define min3(a, b, c)		min(min((a), (b)), (c))
#define clamp_t(t, v, lo, hi)	min(max((t)(v), (t)(lo)), (t)(hi))
#define swap(a, b)	({				\
	__typeof__(a) t_ = (a);				\
							\
	(a) = (b);					\
	(b) = t_; })
#define is_power_of_2(n)	((n) && !((n) & ((n) - 1)))
#define offset_in_page(p)	((unsigned long)(p) & (PAGE_SIZE - 1))

/* One thread: each access is a step, and no barrier is needed. */
#define READ_ONCE(x)		(*(volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v)	((void)(*(volatile __typeof__(x) *)&(x) = (v)))
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, v)	WRITE_ONCE(*(p), v)
#define smp_mb()		do { } while (0)
#define smp_rmb()		do { } while (0)
#define smp_mb__after_atomic()	do { } while (0)
#define xchg(p, v)	({				\
	__typeof__(*(p)) o_ = *(p);			\
							\
	*(p) = (v);					\
	o_; })
#define try_cmpxchg(p, old, v)	({			\
	bool s_ = *(p) == *(old);				\
	if (s_)							\
		*(p) = (v);					\
	else							\
		*(old) = *(p);					\
	s_; })
#define DEBUG_NET_WARN_ON_ONCE(x)	must(!(x))
#define INDIRECT_CALL_1(f, f1, ...)	f(__VA_ARGS__)
#define indirect_call_wrapper

static inline bool test_bit(int n, const unsigned long *p)
{
	return *p >> n & 1;
}

static inline void set_bit(int n, unsigned long *p)
{
	*p |= BIT(n);
}

static inline void clear_bit(int n, unsigned long *p)
{
	*p &= ~BIT(n);
}

static inline bool test_and_set_bit(int n, unsigned long *p)
{
	bool was = test_bit(n, p);

	set_bit(n, p);
	return was;
}

static inline bool test_and_clear_bit(int n, unsigned long *p)
{
	bool was = test_bit(n, p);

	clear_bit(n, p);
	return was;
}

#define for_each_set_bit(n, p, size)				\
	for ((n) = 0; (n) < (size); (n)++)			\
		if (test_bit(n, p))

typedef struct { int n; } atomic_t, refcount_t;
typedef struct { long n; } atomic_long_t;
#define ATOMIC_INIT(i)		{ i }
#define atomic_read(a)		((a)->n)
#define atomic_inc(a)		((void)(a)->n++)
#define atomic_dec_and_test(a)	(--(a)->n == 0)
#define refcount_set(a, v)	((void)((a)->n = (v)))
#define refcount_inc(a)		(must((a)->n > 0), (void)(a)->n++)
#define refcount_dec_and_test(a)	(must((a)->n > 0), --(a)->n == 0)

typedef struct { int held; } spinlock_t, rwlock_t;
struct mutex { int held; };
#define spin_lock_init(l)	((void)((l)->held = 0))
#define spin_lock(l)		(must(!(l)->held), (void)((l)->held = 1))
#define spin_unlock(l)		(must((l)->held), (void)((l)->held = 0))
#define spin_lock_bh(l)		spin_lock(l)
#define spin_unlock_bh(l)	spin_unlock(l)
#define write_lock_bh(l)	spin_lock(l)
#define write_unlock_bh(l)	spin_unlock(l)
#define mutex_lock(l)		spin_lock(l)
#define mutex_unlock(l)		spin_unlock(l)
#define mutex_trylock(l)	((l)->held ? 0 : ((l)->held = 1))
#define lockdep_assert_held(l)	must((l)->held)
#define local_bh_disable()	do { } while (0)
#define local_bh_enable()	do { } while (0)
#define rcu_read_lock()		do { } while (0)
#define rcu_read_unlock()	do { } while (0)
#define rcu_dereference(p)	(p)
#define rcu_assign_pointer(p, v)	((p) = (v))
#define rcu_access_pointer(p)	(p)
#define RCU_INIT_POINTER(p, v)	((p) = (v))

struct file_operations;
struct iov_iter;
struct net_device;
struct pipe_inode_info;
struct seq_file;
struct sk_buff;
struct user_namespace;
struct vm_area_struct;
struct vm_fault;
struct vm_operations_struct;

struct list_head { struct list_head *next, *prev; };
struct hlist_node { void *next; };
struct hlist_head { void *first; };
struct rhash_head { void *next; };
struct rcu_head { void *next; };
struct timer_list { int dummy; };
struct address_space { int dummy; };
struct page { void *at; };
#define INIT_LIST_HEAD(l)	((void)((l)->next = (l)->prev = (l)))
#define page_address(p)		((p)->at)

/* Work is done, and timers fire, when far.c says. */
struct work_struct {
	void (*fn)(struct work_struct *work);
	bool queued;
};

struct delayed_work {
	struct work_struct work;
	unsigned long due;
};

struct workqueue_struct;
extern unsigned long jiffies;
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define msecs_to_jiffies(ms)	((unsigned long)(ms) * HZ / 1000)
#define INIT_WORK(w, f)		((void)((w)->fn = (f)))
#define INIT_DELAYED_WORK(w, f)	((void)((w)->work.fn = (f)))
bool queue_work(struct workqueue_struct *wq, struct work_struct *w);
bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *w,
			unsigned long delay);
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *w,
		      unsigned long delay);
bool cancel_delayed_work(struct delayed_work *w);
#define flush_workqueue(wq)	do { } while (0)
#define call_rcu(head, f)	f(head)

typedef struct { int woken; } wait_queue_head_t;
struct socket_wq { wait_queue_head_t wait; };
#define DECLARE_WAIT_QUEUE_HEAD(w)	wait_queue_head_t w
#define init_waitqueue_head(w)	((void)((w)->woken = 0))
#define wake_up(w)		((void)((w)->woken = 1))
#define wake_up_all(w)		wake_up(w)
#define wake_up_interruptible_all(w)	wake_up(w)
#define wait_event(w, cond)	must(cond)
/* no task of far.c waits inside */
#define wait_event_timeout(w, cond, t)	((cond) ? (t) : 0)
#define wait_event_interruptible_timeout(w, cond, t)	((cond) ? (t) : 0)

typedef struct { u32 val; } kuid_t;
struct net { int ref; };
struct mem_cgroup;
#define set_active_memcg(m)	(m)

/* Sockets: as much of TCP as a handover looks at. */
enum { TCP_ESTABLISHED = 1, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8 };
#define TCPF_ESTABLISHED	BIT(TCP_ESTABLISHED)
#define TCPF_CLOSE_WAIT		BIT(TCP_CLOSE_WAIT)
#define RCV_SHUTDOWN		1
#define SEND_SHUTDOWN		2
enum { SOCK_DONE = 1, SOCK_FASYNC };

struct sock {
	int refs;
	int sk_state;
	int sk_type;
	int sk_shutdown;
	int sk_err;
	unsigned long sk_flags;
	void *sk_user_data;
	struct socket_wq *sk_wq;
	rwlock_t sk_callback_lock;
	struct net *net;
	u32 write_seq;
	u32 copied_seq;
	u32 rcv_nxt;
	int who;
};

struct tcp6_sock { struct sock sk; };
struct unix_sock { struct sock sk; };
#define tcp_sock		sock

struct socket;
struct proto_ops {
	int (*shutdown)(struct socket *sock, int how);
};

struct socket {
	struct sock *sk;
	const struct proto_ops *ops;
	void *file;
	struct socket_wq wq;
};

#define tcp_sk(s)		(s)
#define sock_net(s)		((s)->net)
#define get_net(n)		((void)(n)->ref++)
#define put_net(n)		((void)(n)->ref--)
#define sock_hold(s)		((void)(s)->refs++)
#define sock_put(s)		((void)(s)->refs--)
#define sock_flag(s, f)		test_bit(f, &(s)->sk_flags)
#define sock_set_flag(s, f)	set_bit(f, &(s)->sk_flags)
#define sk_sleep(s)		(&(s)->sk_wq->wait)
#define skwq_has_sleeper(wq)	(wq)
#define bh_lock_sock(s)		do { } while (0)
#define bh_unlock_sock(s)	do { } while (0)
#define sock_owned_by_user(s)	(false && (s))

static inline int sock_error(struct sock *sk)
{
	return -xchg(&sk->sk_err, 0);
}

void tcp_abort(struct sock *sk, int err);

#define hash_64(v, bits)	\
	((u64)(v) * 0x61C8864680B583EBull >> (64 - (bits)))
#define SK_USER_DATA_NOCOPY	1UL
#define SK_USER_DATA_PTRMASK	(~3UL)
#define __rcu_assign_sk_user_data_with_flags(sk, tag, flags)	\
	((sk)->sk_user_data = (void *)((uintptr_t)(tag) | (flags)))
#define this_cpu_add(x, n)	((void)((x) += (n)))

/* compat.h is the kernel's */
#define L5_COMPAT_H
#define L5_OLD_SPLICE		0
#define L5_ACCEPT_ARGS		int flags, bool kern
#define l5_sockaddr		sockaddr
typedef int sockptr_t;
typedef int vm_fault_t;
typedef int gfp_t;
typedef struct { int dummy; } poll_table;

#endif /* L5_TEST_KERNEL_H */
