// SPDX-License-Identifier: GPL-2.0
/*
 * Where AF_L5 answers otherwise than TCP or AF_UNIX, and why. This is the only
 * such list: Documentation/deviations.md is made from it ("make -C selftests
 * deviations"). A difference that is not here fails the suite, as does an entry
 * that is no difference any more.
 */
#include "diff_core.h"

#define OOB_REASON							\
	"no urgent data on rings: sending it is EOPNOTSUPP, there is none "\
	"to read, and the mark is never reached; programs that need it "\
	"set L5_FORCE"
#define PEEK_REASON							\
	"SO_PEEK_OFF is refused, as TCP did before Linux 6.9"

#define PEERSEC_REASON							\
	"SO_PEERSEC is unknown, as on TCP: what a security module keeps of "\
	"the peer of an AF_UNIX socket is the bootstrap's. AppArmor keeps it "\
	"in newer kernels"

#define INQ_REASON							\
	"SO_INQ is unknown, as it was to AF_UNIX before Linux 6.17"

#define PEEK_FILES_REASON						\
	"a peek brings the descriptors of the bytes that it copies; "	\
	"AF_UNIX's brings those of the next message as well"
#define END_CREDS_REASON						\
	"at the end of a stream a receiver that asks is told that nobody "	\
	"sent it; AF_UNIX names user 0"
#define LOWAT_REASON							\
	"poll waits for SO_RCVLOWAT bytes, as on TCP; AF_UNIX does not"
#define ERRQUEUE_REASON							\
	"MSG_ERRQUEUE asks for errors and never takes data, as on TCP; "\
	"AF_UNIX overlooks it"

#define EMPTY_REASON							\
	"an end that closes with a message unread resets its peer, be the "	\
	"message empty; newer AF_UNIX does not count an empty one"

#define QUICKACK_REASON							\
	"turning TCP_QUICKACK off before connect() is overlooked: it would "\
	"hold back the packet by which the two ends meet"

#define SNDBUF_REASON							\
	"a ring's size is fixed when the two ends meet: SO_SNDBUF set later "\
	"says how much of it is used, and what is raised beyond it is no "\
	"room for a writer that waits"

#define CORK_REASON							\
	"a ring keeps nothing back: what TCP_CORK or MSG_MORE would let "\
	"wait for more, 200 ms at most, the peer sees at once; so it does "	\
	"what TCP holds back itself where TCP_NODELAY is not set, and a "	\
	"peer that closes without having read it sends a reset where TCP's "	\
	"would send a FIN (ECONNRESET, not EPIPE)"

#define ULP_REASON							\
	"TLS in the kernel is TCP's: TCP_ULP before connect() or listen() "\
	"keeps TCP, and is refused once there are rings; then libraries of "\
	"TLS go on without it"

/* A plain end of a mixed pair answers as TCP does. */
#define BOTH_ENDS	(V_RING | V_FORCED)
#define BOTH_TCP	(BOTH_ENDS & ~V_UN)
#define ONE_END		(V_TO_PLAIN | V_FROM_PLAIN)

const struct deviation deviations[] = {
	/* scenario, call, where, TCP or AF_UNIX, AF_L5, either, reason */
	{ "oob", "send(c->a, \"c\", 1, MSG_OOB)", V_RING,
	  "1", "-1 EOPNOTSUPP", false, OOB_REASON, D_ALWAYS },
	{ "oob", "poll c->b", V_RING,
	  "1 IN|PRI|OUT|RDNORM|*", "1 IN|OUT|RDNORM|*", false,
	  OOB_REASON, D_ALWAYS },
	{ "oob", "recv(c->b, buf, 1, MSG_OOB)", V_RING,
	  "1", "-1 EINVAL", false, OOB_REASON, D_ALWAYS },
	{ "oob", "read past it", V_RING, "2", "3", false,
	  OOB_REASON, D_ALWAYS },
	{ "oob", "data buf", V_RING,
	  "2 bytes 6162 *", "3 bytes 616264 *", false, OOB_REASON, D_ALWAYS },
	{ "oob", "mark", V_RING, "1", "0", false, OOB_REASON, D_ALWAYS },
	{ "oob", "send(c->a, \"\", 0, MSG_OOB)", V_RING,
	  "0", "-1 EOPNOTSUPP", false, OOB_REASON, D_ALWAYS },
	{ "types", "socket(fam, SOCK_STREAM, 12345)", BOTH_ENDS & ~V_UN,
	  "-1 EINVAL", "-1 EPROTONOSUPPORT", false,
	  "the third argument is an address family here, not a number of "
	  "IP's, so there is no limit that it breaks", D_ALWAYS },
	{ "get_socket_level", "getsockopt * level 1 option 42 length *",
	  BOTH_ENDS,
	  "length *", "-1 EOPNOTSUPP", false, PEEK_REASON, D_ALWAYS },
	{ "set_connected", "setsockopt * 1 42 to -1", BOTH_ENDS,
	  "0", "-1 EOPNOTSUPP", false, PEEK_REASON, D_ALWAYS },
	{ "set_[!c]*", "setsockopt * 1 42 to -1", BOTH_ENDS,
	  "0", "-1 EOPNOTSUPP", false, PEEK_REASON, D_KERNEL },
	{ "set_*", "then getsockopt * 1 42", BOTH_ENDS,
	  "length *", "-1 EOPNOTSUPP", false, PEEK_REASON, D_ALWAYS },
	{ "peek_offset", "*SO_PEEK_OFF*", BOTH_ENDS,
	  "0", "-1 EOPNOTSUPP", false, PEEK_REASON, D_ALWAYS },
	{ "get_socket_level", "getsockopt * level 1 option 42 length *",
	  ONE_END,
	  "length *", "-1 EOPNOTSUPP", true, PEEK_REASON, D_ALWAYS },
	{ "set_connected", "setsockopt * 1 42 to -1", ONE_END,
	  "0", "-1 EOPNOTSUPP", true, PEEK_REASON, D_ALWAYS },
	{ "set_[!c]*", "setsockopt * 1 42 to -1", ONE_END,
	  "0", "-1 EOPNOTSUPP", true, PEEK_REASON, D_KERNEL },
	{ "set_*", "then getsockopt * 1 42", ONE_END,
	  "length *", "-1 EOPNOTSUPP", true, PEEK_REASON, D_ALWAYS },
	{ "peek_offset", "*SO_PEEK_OFF*", ONE_END,
	  "0", "-1 EOPNOTSUPP", true, PEEK_REASON, D_ALWAYS },
	{ "get_socket_level", "getsockopt * level 1 option 31 length *", V_UN,
	  "*", "-1 ENOPROTOOPT", true, PEERSEC_REASON, D_ALWAYS },
	{ "set_*", "setsockopt * 1 84 to 1", V_UN,
	  "0", "-1 ENOPROTOOPT", false, INQ_REASON, D_ALWAYS },
	{ "types", "socket(fam, SOCK_STREAM, -1)", V_UN,
	  "-1 EPROTONOSUPPORT", "-1 EINVAL", false,
	  "a negative protocol is refused as TCP refuses it", D_ALWAYS },
	{ "asked_late", "from", V_UN, "nobody, 0, 0", "nobody, 65534, 65534",
	  true, END_CREDS_REASON, D_ALWAYS },
	{ "peeked", "m.msg_flags", V_UN, "8", "0", true,
	  PEEK_FILES_REASON, D_ALWAYS },
	{ "errqueue", "recv(c->a, buf, 9, MSG_ERRQUEUE | MSG_DONTWAIT)", V_UN,
	  "3", "-1 EAGAIN", false, ERRQUEUE_REASON, D_ALWAYS },
	{ "errqueue", "recv(c->a, buf, 9, MSG_DONTWAIT)", V_UN,
	  "-1 EAGAIN", "3", false, ERRQUEUE_REASON, D_ALWAYS },
	{ "ioctls", "ioctl 0x890[67]", V_UN,
	  "-1 ENOTTY", "-1 ENOENT", false,
	  "SIOCGSTAMP is known, as it is to TCP, and there is no stamp",
	  D_ALWAYS },
	{ "own_shutdown_while_writing", "caught", V_UN, "0", "1", false,
	  "EPIPE comes with SIGPIPE also to a writer that slept, as on TCP",
	  D_ALWAYS },
	{ "closed_empty_unread", "so_error(c->b)", V_PACKETS, "0", "104",
	  true, EMPTY_REASON, D_ALWAYS },
	{ "set_fresh", "then getsockopt fresh 6 12", BOTH_TCP,
	  "length 4 * 0", "length 4 * 1", false, QUICKACK_REASON, D_ALWAYS },
	{ "set_fresh", "then getsockopt fresh 6 12", ONE_END,
	  "length 4 * 0", "length 4 * 1", true, QUICKACK_REASON, D_ALWAYS },
	{ "sndbuf_raised", "send(c->a, buf, 1000, 0)", V_RING,
	  "1000", "-1 EAGAIN", false, SNDBUF_REASON, D_ALWAYS },
	{ "sndbuf_raised", "poll c->a", V_RING,
	  "1 OUT|*", "0 ", false, SNDBUF_REASON, D_ALWAYS },
	{ "more_unseen", "seen of what MSG_MORE keeps", V_RING_TCP,
	  "0", "4", true, CORK_REASON, D_ALWAYS },
	{ "cork", "seen of what TCP_CORK keeps", V_RING_TCP,
	  "0", "4", true, CORK_REASON, D_ALWAYS },
	{ "tls_after_connect", "setsockopt(*, TCP_ULP, *", V_RING_TCP,
	  "*", "-1 EOPNOTSUPP", true, ULP_REASON, D_ALWAYS },
	{ "epoll_two", "epoll", V_RING, "2 *", "1 *", true,
	  "what the library finds ready it returns at once; what only the "
	  "kernel knows (here a duplicate of a closed descriptor) may come "
	  "with the next call", D_FULL },
};

const int deviations_n = ARRAY_SIZE(deviations);
