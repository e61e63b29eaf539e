/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the words of a call stand for where they are small numbers: the
 * generator chooses among them, and the lane that makes the call looks them up.
 */
#ifndef FZ_POOL_H
#define FZ_POOL_H

/* Addresses, see where.c; FZ_OF_*: whatever the socket of a slot has */
enum fz_addr {
	FZ_V4_1, FZ_V4_2, FZ_V4_3, FZ_V4_ANY, FZ_V4_PORT0, FZ_V4_FAR,
	FZ_V4_NEAR, FZ_V4_OTHER, FZ_OF_V4,
	FZ_V6_1, FZ_V6_2, FZ_V6_ANY, FZ_V6_PORT0,
	FZ_MAPPED_1, FZ_MAPPED_2, FZ_OF_V6,
	FZ_ABSTRACT_1, FZ_ABSTRACT_2, FZ_ABSTRACT_3, FZ_PATH_1, FZ_PATH_2,
	FZ_AUTOBIND, FZ_OF_UNIX,
	FZ_UNSPEC, FZ_FAMILY_L5, FZ_FAMILY_NONE,
	FZ_ADDRS
};

/* How long an address, or a value, is said to be */
enum fz_len {
	FZ_LEN_RIGHT, FZ_LEN_0, FZ_LEN_1, FZ_LEN_2, FZ_LEN_SHORT, FZ_LEN_LONG,
	FZ_LEN_PAGE, FZ_LEN_NEGATIVE, FZ_LEN_HUGE,
	FZ_LENS
};

/* How bytes are sent, or received */
enum fz_way {
	FZ_WAY_MSG, FZ_WAY_PLAIN, FZ_WAY_RW, FZ_WAY_VEC, FZ_WAY_ADDR,
	FZ_WAY_MMSG, FZ_WAY_FILE, FZ_WAY_SPLICE, FZ_WAY_NOWAIT,
	FZ_WAYS
};

/* Where bytes come from, or go to: bits 8 to 15 of what says the way */
enum fz_buf {
	FZ_BUF_OWN, FZ_BUF_NULL, FZ_BUF_BAD, FZ_BUF_RING, FZ_BUF_EDGE,
	FZ_BUF_LATE,
	FZ_BUFS
};

/* Levels of options */
enum fz_level {
	FZ_SOL_SOCKET, FZ_SOL_TCP, FZ_SOL_IP, FZ_SOL_IPV6, FZ_SOL_L5,
	FZ_SOL_L5_SOCKET, FZ_SOL_TLS, FZ_SOL_ODD,
	FZ_LEVELS
};

/* Values of options: bits 0 to 7; the length is in 8 to 15, a word above */
enum fz_value {
	FZ_VAL_0, FZ_VAL_1, FZ_VAL_MINUS, FZ_VAL_MAX, FZ_VAL_MIN, FZ_VAL_SMALL,
	FZ_VAL_INET, FZ_VAL_ANY, FZ_VAL_ZEROS, FZ_VAL_BYTES, FZ_VAL_LO,
	FZ_VAL_TLS,
	FZ_VAL_RENO, FZ_VAL_LINGER, FZ_VAL_TIME, FZ_VAL_FILTER, FZ_VAL_BAD,
	FZ_VALUES
};

/* Calls of ioctl() */
enum fz_ioc {
	FZ_IOC_DOORBELL, FZ_IOC_ARM, FZ_IOC_LOCK, FZ_IOC_UNLOCK, FZ_IOC_ROOM,
	FZ_IOC_WATCH, FZ_IOC_REGION,
	FZ_IOC_NREAD, FZ_IOC_OUTQ, FZ_IOC_ATMARK, FZ_IOC_ASYNC, FZ_IOC_OWNER,
	FZ_IOC_STAMP, FZ_IOC_UNIXFILE, FZ_IOC_ODD,
	FZ_IOCS
};

/* What is written into a mapping, and where */
enum fz_where {
	FZ_AT_TX_TAIL, FZ_AT_TX_BYTES, FZ_AT_RX_HEAD, FZ_AT_RX_POS,
	FZ_AT_RX_BYTES, FZ_AT_RX_WAIT, FZ_AT_TX_WAIT, FZ_AT_TX_LOCK,
	FZ_AT_RX_LOCK, FZ_AT_PEER_HEAD, FZ_AT_OWN_TAIL, FZ_AT_NEAR, FZ_AT_ANY,
	FZ_WHERES
};

enum fz_word {
	FZ_WORD_0, FZ_WORD_SMALL, FZ_WORD_SIZE, FZ_WORD_ONES, FZ_WORD_BIT,
	FZ_WORD_ANY, FZ_WORD_OWN_TAIL, FZ_WORD_OWN_HEAD, FZ_WORD_PEER_TAIL,
	FZ_WORD_PEER_HEAD, FZ_WORD_RECORD, FZ_WORD_LONG_RECORD,
	FZ_WORD_FLAGGED, FZ_WORD_LOCK_KERNEL, FZ_WORD_LOCK_DIED,
	FZ_WORD_LOCK_ID, FZ_WORD_LOCK_ANY,
	FZ_WORDS
};

/* /proc/sys of a namespace, see proc.c */
enum { FZ_SYSCTLS = 19, FZ_PROC_FILES = 6, FZ_RULES = 10 };

/* Calls on the socket's file, advices, parts of a mapping */
enum { FZ_FILE_CALLS = 14, FZ_ADVICES = 14, FZ_PARTS = 4, FZ_FCNTLS = 12 };

enum fz_uring {
	FZ_URING_SEND, FZ_URING_RECV, FZ_URING_POLL, FZ_URING_ACCEPT,
	FZ_URING_CONNECT, FZ_URING_SHUTDOWN, FZ_URING_CLOSE, FZ_URING_READ,
	FZ_URING_WRITE, FZ_URING_CANCEL, FZ_URING_SEND_ZC,
	FZ_URINGS
};

#endif /* FZ_POOL_H */
