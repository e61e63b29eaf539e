// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "l5test.h"
#include "rdma_here.h"
#include "stream.h"

static size_t some(struct stream *s)
{
	return 1 + l5_rnd(&s->seed) % (l5_rnd(&s->seed) % 4 ? 300 : s->most);
}

void *stream_send(void *arg)
{
	struct stream *s = arg;
	int64_t end = l5_now_ms() + RDMA_MOVE_MS;
	uint8_t *buf = malloc(s->most);
	ssize_t n;

	while (s->at < s->total ||
	       (s->there && !s->first && l5_now_ms() < end)) {
		size_t len = some(s);

		if (!s->there && len > s->total - s->at)
			len = s->total - s->at;
		l5_fill(buf, len, s->at);
		n = s->move(s, buf, len);
		if (n < 0 && s->again && errno == EAGAIN)
			continue;
		if (n < 0) {
			s->err = errno;
			s->bad++;
			break;
		}
		s->at += n;
		if (s->there && !s->first && s->there(s)) {
			s->first = s->at;
			s->total += s->at;
		}
		/* not so many in a moment that the move goes unseen */
		if (s->there && !s->first)
			usleep(300);
	}
	if (s->shuts)
		shutdown(s->fd, SHUT_WR);
	free(buf);
	return NULL;
}

void *stream_recv(void *arg)
{
	struct stream *s = arg;
	uint8_t *buf = malloc(s->most);
	ssize_t n;

	while (!s->total || s->at < s->total) {
		n = s->move(s, buf, some(s));
		if (n < 0 && s->again && errno == EAGAIN)
			continue;
		if (n <= 0) {
			s->err = n ? errno : 0;
			if (!n && s->total)
				l5_fatal("an end after %llu",
					 (unsigned long long)s->at);
			s->bad += n || s->total;
			break;
		}
		s->bad += l5_check(buf, n, s->at) >= 0;
		s->at += n;
	}
	free(buf);
	return NULL;
}
