// SPDX-License-Identifier: GPL-2.0
/*
 * BPF's sockmap hangs something of its own off TCP sockets, also off children
 * that nobody has accepted yet. Neither side may take the other's for its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "bpf.h"
#include "ends.h"

#define CGROUP	"/tmp/l5_sockmap_cgroup"
#define MUCH	(300 << 10)

FIXTURE(life_sockmap)
{
	int home;
	int map, prog, cgroup;
};

#define INSN(c, d, s, o, i) ((struct bpf_insn) {			\
	.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })

/* Puts each socket that is the passive end of a new connection into @map. */
static int load(int map)
{
	const int op = offsetof(struct bpf_sock_ops, op);
	struct bpf_insn code[] = {
		INSN(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, op, 0),
		INSN(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, 7,
		     BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB),
		INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0),
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_2, BPF_PSEUDO_MAP_FD, 0,
		     map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0, -4),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, BPF_ANY),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_sock_map_update),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCK_OPS,
		.insns = (unsigned long)code,
		.insn_cnt = ARRAY_SIZE(code),
		.license = (unsigned long)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

FIXTURE_SETUP(life_sockmap)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_SOCKMAP,
		.key_size = 4,
		.value_size = 8,
		.max_entries = 1,
	};

	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->home = net_current();
	ASSERT_TRUE(net_unshare());
	mkdir(CGROUP, 0700);
	if (mount("none", CGROUP, "cgroup2", 0, NULL) && errno != EBUSY)
		SKIP(return, "no cgroup2: %m");
	self->cgroup = open(CGROUP, O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, self->cgroup);
	self->map = bpf(BPF_MAP_CREATE, &attr);
	if (self->map < 0)
		SKIP(return, "no sockmap: %m");
	self->prog = load(self->map);
	ASSERT_LE(0, self->prog)
		TH_LOG("%m");
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = self->cgroup;
	attr.attach_bpf_fd = self->prog;
	attr.attach_type = BPF_CGROUP_SOCK_OPS;
	if (bpf(BPF_PROG_ATTACH, &attr))
		SKIP(return, "no BPF in cgroups: %m");
}

FIXTURE_TEARDOWN(life_sockmap)
{
	union bpf_attr attr = {
		.target_fd = self->cgroup,
		.attach_bpf_fd = self->prog,
		.attach_type = BPF_CGROUP_SOCK_OPS,
	};

	bpf(BPF_PROG_DETACH, &attr);
	umount(CGROUP);
	net_enter(self->home);
}

/* Is there a socket in the map? */
static bool holds(int map)
{
	__u64 cookie = 0;
	__u32 key = 0;
	union bpf_attr attr = {
		.map_fd = map,
		.key = (unsigned long)&key,
		.value = (unsigned long)&cookie,
	};

	return !bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

static void child_in_map(struct __test_metadata *_metadata, int map,
			 enum end_kind listener, enum end_kind client, int want)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int l, c, s, i;

	l = end_listen(listener, &a);
	ASSERT_LE(0, l);
	for (i = 0; i < 3; i++) {
		c = end_connect(client, &a);
		ASSERT_LE(0, c);
		EXPECT_TRUE(holds(map));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		if (want)
			EXPECT_EQ(want, l5_transport(s));
		EXPECT_TRUE(end_exchange(c, s, MUCH, 0));
		/* neither end first each time */
		close(i & 1 ? c : s);
		close(i & 1 ? s : c);
	}
	close(l);
}

/* The program does what it is there for. */
TEST_F_TIMEOUT(life_sockmap, plain, 60)
{
	child_in_map(_metadata, self->map, END_TCP, END_TCP, 0);
}

TEST_F_TIMEOUT(life_sockmap, child_of_plain_client, 60)
{
	child_in_map(_metadata, self->map, END_L5, END_TCP, L5_TRANSPORT_BASE);
}

/* A child that waits with a meeting belongs to that, whatever the map says. */
TEST_F_TIMEOUT(life_sockmap, child_that_met, 60)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int l, c, s;

	l = end_listen(END_L5, &a);
	ASSERT_LE(0, l);
	c = end_connect(END_L5, &a);
	ASSERT_LE(0, c);
	EXPECT_FALSE(holds(self->map));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
	EXPECT_TRUE(end_exchange(c, s, MUCH, 0));
	close(c);
	close(s);
	close(l);
}

TEST_HARNESS_MAIN
