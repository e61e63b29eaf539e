/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libl5: connections of AF_L5 without system calls. See libl5(7).
 *
 * Each function works on any connected socket of SOCK_STREAM or SOCK_SEQPACKET:
 * what is not carried by rings, or cannot be mapped, is done by system calls.
 */
#ifndef LIBL5_H
#define LIBL5_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * A connection, as a program of this library has it. The socket below it stays
 * one and can be used as such.
 */
struct l5_stream;

/* The mailbox of a listening socket */
struct l5_mailbox;

/* Memory that both ends of a connection have mapped, beside the rings */
struct l5_region;

/**
 * struct l5_event - what l5_wait_any() waits for, as struct pollfd
 * @conn: a connection, or NULL to leave this entry out
 * @events: POLLIN, POLLOUT, POLLRDHUP and others that poll(2) knows
 * @revents: what came of it, as poll(2) would say
 */
struct l5_event {
	struct l5_stream *conn;
	short events;
	short revents;
};

/**
 * l5_socket() - make a socket of AF_L5
 * @domain: AF_INET, AF_INET6 or AF_UNIX, the family of its addresses
 * @flags: SOCK_NONBLOCK, SOCK_CLOEXEC; of AF_UNIX also SOCK_SEQPACKET
 *
 * Without the module it is a socket of @domain itself. The environment's
 * L5_TRANSPORT and L5_RDMA_WAIT set options of it.
 *
 * Return: a descriptor, or -1 with errno; EINVAL if these make no sense.
 */
int l5_socket(int domain, int flags);

/**
 * l5_listen() - make a listening socket
 * @host: name or address, NULL for any; with a NULL @port the path of an
 *	AF_UNIX socket, or its abstract name if that begins with '@'
 * @port: number or name of a service
 * @backlog: as of listen(2)
 *
 * Return: a descriptor, or -1 with errno.
 */
int l5_listen(const char *host, const char *port, int backlog);

/**
 * l5_connect() - make a socket, connect and map it
 * @host: as of l5_listen()
 * @port: as of l5_listen()
 * @flags: SOCK_NONBLOCK for what comes after, SOCK_CLOEXEC, SOCK_SEQPACKET
 *
 * Return: a connection for l5_close(), or NULL with errno.
 */
struct l5_stream *l5_connect(const char *host, const char *port, int flags);

/**
 * l5_connect_addr() - make a socket, connect it to an address and map it
 * @addr: of family AF_INET, AF_INET6 or AF_UNIX
 * @len: of it
 * @flags: as of l5_connect()
 *
 * Return: as l5_connect().
 */
struct l5_stream *l5_connect_addr(const struct sockaddr *addr, socklen_t len,
				  int flags);

/**
 * l5_accept() - accept and map a connection
 * @fd: a listening socket, of whatever family
 * @flags: SOCK_NONBLOCK, SOCK_CLOEXEC
 *
 * Return: a connection for l5_close(), or NULL with errno.
 */
struct l5_stream *l5_accept(int fd, int flags);

/**
 * l5_map() - use a connected socket by rings where it can be
 * @fd: the socket, which stays the caller's
 *
 * A connection that begins on TCP may be taken by RDMA a little later. It works
 * by system calls until then and maps itself at one of the calls that follow,
 * as does a socket that is not connected yet.
 *
 * Return: a connection for l5_unmap(), or NULL with errno: EBADF, ENOTSOCK,
 * ENOMEM. That the rings cannot be mapped is no error.
 */
struct l5_stream *l5_map(int fd);

/**
 * l5_unmap() - the end of l5_map(); the socket stays open
 * @c: not used in any other thread, may be NULL
 */
void l5_unmap(struct l5_stream *c);

/**
 * l5_close() - l5_unmap() and close(2)
 * @c: as of l5_unmap(); NULL is no error
 *
 * Return: 0, or -1 with errno.
 */
int l5_close(struct l5_stream *c);

/**
 * l5_stream_fd() - the socket
 * @c: the connection
 *
 * Good for all system calls, also between the calls of this library; not to be
 * closed or replaced by dup2(2) before l5_unmap().
 */
int l5_stream_fd(const struct l5_stream *c);

/**
 * l5_stream_mapped() - do its bytes go by rings that this process has mapped?
 * @c: the connection
 *
 * Tries to map it if that is not settled.
 *
 * Return: true, or false with errno: EAGAIN as long as RDMA may yet take the
 * connection, or another thread is mapping it; ENOTCONN if it is not connected
 * yet; EOPNOTSUPP, ENOMEM or another if it stays with system calls.
 */
bool l5_stream_mapped(struct l5_stream *c);

/**
 * l5_set_nonblock() - should calls wait?
 * @c: the connection
 * @on: every call as with MSG_DONTWAIT
 *
 * Sets O_NONBLOCK of the socket, too. A connection starts as its socket is at
 * l5_map().
 *
 * Return: 0, or -1 with errno.
 */
int l5_set_nonblock(struct l5_stream *c, bool on);

/**
 * l5_set_wait() - how to wait before sleeping
 * @c: the connection
 * @spin_us: look for so long; -1: as long as it has paid lately
 * @yields: then yield the CPU so often; -1: as often as it has paid lately
 *
 * The default is the environment's L5_SPIN_US and L5_YIELDS, or -1 and -1.
 */
void l5_set_wait(struct l5_stream *c, int spin_us, int yields);

/**
 * l5_send() - as send(2)
 * @c: the connection
 * @buf: what to send; a SIGSEGV instead of EFAULT if it cannot be read
 * @len: how much
 * @flags: MSG_*
 *
 * Return: as send(2); EDEADLK in a signal handler that interrupted a send of
 * its own thread, EPROTO if the peer broke the rings' protocol.
 */
ssize_t l5_send(struct l5_stream *c, const void *buf, size_t len, int flags);

/**
 * l5_recv() - as recv(2)
 * @c: the connection
 * @buf: where to
 * @len: how much at most
 * @flags: MSG_*
 *
 * Return: as recv(2), and as l5_send().
 */
ssize_t l5_recv(struct l5_stream *c, void *buf, size_t len, int flags);

/**
 * l5_sendv() - l5_send() from several buffers
 * @c: the connection
 * @iov: the buffers
 * @n: how many, at most IOV_MAX
 * @flags: MSG_*
 *
 * Return: as l5_send().
 */
ssize_t l5_sendv(struct l5_stream *c, const struct iovec *iov, int n,
		 int flags);

/**
 * l5_recvv() - l5_recv() into several buffers
 * @c: the connection
 * @iov: the buffers
 * @n: how many, at most IOV_MAX
 * @flags: MSG_*
 *
 * Return: as l5_recv().
 */
ssize_t l5_recvv(struct l5_stream *c, const struct iovec *iov, int n,
		 int flags);

/**
 * l5_reserve() - get memory that the peer will read
 * @c: the connection
 * @p: set to it
 * @len: how much is wanted
 * @flags: MSG_DONTWAIT, MSG_NOSIGNAL; the latter counts for l5_commit()
 *
 * Until l5_commit() nobody else can send: not another thread, and no system
 * call. So it has to follow soon, and nothing else be sent in between.
 *
 * Return: bytes at @p, from 1 to @len, or -1 with errno. With SOCK_SEQPACKET it
 * is @len: what is committed is one message, and @len more than one may have is
 * EMSGSIZE.
 */
ssize_t l5_reserve(struct l5_stream *c, void **p, size_t len, int flags);

/**
 * l5_commit() - send what was written to the reserved memory
 * @c: the connection
 * @len: of it, from the start; 0 to send nothing
 *
 * Return: @len; or if the connection is not mapped, what send(2) says.
 */
ssize_t l5_commit(struct l5_stream *c, size_t len);

/**
 * l5_peek() - look at received bytes where they are
 * @c: the connection
 * @p: set to them; the peer can change them while they are looked at
 * @flags: MSG_DONTWAIT
 *
 * Until l5_release() nobody else can receive, as of l5_reserve().
 *
 * Return: how many lie at @p, with SOCK_SEQPACKET one whole message; 0 at the
 * end of the stream, or before an empty message, which l5_recv() takes; -1 with
 * errno. Only after a positive one l5_release() has to follow.
 */
ssize_t l5_peek(struct l5_stream *c, const void **p, int flags);

/**
 * l5_release() - be done with received bytes
 * @c: the connection
 * @len: how many of them, from the start; the others come again. With
 *	SOCK_SEQPACKET any number but 0 is all of them
 *
 * Return: 0, or -1 with errno.
 */
int l5_release(struct l5_stream *c, size_t len);

/**
 * l5_wait() - wait until something can be done
 * @c: the connection
 * @events: as of poll(2)
 * @timeout: milliseconds, -1 without end
 *
 * Return: as poll(2)'s revents, 0 after @timeout, -1 with errno.
 */
int l5_wait(struct l5_stream *c, short events, int timeout);

/**
 * l5_wait_any() - wait until something can be done with any of several
 * @e: the connections; how long to spin is as the first one says
 * @n: how many
 * @timeout: milliseconds, -1 without end
 *
 * Return: how many entries have revents, 0 after @timeout, -1 with errno.
 */
int l5_wait_any(struct l5_event *e, int n, int timeout);

/**
 * l5_interrupt() - end the wait of the call that a signal interrupted
 *
 * For a signal handler. A call of this library that waits looks at the rings
 * before it sleeps in the kernel, and the library hears of no signals there.
 * After this the call that the handler interrupted, if it has nothing to
 * return, returns -1 with EINTR instead of sleeping. A call that returns anyway
 * is not affected, nor is a later call. A call that slept is ended by the
 * kernel, if the handler was set without SA_RESTART.
 *
 * Async-signal-safe; leaves errno as it was.
 */
void l5_interrupt(void);

/**
 * l5_mailbox_open() - map the mailbox of a listening socket
 * @fd: the socket, of AF_L5 and TCP; it may be closed afterwards
 *
 * Connections that RDMA takes from then on have a byte in it, which the peer's
 * host sets after each record, as long as one of the 4096 is free.
 *
 * Return: for l5_mailbox_close(), or NULL with errno: ENODEV if it is no socket
 * of AF_L5, EOPNOTSUPP if the listener does not answer for RDMA.
 */
struct l5_mailbox *l5_mailbox_open(int fd);

/**
 * l5_mailbox_close() - the end of l5_mailbox_open()
 * @b: may be NULL; connections that are attached stay so
 */
void l5_mailbox_close(struct l5_mailbox *b);

/**
 * l5_mailbox_attach() - say which connection a byte is about
 * @b: the mailbox
 * @c: accepted from its listener; until l5_unmap() or l5_close()
 *
 * A connection that is not mapped yet is attached once it is mapped. A
 * connection without a byte, as all that RDMA does not carry, is never
 * attached, and no harm is done. Bytes that have come by then count as just
 * come.
 *
 * Return: 0, or -1 with errno: EBUSY if it was attached before, EINVAL if @b
 * is a parent's.
 */
int l5_mailbox_attach(struct l5_mailbox *b, struct l5_stream *c);

/**
 * l5_stream_mailbox() - the number of a connection's byte
 * @c: the connection
 *
 * Return: from 0 on, or -1: it has no byte in a mailbox, or none yet.
 */
int l5_stream_mailbox(struct l5_stream *c);

/**
 * l5_mailbox_poll() - which connections have something new?
 * @b: the mailbox
 * @ready: where to, each one once
 * @max: how many at most; the others come next time
 *
 * Looks at the bytes and clears those that are set. So a connection is reported
 * once for all that came before, and has to be read until nothing is left; it
 * may be that there is nothing. It says nothing of the end of a connection, of
 * room, or of connections without a byte: for these l5_wait_any().
 *
 * Return: how many, or -1 with errno.
 */
int l5_mailbox_poll(struct l5_mailbox *b, struct l5_stream **ready, int max);

/**
 * l5_region_make() - make memory that both ends of a connection can map
 * @c: the connection; it stays until l5_region_close()
 * @len: bytes, up to a whole page; L5_REGION_MAX at most (EFBIG)
 * @write: whether the other end may write to it, and not only read it
 *
 * It is zeros, and mapped. It never gets longer or shorter, and no access to it
 * is SIGBUS. The other end is to be told its number. The caller pays, and
 * RLIMIT_MEMLOCK counts (ENOMEM).
 *
 * Return: for l5_region_close(), or NULL with errno: EOPNOTSUPP if the ends are
 * not on one host, or the bootstrap carries the connection; EDQUOT, ENOSPC,
 * ENOMEM, EINVAL, ENOTCONN.
 */
struct l5_region *l5_region_make(struct l5_stream *c, size_t len, bool write);

/**
 * l5_region_open() - map a region that either end has made
 * @c: the connection; it stays until l5_region_close()
 * @number: the region's, as the other end says it
 *
 * Return: for l5_region_close(), or NULL with errno: ENOENT if there is none of
 * that number, or not any more; else as l5_region_make().
 */
struct l5_region *l5_region_open(struct l5_stream *c, uint32_t number);

/**
 * l5_region_number() - how both ends call a region
 * @r: the region
 */
uint32_t l5_region_number(const struct l5_region *r);

/**
 * l5_region_mem() - where a region is mapped
 * @r: the region
 * @len: its length, if not NULL
 *
 * It is not to be used in a child of fork(), which has it not mapped. Calls
 * that would pin it (vmsplice(2), O_DIRECT, registered buffers) are EFAULT.
 */
void *l5_region_mem(const struct l5_region *r, size_t *len);

/**
 * l5_region_writable() - may this end write to it?
 * @r: the region
 */
bool l5_region_writable(const struct l5_region *r);

/**
 * l5_region_check() - was all that was done to a region so far done to it?
 * @r: the region
 *
 * After the other end has taken a region back, or a socket was closed, its
 * memory is still there and means nothing: what is read may be zeros, and what
 * is written goes nowhere. So what was read is believed, and what was written
 * is reported, after this has said so. It makes no system call, unless a region
 * of the connection was lost since the last time or the connection is not
 * mapped.
 *
 * Return: 0, or -1 with errno: ESTALE if not, or not any more, also in a child
 * of fork().
 */
int l5_region_check(struct l5_region *r);

/**
 * l5_region_unshare() - take a region from the other end, and keep it
 * @r: the region; this end has made it
 *
 * Once this is back no process of the other end reads or writes it any more,
 * so that what is in it can be looked at in place.
 *
 * Return: 0, or -1 with errno: ENOENT if this end has not made it, or has ended
 * it.
 */
int l5_region_unshare(struct l5_region *r);

/**
 * l5_region_end() - take a region from both ends, and give its memory back
 * @r: the region, as of l5_region_unshare(); l5_region_close() is still due
 *
 * Return: as l5_region_unshare().
 */
int l5_region_end(struct l5_region *r);

/**
 * l5_region_close() - unmap a region; it stays for others
 * @r: not used in any other thread, may be NULL
 */
void l5_region_close(struct l5_region *r);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* LIBL5_H */
