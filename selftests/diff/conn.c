// SPDX-License-Identifier: GPL-2.0
/* Coming into being: socket, bind, listen, connect, accept, names. */
#define DIFF	diff_conn
#include "diff.h"

#include <sys/stat.h>
#include <sys/time.h>

static char buf[4096];

/* Where nothing listens: the address of a bound socket that never will. */
static int nobody(struct ctx *c, struct addr *a)
{
	int s = sv_socket(c, 0);

	addr_new(c, a);
	if (bind(s, SA(a), a->len))
		abort();
	addr_of(s, a);
	return s;
}

static void names(struct ctx *c, const char *what, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(&ss, 0, sizeof(ss));
	errno = 0;
	log_ret(c, what, getsockname(fd, (void *)&ss, &len));
	log_addr(c, "own name", (void *)&ss, len);
	len = sizeof(ss);
	memset(&ss, 0, sizeof(ss));
	errno = 0;
	if (!getpeername(fd, (void *)&ss, &len))
		log_addr(c, "peer name", (void *)&ss, len);
	else
		log_ret(c, "getpeername", -1);
}

SCENARIO(names_at_each_stage)
{
	int s = cl_socket(c, 0), l, a;
	struct addr x;

	names(c, "fresh", s);
	addr_new(c, &x);
	R(bind(s, SA(&x), x.len));
	names(c, "bound", s);
	l = listener(c, 4);
	names(c, "listening", l);
	R(connect(s, SA(&c->la), c->la.len));
	names(c, "connected", s);
	a = OK(accept(l, NULL, NULL));
	names(c, "accepted", a);
	R(shutdown(a, SHUT_WR));
	P(s, POLLRDHUP);
	names(c, "half closed", s);
	R(shutdown(s, SHUT_WR));
	P(s, POLLHUP);
	settle(c);
	names(c, "closed", s);
	names(c, "closed, accepted", a);
	close(a);
	R(send(s, "x", 1, MSG_NOSIGNAL));
	names(c, "alone", s);
}

SCENARIO(name_lengths)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int i;

	pair(c);
	for (i = 0; i <= (int)c->la.len + 4; i += 3) {
		memset(&ss, 0x5a, sizeof(ss));
		len = i;
		R(getsockname(c->a, (void *)&ss, &len));
		N(len);
		V("untouched", "%d", ((char *)&ss)[i] == 0x5a);
		len = i;
		R(getpeername(c->a, (void *)&ss, &len));
		N(len);
	}
	len = -1;
	R(getsockname(c->a, (void *)&ss, &len));
	R(getpeername(c->a, (void *)&ss, &len));
	len = sizeof(ss);
	R(getsockname(c->a, bad_pointer(), &len));
	R(getsockname(c->a, (void *)&ss, bad_pointer()));
	R(getpeername(c->a, bad_pointer(), &len));
}

SCENARIO(accept_addresses)
{
	int l = listener(c, 8), i, s;
	struct sockaddr_storage ss;
	struct addr x;
	socklen_t len;

	for (i = 0; i <= 20; i += 4) {
		s = cl_socket(c, 0);
		addr_new(c, &x);
		OK(bind(s, SA(&x), x.len));
		OK(connect(s, SA(&c->la), c->la.len));
		len = i == 20 ? sizeof(ss) : (socklen_t)i;
		memset(&ss, 0, sizeof(ss));
		R(accept(l, (void *)&ss, &len) >= 0);
		N(len);
		if (i == 20)
			log_addr(c, "peer", (void *)&ss, len);
	}
	s = cl_socket(c, 0);
	OK(connect(s, SA(&c->la), c->la.len));
	len = -1;
	R(accept(l, (void *)&ss, &len));
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	/* The connection above is lost with its descriptor, or it is not. */
	R(accept(l, NULL, NULL) >= 0);
	s = cl_socket(c, 0);
	OK(connect(s, SA(&c->la), c->la.len));
	settle(c);
	len = sizeof(ss);
	R(accept(l, bad_pointer(), &len));
	R(accept(l, NULL, NULL) >= 0);
}

SCENARIO(accept_flags)
{
	int l = listener(c, 8), i, a, s[8];

	for (i = 0; i < 8; i++) {
		s[i] = cl_socket(c, 0);
		OK(connect(s[i], SA(&c->la), c->la.len));
	}
	settle(c);
	a = OK(accept4(l, NULL, NULL, SOCK_NONBLOCK));
	N(!!(fcntl(a, F_GETFL) & O_NONBLOCK));
	N(fcntl(a, F_GETFD));
	R(recv(a, buf, 1, 0));
	a = OK(accept4(l, NULL, NULL, SOCK_CLOEXEC));
	N(!!(fcntl(a, F_GETFL) & O_NONBLOCK));
	N(fcntl(a, F_GETFD));
	a = OK(accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	N(!!(fcntl(a, F_GETFL) & O_NONBLOCK));
	N(fcntl(a, F_GETFD));
	R(accept4(l, NULL, NULL, 0x1234));
	R(accept4(l, NULL, NULL, SOCK_DGRAM));
	a = OK(accept4(l, NULL, NULL, 0));
	N(!!(fcntl(a, F_GETFL) & O_NONBLOCK));
	/* The listener's mode is not its children's. */
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	a = OK(accept(l, NULL, NULL));
	N(!!(fcntl(a, F_GETFL) & O_NONBLOCK));
	R(accept(l, NULL, NULL) >= 0);
	R(accept(l, NULL, NULL) >= 0);
	R(accept(l, NULL, NULL) >= 0);
	R(accept(l, NULL, NULL));
	R(accept4(l, NULL, NULL, SOCK_NONBLOCK));
}

SCENARIO(accept_wrong)
{
	int s = cl_socket(c, 0);
	struct addr x;

	R(accept(s, NULL, NULL));
	addr_new(c, &x);
	OK(bind(s, SA(&x), x.len));
	R(accept(s, NULL, NULL));
	pair(c);
	R(accept(c->a, NULL, NULL));
	R(accept(c->b, NULL, NULL));
	R(accept(-1, NULL, NULL));
	R(accept(open("/dev/null", O_RDONLY), NULL, NULL));
}

SCENARIO(listen_wrong)
{
	int s = cl_socket(c, 0), l;
	struct addr x;

	pair(c);
	R(listen(c->a, 4));
	R(listen(c->b, 4));
	/* Twice, with any backlog. */
	l = listener(c, 4);
	R(listen(l, 8));
	R(listen(l, 0));
	R(listen(l, -1));
	R(listen(l, 1 << 30));
	addr_new(c, &x);
	R(bind(l, SA(&x), x.len));
	R(connect(l, SA(&c->la), c->la.len));
	P(l, 0);
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	R(accept(l, NULL, NULL));
	N(so_error(l));
	R(listen(s, 4));	/* unbound: TCP takes a port */
}

SCENARIO_ON(tcp, listen_unbound)
{
	int l = sv_socket(c, 0), s = cl_socket(c, 0);
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct addr x;

	R(listen(l, 4));
	names(c, "listening unbound", l);
	addr_of(l, &x);
	if (c->v->dom == AF_INET) {
		in.sin_port = ((struct sockaddr_in *)&x.ss)->sin_port;
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		R(connect(s, (void *)&in, sizeof(in)));
		R(accept(l, NULL, NULL) >= 0);
		check_transport(c, s, false);
	}
}

SCENARIO(bind_errors)
{
	int s = cl_socket(c, 0), t = cl_socket(c, 0), u = sv_socket(c, 0);
	struct addr x, y;
	socklen_t i;

	addr_new(c, &x);
	for (i = 0; i <= x.len; i++)
		if (i < x.len || is_unix(c)) {
			/* For AF_UNIX a shorter name is another name. */
			if (is_unix(c) && i > 2)
				break;
			R(bind(cl_socket(c, 0), SA(&x), i));
		}
	R(bind(s, SA(&x), sizeof(x.ss) + 1));
	R(bind(s, SA(&x), -1));
	R(bind(s, NULL, x.len));
	R(bind(s, bad_pointer(), x.len));
	y = x;
	y.ss.ss_family = AF_NETLINK;
	R(bind(s, SA(&y), y.len));
	y.ss.ss_family = AF_UNSPEC;
	R(bind(s, SA(&y), y.len));
	y.ss.ss_family = c->v->dom == AF_INET ? AF_INET6 : AF_INET;
	if (!is_unix(c))
		R(bind(t, SA(&y), sizeof(y.ss)));
	else
		R(bind(t, SA(&y), y.len));
	R(bind(u, SA(&x), x.len));
	addr_of(u, &y);
	R(bind(u, SA(&x), x.len));
	R(bind(cl_socket(c, 0), SA(&y), y.len));
	R(listen(u, 4));
	R(bind(cl_socket(c, 0), SA(&y), y.len));
	/* A name longer than needed. */
	addr_new(c, &x);
	R(bind(cl_socket(c, 0), SA(&x),
	       is_unix(c) ? (socklen_t)sizeof(struct sockaddr_un) :
			    (socklen_t)sizeof(x.ss)));
	pair(c);
	R(bind(c->a, SA(&x), x.len));
	R(bind(c->b, SA(&x), x.len));
}

SCENARIO_ON(tcp, bind_addresses)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	static const char *const hosts[] = {
		"192.0.2.1", "224.0.0.1", "255.255.255.255", "127.1.2.3",
		"0.0.0.0",
	};
	static const char *const hosts6[] = {
		"2001:db8::1", "ff02::1", "::1", "::", "::ffff:127.0.0.1",
		"fe80::1",
	};
	unsigned int i;

	if (c->v->dom == AF_INET) {
		for (i = 0; i < 5; i++) {
			inet_pton(AF_INET, hosts[i], &in.sin_addr);
			R(bind(sv_socket(c, 0), (void *)&in, sizeof(in)));
		}
		/* AF_UNSPEC with any address is let through. */
		in.sin_family = AF_UNSPEC;
		R(bind(sv_socket(c, 0), (void *)&in, sizeof(in)));
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		R(bind(sv_socket(c, 0), (void *)&in, sizeof(in)));
	} else {
		for (i = 0; i < 6; i++) {
			inet_pton(AF_INET6, hosts6[i], &in6.sin6_addr);
			R(bind(sv_socket(c, 0), (void *)&in6, sizeof(in6)));
		}
	}
}

SCENARIO_ON(un, bind_names)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = sv_socket(c, 0), l = sv_socket(c, 0);
	struct addr x;

	R(bind(s, (void *)&un, sizeof(sa_family_t)));	/* autobind */
	addr_of(s, &x);
	N(x.len);
	R(bind(s, (void *)&un, sizeof(sa_family_t)));
	strcpy(un.sun_path, "/nonexistent/dir/x");
	R(bind(l, (void *)&un, sizeof(un)));
	R(connect(cl_socket(c, 0), (void *)&un, sizeof(un)));
	strcpy(un.sun_path, "/dev/null");
	R(bind(l, (void *)&un, sizeof(un)));
	R(connect(cl_socket(c, 0), (void *)&un, sizeof(un)));
	memset(un.sun_path, 'x', sizeof(un.sun_path));
	R(connect(cl_socket(c, 0), (void *)&un, sizeof(un)));
	R(listen(sv_socket(c, 0), 4));
	/* The file is a socket, has the mode of its owner, and outlives it. */
	if (c->v->bit == V_UNIX) {
		int m = sv_socket(c, 0);
		struct stat st;

		snprintf(un.sun_path, sizeof(un.sun_path), "/tmp/l5_mode.%d",
			 getpid());
		R(fchmod(m, 0640));
		R(bind(m, (void *)&un, sizeof(un)));
		R(stat(un.sun_path, &st));
		V("mode", "%o", st.st_mode);
		unlink(un.sun_path);
		close(listener(c, 4));
		R(access(((struct sockaddr_un *)&c->la.ss)->sun_path, F_OK));
		R(connect(cl_socket(c, 0), SA(&c->la), c->la.len));
		R(bind(l, SA(&c->la), c->la.len));
		R(unlink(((struct sockaddr_un *)&c->la.ss)->sun_path));
		R(bind(l, SA(&c->la), c->la.len));
	}
}

SCENARIO_ON(tcp, reuse)
{
	int l1 = sv_socket(c, 0), l2 = sv_socket(c, 0), one = 1;
	int l3 = sv_socket(c, 0), l4 = sv_socket(c, 0);
	int l5 = sv_socket(c, 0);
	struct addr x;

	addr_new(c, &x);
	R(setsockopt(l1, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	R(setsockopt(l2, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	R(bind(l1, SA(&x), x.len));
	addr_of(l1, &x);
	R(bind(l2, SA(&x), x.len));
	R(listen(l1, 4));
	R(listen(l2, 4));
	addr_new(c, &x);
	R(setsockopt(l3, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	R(setsockopt(l4, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	R(bind(l3, SA(&x), x.len));
	addr_of(l3, &x);
	R(bind(l4, SA(&x), x.len));
	R(listen(l3, 4));
	R(listen(l4, 4));
	R(bind(l5, SA(&x), x.len));
}

/* A server that restarts: its port is in TIME_WAIT, or its child lives. */
SCENARIO_ON(tcp, restart_server)
{
	int l = sv_socket(c, 0), one = 1, m = sv_socket(c, 0);
	int n = sv_socket(c, 0);

	R(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	addr_new(c, &c->la);
	OK(bind(l, SA(&c->la), c->la.len));
	OK(listen(l, 4));
	addr_of(l, &c->la);
	pair_on(c, l);
	close(l);
	R(bind(m, SA(&c->la), c->la.len));
	R(setsockopt(n, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	R(bind(n, SA(&c->la), c->la.len));
	R(listen(n, 4));
	pair_on(c, n);
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 9, 0));
}

SCENARIO(refused)
{
	int s = cl_socket(c, 0), t = cl_socket(c, SOCK_NONBLOCK), l;
	struct addr x;

	nobody(c, &x);
	R(connect(s, SA(&x), x.len));
	N(so_error(s));
	P(s, 0);
	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(recv(s, buf, 1, MSG_DONTWAIT));
	R(connect(s, SA(&x), x.len));
	names(c, "refused", s);
	if (is_unix(c))
		R(connect(t, SA(&x), x.len));
	else
		/* Over loopback the answer may be there at once, or not. */
		(void)!connect(t, SA(&x), x.len);
	P(t, is_unix(c) ? 0 : POLLERR | POLLHUP);
	N(so_error(t));
	N(so_error(t));
	P(t, 0);
	R(send(t, "x", 1, MSG_NOSIGNAL));
	/* After a failure: again, with a listener there. */
	l = listener(c, 4);
	R(connect(s, SA(&c->la), c->la.len));
	P(s, POLLOUT);
	R(accept(l, NULL, NULL) >= 0);
	R(send(s, "x", 1, MSG_NOSIGNAL));
}

SCENARIO_ON(tcp, refused_nonblocking)
{
	int t = cl_socket(c, SOCK_NONBLOCK);
	struct addr x;

	nobody(c, &x);
	R(connect(t, SA(&x), x.len));
	P(t, POLLHUP);
	/* The error by a second connect, consumed. */
	R(connect(t, SA(&x), x.len));
	N(so_error(t));
	R(connect(t, SA(&x), x.len));
	P(t, POLLHUP);
	R(recv(t, buf, 1, 0));
	R(recv(t, buf, 1, 0));
	R(connect(t, SA(&x), x.len));
	P(t, POLLHUP);
	R(send(t, buf, 1, MSG_NOSIGNAL));
	R(send(t, buf, 1, MSG_NOSIGNAL));
	N(so_error(t));
}

SCENARIO(connect_nonblocking)
{
	int s = cl_socket(c, SOCK_NONBLOCK), l = listener(c, 4), a;

	/* EINPROGRESS or 0 depends on the family, not on luck. */
	R(connect(s, SA(&c->la), c->la.len));
	P(s, POLLOUT);
	N(so_error(s));
	R(connect(s, SA(&c->la), c->la.len));
	R(connect(s, SA(&c->la), c->la.len));
	a = OK(accept(l, NULL, NULL));
	check_transport(c, s, false);
	check_transport(c, a, true);
	R(send(s, "x", 1, 0));
	R(recv(a, buf, 9, 0));
	R(recv(s, buf, 9, 0));
	N(so_error(s));
}

SCENARIO(connect_twice)
{
	int l;

	pair(c);
	l = listener(c, 4);
	R(connect(c->a, SA(&c->la), c->la.len));
	R(connect(c->b, SA(&c->la), c->la.len));
	R(connect(l, SA(&c->la), c->la.len));
	OK(fcntl(c->a, F_SETFL, O_NONBLOCK));
	R(connect(c->a, SA(&c->la), c->la.len));
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 1, 0));
}

SCENARIO(connect_wrong)
{
	int s = cl_socket(c, 0), l = listener(c, 4);
	struct addr x = c->la;
	socklen_t i;

	for (i = 0; i < (is_unix(c) ? 3 : x.len); i++)
		R(connect(s, SA(&x), i));
	R(connect(s, SA(&x), -1));
	R(connect(s, SA(&x), sizeof(x.ss) + 1));
	R(connect(s, NULL, x.len));
	R(connect(s, bad_pointer(), x.len));
	x.ss.ss_family = AF_NETLINK;
	R(connect(s, SA(&x), x.len));
	x.ss.ss_family = c->v->dom == AF_INET ? AF_INET6 : AF_INET;
	R(connect(s, SA(&x), is_unix(c) ? x.len : sizeof(x.ss)));
	/* It is as good as new after all that. */
	R(connect(s, SA(&c->la), c->la.len));
	R(accept(l, NULL, NULL) >= 0);
	R(connect(-1, SA(&c->la), c->la.len));
}

SCENARIO_ON(tcp, connect_longer_address)
{
	int s = cl_socket(c, 0), l = listener(c, 4), a;

	R(connect(s, SA(&c->la), sizeof(c->la.ss)));
	a = OK(accept(l, NULL, NULL));
	check_transport(c, s, false);
	R(send(a, "x", 1, 0));
	R(recv(s, buf, 9, 0));
}

/* connect(AF_UNSPEC) ends a connection and gives the socket another. */
SCENARIO_ON(tcp, disconnect)
{
	struct sockaddr_in6 un = { .sin6_family = AF_UNSPEC };
	int l = listener(c, 8), s, a;

	s = cl_socket(c, 0);
	R(connect(s, (void *)&un, sizeof(un)));
	names(c, "nothing to end", s);
	OK(connect(s, SA(&c->la), c->la.len));
	a = OK(accept(l, NULL, NULL));
	OK(send(a, "unread", 6, 0));
	await(s, 6);
	R(connect(s, (void *)&un, sizeof(un)));
	names(c, "ended", s);
	P(s, 0);
	P(a, POLLHUP);
	R(recv(a, buf, 9, 0));
	R(recv(s, buf, 9, MSG_DONTWAIT));
	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(connect(s, SA(&c->la), c->la.len));
	a = OK(accept(l, NULL, NULL));
	names(c, "again", s);
	R(send(s, "x", 1, 0));
	R(recv(a, buf, 9, 0));
	R(send(a, "yz", 2, 0));
	R(recv(s, buf, 9, 0));
	P(s, POLLOUT);
	/* After the peer is gone. */
	close(a);
	P(s, POLLRDHUP);
	R(connect(s, (void *)&un, sizeof(un)));
	P(s, 0);
	/* As a listener. */
	R(listen(s, 4));
	P(s, 0);
	/* A listener that stops listening. */
	R(connect(l, (void *)&un, sizeof(un)));
	P(l, 0);
	R(connect(cl_socket(c, 0), SA(&c->la), c->la.len));
}

SCENARIO_ON(un, disconnect_unix)
{
	struct sockaddr_un un = { .sun_family = AF_UNSPEC };

	pair(c);
	R(connect(c->a, (void *)&un, sizeof(un)));
	R(connect(cl_socket(c, 0), (void *)&un, sizeof(un)));
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 9, 0));
}

SCENARIO_ON(tcp, backlog)
{
	int l = listener(c, 1), i, up = 0;
	struct pollfd p[6];

	for (i = 0; i < 6; i++) {
		p[i].fd = cl_socket(c, SOCK_NONBLOCK);
		p[i].events = POLLOUT;
		(void)!connect(p[i].fd, SA(&c->la), c->la.len);
		/* one at a time, or all find room that the first will take */
		settle(c);
	}
	poll(p, 6, 0);
	for (i = 0; i < 6; i++)
		up += !!(p[i].revents & POLLOUT);
	/* TCP lets backlog + 1 in. The others wait for their SYN's turn. */
	N(up);
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	R(accept(l, NULL, NULL) >= 0);
	R(accept(l, NULL, NULL) >= 0);
	/* Then a retransmitted one gets in. */
	for (i = 0; i < 5000 && accept(l, NULL, NULL) < 0; i++)
		usleep(1000);
	N(i < 5000);
}

SCENARIO_ON(un, backlog_unix)
{
	int l = listener(c, 1), i, s;

	for (i = 0; i < 4; i++)
		R(connect(cl_socket(c, SOCK_NONBLOCK), SA(&c->la),
			  c->la.len));
	s = cl_socket(c, SOCK_NONBLOCK);
	R(connect(s, SA(&c->la), c->la.len));
	P(s, 0);
	OK(accept(l, NULL, NULL));
	R(connect(s, SA(&c->la), c->la.len));
	P(s, POLLOUT);
}

/* A full AF_UNIX backlog blocks connect: a signal ends that. */
SCENARIO_ON(un, connect_interrupted)
{
	struct timeval tv = { 0, 60000 };
	int i, s;

	listener(c, 0);
	for (i = 0; i < 1; i++)
		R(connect(cl_socket(c, 0), SA(&c->la), c->la.len));
	parent = getpid();
	catch_signal(SIGUSR1, 0);
	s = cl_socket(c, 0);
	when_asleep(c, usr1);
	R(connect(s, SA(&c->la), c->la.len));
	N(caught);
	R(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	R(connect(s, SA(&c->la), c->la.len));
}

/* With the backlog full TCP's connect blocks too. */
SCENARIO_ON(tcp, connect_slow)
{
	struct timeval tv = { 0, 60000 };
	int l = listener(c, 0), i, s;

	for (i = 0; i < 1; i++)
		R(connect(cl_socket(c, 0), SA(&c->la), c->la.len));
	parent = getpid();
	catch_signal(SIGUSR1, 0);
	s = cl_socket(c, 0);
	when_asleep(c, usr1);
	R(connect(s, SA(&c->la), c->la.len));
	N(caught);
	P(s, 0);
	OK(fcntl(s, F_SETFL, O_NONBLOCK));
	R(connect(s, SA(&c->la), c->la.len));
	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(recv(s, buf, 1, 0));
	names(c, "connecting", s);
	N(so_error(s));
	R(shutdown(s, SHUT_WR));
	s = cl_socket(c, 0);
	R(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	R(connect(s, SA(&c->la), c->la.len));
	R(connect(s, SA(&c->la), c->la.len));
	/* The SYN of this one, sent again, would take the room. */
	close(s);
	/* A client gets in when there is room. */
	OK(accept(l, NULL, NULL));
	s = cl_socket(c, 0);
	R(connect(s, SA(&c->la), c->la.len));
}

/* What is sent before accept() arrives after it. */
SCENARIO(data_before_accept)
{
	int l = listener(c, 4), s = cl_socket(c, 0), a, n;

	OK(connect(s, SA(&c->la), c->la.len));
	R(send(s, "early", 5, 0));
	R(shutdown(s, SHUT_WR));
	a = OK(accept(l, NULL, NULL));
	P(a, POLLIN | POLLRDHUP);
	n = R(recv(a, buf, sizeof(buf), 0));
	D(buf, n);
	R(recv(a, buf, sizeof(buf), 0));
	R(send(a, "late", 4, 0));
	n = R(recv(s, buf, sizeof(buf), 0));
	D(buf, n);
}

SCENARIO(closed_before_accept)
{
	int l = listener(c, 4), s = cl_socket(c, 0), a, n;

	OK(connect(s, SA(&c->la), c->la.len));
	R(send(s, "early", 5, 0));
	close(s);
	settle(c);
	a = OK(accept(l, NULL, NULL));
	P(a, POLLIN | POLLRDHUP);
	n = R(recv(a, buf, sizeof(buf), 0));
	D(buf, n);
	R(recv(a, buf, sizeof(buf), 0));
	names(c, "of the dead", a);
}

SCENARIO(reset_before_accept)
{
	int l = listener(c, 4), s = cl_socket(c, 0), a;
	struct linger lg = { 1, 0 };

	OK(connect(s, SA(&c->la), c->la.len));
	settle(c);
	OK(setsockopt(s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(s);
	settle(c);
	a = OK(accept(l, NULL, NULL));
	P(a, POLLHUP);
	R(recv(a, buf, sizeof(buf), 0));
	R(recv(a, buf, sizeof(buf), 0));
}

/* The listener closes with a connection nobody accepted. */
SCENARIO(never_accepted)
{
	int l = listener(c, 4), s = cl_socket(c, 0);

	OK(connect(s, SA(&c->la), c->la.len));
	R(send(s, "x", 1, 0));
	close(l);
	P(s, POLLHUP);
	R(recv(s, buf, 9, 0));
	R(recv(s, buf, 9, 0));
	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(connect(cl_socket(c, 0), SA(&c->la), c->la.len));
}

SCENARIO(never_accepted_shut)
{
	int l = listener(c, 4), s = cl_socket(c, 0);

	OK(connect(s, SA(&c->la), c->la.len));
	R(shutdown(l, SHUT_RDWR));
	P(s, is_unix(c) ? 0 : POLLHUP);
	R(recv(s, buf, 9, MSG_DONTWAIT));
}

SCENARIO_ON(tcp, connect_to_self)
{
	int s = cl_socket(c, 0);
	struct addr x;

	/* Only a socket that is client and listener's side at once. */
	if (c->v->bit == V_TO_PLAIN || c->v->bit == V_FROM_PLAIN)
		return V("not", "here");
	addr_new(c, &x);
	OK(bind(s, SA(&x), x.len));
	addr_of(s, &x);
	R(connect(s, SA(&x), x.len));
	R(send(s, "myself", 6, 0));
	P(s, POLLIN);
	R(recv(s, buf, 9, 0));
	R(shutdown(s, SHUT_WR));
	R(recv(s, buf, 9, 0));
}

TEST_HARNESS_MAIN
