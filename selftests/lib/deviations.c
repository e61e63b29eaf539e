// SPDX-License-Identifier: GPL-2.0
/*
 * Where AF_L5 answers otherwise than TCP or AF_UNIX, and why. The only such
 * list: Documentation/deviations.md is made from it ("make -C selftests
 * deviations"), and a difference that is not here fails the suite, as does
 * an entry here that is no difference any more.
 */
#include "diff_core.h"

#define OOB_REASON							\
	"no urgent data on rings: sending it is EOPNOTSUPP, there is none "\
	"to read, and the mark is never reached; programs that need it "\
	"set L5_FORCE"
#define NUMBER_REASON							\
	"the socket says its own family and protocol; the library of l5run "\
	"answers what the program asked socket() for"

#define PEEK_REASON							\
	"SO_PEEK_OFF is refused, as TCP did before Linux 6.9"

#define RIGHTS_REASON							\
	"a ring carries bytes: descriptors are refused, and travel over a "\
	"plain AF_UNIX socket"
#define LOWAT_REASON							\
	"poll waits for SO_RCVLOWAT bytes, as on TCP; AF_UNIX does not"
#define ERRQUEUE_REASON							\
	"MSG_ERRQUEUE asks for errors and never takes data, as on TCP; "\
	"AF_UNIX overlooks it"

#define REUSEPORT_REASON						\
	"the kernel keeps SO_REUSEPORT to its own families; the library "\
	"of l5run sets it at level SOL_L5_SOCKET"
#define ZEROCOPY_REASON							\
	"the kernel keeps SO_ZEROCOPY to its own families; without it "	\
	"MSG_ZEROCOPY copies and reports nothing"
#define QUICKACK_REASON							\
	"turning TCP_QUICKACK off before connect() is overlooked: it would "\
	"hold back the packet by which the two ends meet"

/* A plain end of a mixed pair answers as TCP does. */
#define BOTH_ENDS	(V_RING | V_FORCED)
#define BOTH_TCP	(BOTH_ENDS & ~V_UN)
#define ONE_END		(V_TO_PLAIN | V_FROM_PLAIN)

const struct deviation deviations[] = {
	/* scenario, call, where, TCP or AF_UNIX, AF_L5, either, reason */
	{ "oob", "send(c->a, \"c\", 1, MSG_OOB)", V_RING,
	  "1", "-1 EOPNOTSUPP", false, OOB_REASON },
	{ "oob", "poll c->b", V_RING,
	  "1 IN|PRI|OUT|RDNORM|*", "1 IN|OUT|RDNORM|*", false, OOB_REASON },
	{ "oob", "recv(c->b, buf, 1, MSG_OOB)", V_RING,
	  "1", "-1 EINVAL", false, OOB_REASON },
	{ "oob", "read past it", V_RING, "2", "3", false, OOB_REASON },
	{ "oob", "data buf", V_RING,
	  "2 bytes 6162 *", "3 bytes 616264 *", false, OOB_REASON },
	{ "oob", "mark", V_RING, "1", "0", false, OOB_REASON },
	{ "oob", "send(c->a, \"\", 0, MSG_OOB)", V_RING,
	  "0", "-1 EOPNOTSUPP", false, OOB_REASON },
	{ "types", "socket(fam, SOCK_STREAM, 12345)", BOTH_ENDS & ~V_UN,
	  "-1 EINVAL", "-1 EPROTONOSUPPORT", false,
	  "the third argument is an address family here, not a number of "
	  "IP's, so there is no limit that it breaks" },
	{ "get_socket_level", "getsockopt * level 1 option 3[89] length *",
	  BOTH_ENDS, "*", "*", true, NUMBER_REASON },
	{ "get_socket_level", "getsockopt * level 1 option 3[89] length *",
	  ONE_END, "*", "*", true, NUMBER_REASON },
	{ "set_*", "then getsockopt * 1 3[89]",
	  BOTH_ENDS, "*", "*", false, NUMBER_REASON },
	{ "set_*", "then getsockopt * 1 3[89]",
	  ONE_END, "*", "*", true, NUMBER_REASON },
	{ "get_socket_level", "getsockopt * level 1 option 42 length *", V_UN,
	  "length *", "-1 EOPNOTSUPP", false, PEEK_REASON },
	{ "set_*", "setsockopt * 1 42 to -1", V_UN,
	  "0", "-1 EOPNOTSUPP", false, PEEK_REASON },
	{ "set_*", "then getsockopt * 1 42", V_UN,
	  "length *", "-1 EOPNOTSUPP", false, PEEK_REASON },
	{ "peek_offset", "*SO_PEEK_OFF*", V_UN,
	  "0", "-1 EOPNOTSUPP", false, PEEK_REASON },
	{ "set_connected", "then getsockopt connected 1 18",
	  V_ALL & ~V_UN, "*16777216", "*3145728", false,
	  "after connect() SO_RCVBUF is remembered, but a ring keeps its "
	  "size, and so SO_RCVLOWAT its limit" },
	{ "types", "socket(fam, SOCK_STREAM, -1)", V_UN,
	  "-1 EPROTONOSUPPORT", "-1 EINVAL", false,
	  "a negative protocol is refused as TCP refuses it" },
	{ "passes_a_file", "pass(c->a, p*)", V_UN,
	  "1", "-1 EOPNOTSUPP", false, RIGHTS_REASON },
	{ "passes_a_file", "poll c->b", V_UN,
	  "1 IN|OUT|*", "1 OUT|*", false, RIGHTS_REASON },
	{ "passes_a_file", "received *", V_UN, "1", "*", false,
	  RIGHTS_REASON },
	{ "passes_credentials", "credentials", V_UN, "1", "0", false,
	  "bytes in a ring do not say who wrote them: SO_PASSCRED before "
	  "connect() or listen() keeps AF_UNIX, later it brings nothing" },
	{ "errqueue", "recv(c->a, buf, 9, MSG_ERRQUEUE | MSG_DONTWAIT)", V_UN,
	  "3", "-1 EAGAIN", false, ERRQUEUE_REASON },
	{ "errqueue", "recv(c->a, buf, 9, MSG_DONTWAIT)", V_UN,
	  "-1 EAGAIN", "3", false, ERRQUEUE_REASON },
	{ "ioctls", "ioctl 0x890[67]", V_UN,
	  "-1 ENOTTY", "-1 ENOENT", false,
	  "SIOCGSTAMP is known, as it is to TCP, and there is no stamp" },
	{ "own_shutdown_while_writing", "caught", V_UN, "0", "1", false,
	  "EPIPE comes with SIGPIPE also to a writer that slept, as on TCP" },
	{ "reuse", "setsockopt(l?, SOL_SOCKET, SO_REUSEPORT, *",
	  BOTH_TCP | V_FROM_PLAIN, "0", "-1 EOPNOTSUPP", false,
	  REUSEPORT_REASON },
	{ "reuse", "bind(l4, SA(&x), x.len)", BOTH_TCP | V_FROM_PLAIN,
	  "0", "-1 EADDRINUSE", false, REUSEPORT_REASON },
	{ "set_*", "setsockopt * 1 15 to 1", BOTH_TCP,
	  "0", "-1 EOPNOTSUPP", false, REUSEPORT_REASON },
	{ "set_*", "setsockopt * 1 15 to 1", ONE_END,
	  "0", "-1 EOPNOTSUPP", true, REUSEPORT_REASON },
	{ "set_*", "then getsockopt * 1 15", BOTH_TCP,
	  "length 4 * 1", "length 4 * 0", false, REUSEPORT_REASON },
	{ "set_*", "then getsockopt * 1 15", ONE_END,
	  "length 4 * 1", "length 4 * 0", true, REUSEPORT_REASON },
	{ "set_fresh", "then getsockopt fresh 6 12", BOTH_TCP,
	  "length 4 * 0", "length 4 * 1", false, QUICKACK_REASON },
	{ "set_fresh", "then getsockopt fresh 6 12", ONE_END,
	  "length 4 * 0", "length 4 * 1", true, QUICKACK_REASON },
	{ "zerocopy_option", "setsockopt(s, SOL_SOCKET, SO_ZEROCOPY, *",
	  BOTH_TCP | V_TO_PLAIN, "0", "-1 EOPNOTSUPP", false,
	  ZEROCOPY_REASON },
	{ "zerocopy_option", "poll s", BOTH_TCP | V_TO_PLAIN,
	  "1 OUT|ERR|WRNORM", "1 OUT|WRNORM", false, ZEROCOPY_REASON },
	{ "acceptconn_and_type", "SO_DOMAIN of *", BOTH_ENDS,
	  "*", "*", false, NUMBER_REASON },
	{ "acceptconn_and_type", "SO_DOMAIN of *", ONE_END,
	  "*", "*", true, NUMBER_REASON },
	{ "acceptconn_and_type", "SO_PROTOCOL of *", V_ALL,
	  "*", "*", true, NUMBER_REASON },
};

const int deviations_n = ARRAY_SIZE(deviations);
