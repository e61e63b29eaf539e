/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * AF_L5: the interface between user space and the kernel module.
 *
 * The ring that both ends share has a header of its own, l5_ring.h.
 */
#ifndef _UAPI_LINUX_L5_H
#define _UAPI_LINUX_L5_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The module decides on the family number, never the program: numbers below
 * AF_MAX all have a name, so the module takes one that no kernel code ever
 * used, and its parameter "family" chooses another. Read the number from
 * L5_FAMILY_PATH; the default below is only for when that file is missing. The
 * number loads no module by itself: the administrator decides whether
 * unprivileged programs may have that done, by an alias net-pf-18. The number
 * is for socket() alone: addresses have AF_INET, AF_INET6 or AF_UNIX.
 */
#define L5_FAMILY_DEFAULT	18
#define L5_FAMILY_PATH		"/sys/module/af_l5/parameters/family"

/* The third argument of socket(): the address family of the bootstrap. */
#define L5PROTO_INET		0
#define L5PROTO_INET6		1
#define L5PROTO_UNIX		2

/*
 * The same sockets by another door: socket() with AF_INET or AF_INET6,
 * SOCK_STREAM and this protocol, while the module's parameter "inet" is set.
 * The parameter "protocol" has the number, or another, or 0 for none.
 */
#define IPPROTO_L5		261
#define L5_PROTOCOL_PATH	"/sys/module/af_l5/parameters/protocol"
#define L5_INET_PATH		"/sys/module/af_l5/parameters/inet"

/* Level of get/setsockopt for the options below. */
#define SOL_L5			0x4c35

/*
 * setsockopt() at this level sets an option of SOL_SOCKET on the bootstrap
 * socket. It is for the options that would mean nothing on any other socket, or
 * are refused there: SO_PEEK_OFF, SO_ATTACH_FILTER, SO_ATTACH_BPF,
 * SO_DETACH_FILTER, SO_LOCK_FILTER, SO_ATTACH_REUSEPORT_CBPF,
 * SO_ATTACH_REUSEPORT_EBPF and SO_DETACH_REUSEPORT_BPF. All others are
 * ENOPROTOOPT. The call is EPERM while any cgroup of the machine has a BPF
 * program that judges setsockopt(), since such a program knows these options by
 * SOL_SOCKET.
 */
#define SOL_L5_SOCKET		0x4c36

/**
 * enum l5_opt - options at level SOL_L5
 * @L5_TRANSPORT: get, int: an &enum l5_transport
 * @L5_REASON: get, int: an &enum l5_reason, why the connection stays on its
 *	bootstrap socket
 * @L5_SPIN_US: get and set, int, microseconds: how long a blocking receive
 *	looks at the ring before it sleeps; 0: not at all; -1, the default: what
 *	SO_BUSY_POLL of the socket says or, if that is 0, up to net.l5.spin_us
 *	as long as spinning pays. At most L5_SPIN_US_MAX. An accepted socket
 *	starts with its listener's.
 * @L5_FORCE: get and set, int, an &enum l5_transport: L5_TRANSPORT_NONE lets
 *	the kernel choose (the default), L5_TRANSPORT_BASE stays on the
 *	bootstrap socket, L5_TRANSPORT_SHM takes rings of this kernel or the
 *	bootstrap, L5_TRANSPORT_RDMA takes RDMA or the bootstrap, and asks for
 *	it even where both ends are of one host, if their address is one of an
 *	RDMA device. Only before connect() or listen(), else EISCONN; another
 *	value is EINVAL. An accepted socket starts with its listener's.
 * @L5_INFO: get, &struct l5_info
 * @L5_RDMA: get and set, int: whether a client asks its peer's host for RDMA,
 *	or a listener answers: 0: no; 1: yes; -1, the default: what net.l5.rdma
 *	says. Only before connect() or listen(), else EISCONN. An accepted
 *	socket starts with its listener's.
 * @L5_RDMA_WAIT: get and set, int, milliseconds up to L5_RDMA_WAIT_MAX: how
 *	long a blocking connect() waits, once TCP is connected, until it is
 *	known whether RDMA carries the connection; 0, the default: not at all
 * @L5_RDMA_INFO: get, &struct l5_rdma_info
 */
enum l5_opt {
	L5_TRANSPORT = 1,
	L5_REASON,
	L5_SPIN_US,
	L5_FORCE,
	L5_INFO,
	L5_RDMA,
	L5_RDMA_WAIT,
	L5_RDMA_INFO,
};

#define L5_SPIN_US_MAX		1000000
#define L5_RDMA_WAIT_MAX	60000

/**
 * enum l5_transport - what carries the bytes of a connection
 * @L5_TRANSPORT_NONE: not decided: not connected, or the peer is being met
 * @L5_TRANSPORT_BASE: the bootstrap socket, TCP or AF_UNIX
 * @L5_TRANSPORT_SHM: rings in memory shared with a peer of this kernel
 * @L5_TRANSPORT_RDMA: rings of which each host has a copy, kept alike by RDMA
 */
enum l5_transport {
	L5_TRANSPORT_NONE,
	L5_TRANSPORT_BASE,
	L5_TRANSPORT_SHM,
	L5_TRANSPORT_RDMA,
};

/*
 * Why a connection is carried by its bootstrap socket: the code, the name
 * that /proc/net/l5 and /proc/net/l5_stat print, and the meaning. This is the
 * only table of reasons; kernel, tools and Documentation/interface.md follow
 * it.
 */
#define L5_REASONS(X)							\
	X(NONE,	    "none",	"not decided, or carried by rings")	\
	X(PEER,	    "peer",	"the peer is no AF_L5 socket here")	\
	X(TIMEOUT,  "timeout",	"the peer's end was not up in time")	\
	X(DISABLED, "disabled",	"net.l5.enabled is 0")			\
	X(FORCED,   "forced",	"the option L5_FORCE asks for it")	\
	X(OPTION,   "option",	"an option that only TCP can honour")	\
	X(LIMIT,    "limit",	"a limit on memory is reached")		\
	X(NOMEM,    "nomem",	"no memory for the rings")		\
	X(CONNECT,  "connect",	"connected by more than one connect()") \
	X(REFUSED,  "refused",	"the peer's host refused RDMA")		\
	X(SILENT,   "silent",	"the peer's host did not answer for RDMA") \
	X(RDMA,	    "rdma",	"RDMA failed before the connection moved") \
	X(DENIED,   "denied",	"a rule of the administrator's denies rings") \
	X(SECURED,  "secured",	"signed or encrypted on TCP, but not by RDMA")

/**
 * enum l5_reason - see L5_REASONS
 */
enum l5_reason {
#define L5_REASON_ENUM(code, name, text)	L5_REASON_##code,
	L5_REASONS(L5_REASON_ENUM)
#undef L5_REASON_ENUM
};

/**
 * struct l5_info - option L5_INFO
 * @transport: an &enum l5_transport
 * @reason: an &enum l5_reason
 * @tx_size: bytes of the ring this end writes, 0 without rings
 * @rx_size: bytes of the ring this end reads, 0 without rings
 * @tx_used: bytes in use of the ring this end writes, record headers included
 * @rx_used: bytes in use of the ring this end reads, record headers included
 * @tx_bytes: payload bytes this end put into its ring
 * @rx_bytes: payload bytes this end took out of its ring
 *
 * The kernel writes at most the caller's length and says how much it wrote;
 * later versions append fields.
 */
struct l5_info {
	__u32 transport;
	__u32 reason;
	__u32 tx_size;
	__u32 rx_size;
	__u32 tx_used;
	__u32 rx_used;
	__u64 tx_bytes;
	__u64 rx_bytes;
};

/**
 * struct l5_rdma_info - option L5_RDMA_INFO
 * @state: what has become of RDMA, &enum l5_rdma_state
 * @notify: how this end tells of a record: net.l5.rdma_notify as it was when
 *	RDMA began, then what that means for both hosts' devices as soon as that
 *	is known
 * @posts: times that work requests were posted for records
 * @bells: calls of L5_IOC_DOORBELL that posted work requests
 * @polled: times that the poller thread posted work requests
 * @messages: control messages sent, for waking, room and the end
 * @wakes: times that the peer's asleep receiver was woken
 * @tx_cut: bytes this end sent on TCP before it moved
 * @rx_cut: bytes this end received on TCP before it moved
 *
 * As for &struct l5_info the kernel writes at most the caller's length.
 */
struct l5_rdma_info {
	__u32 state;
	__u32 notify;
	__u64 posts;
	__u64 bells;
	__u64 polled;
	__u64 messages;
	__u64 wakes;
	__u64 tx_cut;
	__u64 rx_cut;
};

/**
 * enum l5_rdma_state - what has become of RDMA for a connection
 * @L5_RDMA_NONE: not wanted, or not possible
 * @L5_RDMA_OPEN: a client has asked, or a server may still be asked
 * @L5_RDMA_MOVING: both ends are ready, bytes sent on TCP are still being read
 * @L5_RDMA_DONE: RDMA carries the bytes
 * @L5_RDMA_FAILED: RDMA carried the bytes and failed; that ended the connection
 */
enum l5_rdma_state {
	L5_RDMA_NONE,
	L5_RDMA_OPEN,
	L5_RDMA_MOVING,
	L5_RDMA_DONE,
	L5_RDMA_FAILED
};

/*
 * net.l5.rdma_notify: how the sender of records over RDMA publishes them. The
 * ring is the same with each of them (Fent et al., figure 8).
 *
 * L5_NOTIFY_TWO: a WRITE of all but the first header, then a WRITE of that
 *	header
 * L5_NOTIFY_ONE: one WRITE of everything; the word after the last record says
 *	to the receiver's kernel, which looks twice, that all of it is there
 * L5_NOTIFY_IMM: one WRITE with immediate data of all but the first header; the
 *	receiver's kernel writes that header when the WRITE completes
 * L5_NOTIFY_SEND: SENDs, which the receiver's kernel copies into the ring
 * L5_NOTIFY_AUTO: L5_NOTIFY_IMM with a device that is software, whose every
 *	packet costs a CPU more than a completion does, else L5_NOTIFY_TWO
 *
 * If the receiver's host does not say, by net.l5.rdma_safe, that a way is safe
 * for it, L5_NOTIFY_IMM is used instead.
 */
#define L5_NOTIFY_TWO		0
#define L5_NOTIFY_ONE		1
#define L5_NOTIFY_IMM		2
#define L5_NOTIFY_SEND		3
#define L5_NOTIFY_AUTO		4

/*
 * The memory of a connection carried by rings is mapped from its socket,
 * MAP_SHARED, in areas that L5_IOC_MAP_INFO tells of. An area that only the
 * peer or the kernel writes is PROT_READ alone and cannot become anything else.
 * Areas that lie side by side in the file may be mapped by one call: that is
 * cheaper, and a process may have only so many mappings.
 * The errors of mmap(): ENOTCONN if the socket is not connected, closed or
 * revoked; EOPNOTSUPP if the bootstrap carries the connection, and for 32-bit
 * programs, which cannot load a cursor at once; ENOMEM. A child of fork() has
 * none of the mappings and maps for itself. The pages of a ring that are not
 * between reader and writer may be exchanged at any time.
 */

/*
 * Version of all that is mapped and of the rules that mapped traffic keeps. 0
 * is not stable: its meaning is in the headers that the module was built with.
 */
#define L5_MAP_VERSION		0

/**
 * enum l5_area_kind - what an area is
 * @L5_AREA_CTRL: &struct l5_ctrl of this end, and written by it
 * @L5_AREA_PEER: &struct l5_ctrl of the peer
 * @L5_AREA_STATE: &struct l5_map_state, which the kernel writes
 * @L5_AREA_TX: data of the ring that this end writes
 * @L5_AREA_RX: data of the ring that this end reads
 * @L5_AREA_MAILBOX: of a listening socket: a byte for each accepted connection
 *	that RDMA carries. After each record that comes for such a connection,
 *	and after its end, its byte is set to something but 0; a thread that
 *	polls the mailbox clears the byte, then looks at the ring. A connection
 *	has a byte if RDMA took the connection after the mailbox was first
 *	mapped and while a byte was free, and keeps it until it is closed. A
 *	listener that does not answer for RDMA has none.
 *
 * @L5_AREA_REGION: a region that an end has made, see L5_IOC_REGION; any pages
 *	of it may be mapped, and not only all of them
 *
 * 8 and 9 will be: submission ring, completion ring. A program that does not
 * know a kind skips it.
 */
enum l5_area_kind {
	L5_AREA_CTRL = 1,
	L5_AREA_PEER,
	L5_AREA_STATE,
	L5_AREA_TX,
	L5_AREA_RX,
	L5_AREA_MAILBOX,
	L5_AREA_REGION,
};

/* Bits of l5_area.access */
#define L5_AREA_READ		0x1
#define L5_AREA_WRITE		0x2
#define L5_AREA_TWICE		0x4	/* mapped twice as long: twice */

/**
 * struct l5_area - a part of a socket's file that can be mapped, as a whole
 * @kind: an &enum l5_area_kind
 * @index: number of a region; 0 for areas of which there is one
 * @offset: for mmap()
 * @length: bytes, for mmap()
 * @access: L5_AREA_*
 * @reserved: 0
 */
struct l5_area {
	__u32 kind;
	__u32 index;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 access;
	__u32 reserved;
};

/*
 * Bits of l5_map_state.flags. A program that does not know one of the lower
 * half, see L5_MAP_MUST, leaves the memory alone and makes system calls, which
 * are always right; it may ignore those of the upper half.
 */
#define L5_MAP_TX_ASK		0x1	/* send by system call from now on */
#define L5_MAP_RX_ASK		0x2	/* an empty ring: ask recv() why */
#define L5_MAP_BELL		0x4	/* ring after whatever is published */
#define L5_MAP_GONE		0x8	/* the socket has left this memory */
#define L5_MAP_MUST		0xffff
#define L5_MAP_LEAVE		0xfff8	/* known or not: leave the rings */
#define L5_MAP_LOWAT		0x10000	/* SO_RCVLOWAT is set; a hint */

/**
 * struct l5_map_state - what the kernel says about a connection
 * @size: bytes of this struct that the kernel knows; the bytes after them are 0
 * @flags: L5_MAP_*; the first two and L5_MAP_GONE are never taken back
 * @generation: counts changes of @flags
 * @version: L5_MAP_VERSION of what is mapped, as L5_IOC_MAP_INFO agreed on it
 * @transport: an &enum l5_transport
 * @tx_size: bytes of the ring this end writes
 * @rx_size: bytes of the ring this end reads
 * @tx_ring: generation of the ring this end writes, 0 so far; treat a
 *	generation that you do not know as an unknown flag
 * @rx_ring: the same of the ring this end reads
 * @tx_extent: bytes of @tx_size that this end may use at a time: there is no
 *	memory behind more of them. A writer reads it anew for each record, when
 *	it has taken tx_lock
 * @tx_most: bytes that it may come to use, which SO_SNDBUF changes: a writer
 *	that needs more than @tx_extent asks for them (L5_IOC_ROOM), or makes
 *	the plain send() call. Programs are told that they can write as long as
 *	half of these, or 128 KiB, are free
 * @features: bits for flags that this end may give its records: none so far
 * @watch: gets another value as soon as a process that watches (L5_IOC_WATCH)
 *	has closed a descriptor of this end; never the value of another end
 * @tx_refused: counts how often memory for this end's ring was refused: then
 *	@tx_most was less, for a while
 * @regions_lost: counts regions that this end may not use any more. It changes
 *	before a region's pages are taken out of its mappings
 *
 * A receiver reads @flags before it finds the ring empty: records published
 * before the end come before the end. Once it has copied bytes, and before it
 * takes them, it reads @flags again: with L5_MAP_GONE set the bytes may be
 * zeros that stand in place of the memory. A sender reads @flags after it has
 * taken tx_lock, and again after it has published: if L5_MAP_TX_ASK came in
 * between, it rings L5_BELL_DATA, and the kernel does what TCP would.
 */
struct l5_map_state {
	__u32 size;
	__u32 flags;
	__u32 generation;
	__u32 version;
	__u32 transport;
	__u32 tx_size;
	__u32 rx_size;
	__u32 tx_ring;
	__u32 rx_ring;
	__u32 tx_extent;
	__aligned_u64 features;
	__aligned_u64 watch;
	__u32 tx_most;
	__u32 tx_refused;
	__aligned_u64 regions_lost;
};

/* The size of the first version, which ends before @tx_most */
#define L5_MAP_STATE_SIZE_VER0	56

/**
 * struct l5_watch - argument of L5_IOC_WATCH
 * @size: bytes of this
 * @fd: in: the descriptor by which the call is made
 * @watch: in: 0; out: the value that l5_map_state.watch keeps for as long as
 *	the process closes no descriptor of this socket
 */
struct l5_watch {
	__u32 size;
	__s32 fd;
	__aligned_u64 watch;
};

#define L5_WATCH_SIZE_VER0	16

/**
 * enum l5_region_op - what L5_IOC_REGION is to do
 * @L5_REGION_MAKE: make a region, of zeros; this end has made it from then on
 * @L5_REGION_GET: tell of a region that either end has made
 * @L5_REGION_UNSHARE: the other end is not to have it any more
 * @L5_REGION_END: neither end is to have it any more
 *
 * The last two are for the end that has made the region, and for whoever holds
 * a descriptor of it.
 */
enum l5_region_op {
	L5_REGION_MAKE = 1,
	L5_REGION_GET,
	L5_REGION_UNSHARE,
	L5_REGION_END,
};

/**
 * struct l5_region_arg - argument of L5_IOC_REGION
 * @size: in: bytes of this struct that the caller knows, at least
 *	L5_REGION_SIZE_VER0; more is fine if what the kernel does not know is 0
 * @op: in: an &enum l5_region_op
 * @index: in: the region's number, the same for both ends, never 0 and never
 *	another region's; of L5_REGION_MAKE in: 0, out: the number
 * @access: of L5_REGION_MAKE in: what the other end may do with the region:
 *	L5_AREA_READ, or that and L5_AREA_WRITE; of L5_REGION_GET in: 0, out:
 *	what this end may. Else 0
 * @length: of L5_REGION_MAKE in: bytes, L5_REGION_MAX at most, out: the same up
 *	to a whole page; of L5_REGION_GET in: 0, out: the length. Else 0
 * @offset: in: 0; of L5_REGION_MAKE and L5_REGION_GET out: for mmap()
 * @lost: in: 0; out: l5_map_state.regions_lost before the call looked at the
 *	region
 * @flags: 0
 * @reserved: 0
 *
 * An error leaves it as it was.
 */
struct l5_region_arg {
	__u32 size;
	__u32 op;
	__u32 index;
	__u32 access;
	__aligned_u64 length;
	__aligned_u64 offset;
	__aligned_u64 lost;
	__u32 flags;
	__u32 reserved;
};

#define L5_REGION_SIZE_VER0	48

/* Bytes of a region at most, and regions that an end may have at a time */
#define L5_REGION_MAX		0x100000000ull
#define L5_REGIONS_MAX		64

/**
 * struct l5_map_info - argument of L5_IOC_MAP_INFO
 * @size: in: bytes of this struct that the caller knows, at least
 *	L5_MAP_INFO_SIZE_VER0; they may be more than the kernel knows if those
 *	beyond are all 0 (else E2BIG); out: bytes that the kernel knows, of
 *	which it writes at most as many as the caller knows
 * @version_min: in: the oldest L5_MAP_VERSION that the caller understands;
 *	out: the oldest that the kernel understands. It is written also if the
 *	two have no version in common, and the call is EPROTONOSUPPORT: then the
 *	caller does not map, and the connection goes on by system calls.
 * @version_max: in: the newest that the caller understands; out: the newest
 *	that the kernel understands
 * @version: in: 0; out: the version that holds
 * @features: in: the flags of a record (L5_REC_*) that the caller understands,
 *	and L5_MAP_MESSAGES if it does so; out: those that a record of this
 *	connection may have, and L5_MAP_MESSAGES if each is a message. If the
 *	caller does not understand one of these the call is EPROTONOSUPPORT,
 *	too, with @features written; what only the caller knows is no error.
 * @areas: in: address of an array of &struct l5_area, which the kernel fills
 * @nareas: in: how many areas the array has room for; out: how many there are
 * @id: in: 0; out: for the lock words: the number of the calling process's
 *	mapping of this end, 0 if it has none
 * @tx_size: in: 0; out: bytes of the ring this end writes
 * @rx_size: in: 0; out: bytes of the ring this end reads
 * @mailbox: in: 0; out: 1 and the number of the byte that this connection has
 *	in the mailbox of its listener, 0 if it has none
 * @reserved: 0
 */
struct l5_map_info {
	__u32 size;
	__u32 version_min;
	__u32 version_max;
	__u32 version;
	__aligned_u64 features;
	__aligned_u64 areas;
	__u32 nareas;
	__u32 id;
	__u32 tx_size;
	__u32 rx_size;
	__u32 mailbox;
	__u32 reserved;
};

/*
 * Each record is a message, and no part of a stream: for l5_map_info.features,
 * whose lower half is for flags of records. A writer publishes a message as one
 * record, also an empty one, while no more than half of tx_most is in use, see
 * &struct l5_map_state; it is no longer than a record in half a ring may be
 * (l5_rec_max()). A reader takes a record whole, however much it had use for,
 * and with L5_MAP_RX_ASK set it makes system calls: an error comes before the
 * messages that are there.
 */
#define L5_MAP_MESSAGES		0x100000000ull

/* The size of the first version; no version is shorter. */
#define L5_MAP_INFO_SIZE_VER0	56

/*
 * Arguments of the calls below: these say which wait words, the peer's or the
 * own.
 */
#define L5_BELL_DATA		0x1	/* rx_wait */
#define L5_BELL_ROOM		0x2	/* tx_wait */

/* A lock word */
#define L5_LOCK_TX		0
#define L5_LOCK_RX		1

/*
 * Calls on a connection carried by rings; on others they give the errors of
 * mmap() above.
 *
 * L5_IOC_MAP_INFO: what each side understands and what there is to map, also of
 *	a listening socket. The number of the call stays the same when the
 *	struct grows: the struct's size is in its first word.
 * L5_IOC_DOORBELL: wake a peer that armed the wait words in the argument.
 * L5_IOC_ARM: arm the own wait words; returns which of them need no waiting.
 *	Then poll(), or any other sleep in the kernel, does not miss the
 *	doorbell.
 * L5_IOC_LOCK: sleep while the lock word is held, but no longer than 20 ms.
 *	Returns 0, or EINTR if there is a signal that would end a send(), or a
 *	recv(). The word may be held for ever, if only by a value that some
 *	process wrote to it: the caller counts the time, and makes the plain
 *	send() or recv() call once the time is up.
 * L5_IOC_UNLOCK: wake the tasks that sleep for the lock word.
 * L5_IOC_ROOM: have memory behind so many bytes of the ring that this end
 *	writes: l5_map_state.tx_extent becomes that or more. Only with tx_lock
 *	held by the caller's number, or the call is EINVAL, as with more bytes
 *	than the ring has. ENOMEM or EAGAIN if there is no memory for now: then
 *	l5_map_state.tx_most says so, too. A send() gets memory by itself.
 * L5_IOC_WATCH: have the closing of descriptors told. A process may keep in
 *	mind that a number means this socket. Before it relies on that, it
 *	compares l5_map_state.watch with the value that this call returned. The
 *	two differ once the process, or any task with the same descriptor table,
 *	has closed or replaced any descriptor of this socket, by whatever means.
 *	Then the process makes this call once more, on one number: if the number
 *	no longer means this socket, the call is EBADF, or the error of an
 *	ioctl() on another kind of file. Descriptors that other processes close,
 *	also a child of fork(), do not matter. The watch is a lock of the kind
 *	of fcntl(F_SETLK), to read, of the last byte that a file can have;
 *	EAGAIN if another such lock is in its way.
 * L5_IOC_REGION: memory beside the rings, of a size of the caller's choice,
 *	which both ends can map from their sockets (MAP_SHARED, L5_AREA_REGION).
 *	The end that makes it may write; the other end has the rights that it is
 *	given. It is never longer or shorter than it was made, has no holes, and
 *	no access to it is SIGBUS. It is the module's memory: the caller pays,
 *	RLIMIT_MEMLOCK counts, and pages cannot be pinned (EFAULT from what
 *	tries). An end loses a region by L5_REGION_UNSHARE and L5_REGION_END,
 *	once its own socket, or that of the end that made it, is closed, and if
 *	the connection is revoked. What a process has mapped of a lost region
 *	shows zeros, then what that mapping alone has written. Once an operation
 *	on the memory is done, a process looks whether regions_lost is what it
 *	was before: if so, the operation was on the region; else L5_REGION_GET
 *	says whether the region is still there. No process of an end writes to a
 *	region any more when the call that took it from this end has returned.
 *	ENOENT if there is no such region for this end, or if it is not its
 *	maker; ENOSPC if it has L5_REGIONS_MAX; EFBIG for a longer one; EDQUOT
 *	at a limit of net.l5; ENOMEM, also at RLIMIT_MEMLOCK; EOPNOTSUPP if the
 *	ends are not on one host.
 *
 * For a program that may make no ioctl(), send() of no bytes is
 * L5_IOC_DOORBELL and L5_IOC_UNLOCK in one; with L5_MSG_BELL, a flag that means
 * nothing to TCP, the call tells of no error and takes none. Calls that wait
 * for data ring, too. With bytes, the flag says that a send() or recv() is the
 * rest of one that has moved some by the rings: it returns 0 where it would
 * tell an error, or the end, and leaves that to the next call.
 */
#define L5_IOC_MAP_INFO		_IOWR('L', 0xc0, __u32)
/*
 * The argument is passed by value, and points to no memory. This encoding says
 * so to tools that watch memory, too, without their being told of these
 * numbers.
 */
#define L5_IOC_VALUE(nr)	_IOC(_IOC_WRITE, 'L', (nr), 0)
#define L5_IOC_DOORBELL		L5_IOC_VALUE(0xc1)
#define L5_IOC_ARM		L5_IOC_VALUE(0xc2)
#define L5_IOC_LOCK		L5_IOC_VALUE(0xc3)
#define L5_IOC_UNLOCK		L5_IOC_VALUE(0xc4)
#define L5_IOC_WATCH		_IOWR('L', 0xc5, struct l5_watch)
#define L5_IOC_ROOM		L5_IOC_VALUE(0xc6)
#define L5_IOC_REGION		_IOWR('L', 0xc7, __u32)

#define L5_MSG_BELL		0x10	/* MSG_PROBE */

#endif /* _UAPI_LINUX_L5_H */
