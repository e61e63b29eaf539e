# SPDX-License-Identifier: GPL-2.0
#
# AF_L5. `make help` prints the targets.
#
# The module is for the running kernel if that can be built for, and for the
# stock one of the lab if not, or if a target boots that.
LAB_KVER = $(shell vm/kernel release 6.1)
KVER	?= $(if $(wildcard /lib/modules/$(shell uname -r)/build),$(shell \
		uname -r),$(LAB_KVER))
KDIR	?= /lib/modules/$(KVER)/build
PREFIX	?= /usr/local
DKMS	?= dkms
SRCTREE	?= /usr/src
T	?=
# of checks that take long: leave out what has passed on the same tree
RESUME	?=

SUBDIRS	:= userspace bench

# What a bare Debian 12 lacks, by what needs it.
DEPS_BUILD := build-essential linux-headers-amd64 libseccomp-dev
DEPS_DKMS  := dkms
DEPS_LAB   := linux-image-amd64 qemu-system-x86 busybox-static cpio kmod \
	      linux-source-6.1 xz-utils
DEPS_TEST  := iproute2 nftables gawk python3 spin tcpdump pkgconf musl-tools \
	      valgrind
DEPS_BPF   := clang bpftool libbpf-dev
DEPS_LINT  := sparse codespell shellcheck

all: module tools			## build the module and the tools

module: deps-build
	$(MAKE) -C $(KDIR) M=$(CURDIR) W=1 modules

tools: deps-build
	for d in $(SUBDIRS); do $(MAKE) -C $$d || exit; done

# The module by DKMS, for KVER and each kernel to come; DKMS= is for KVER alone,
# and so it is where DKMS cannot be had. DESTDIR only lays files there.
install: deps-build			## install (PREFIX, KVER, DKMS=, DESTDIR)
	@[ -z "$(L5_TEST_TRANSPORT)" ] || { \
		echo "L5_TEST_TRANSPORT is for tests alone" >&2; exit 1; }
	@if [ -z "$(DKMS)" ]; then d=; elif [ -n "$(DESTDIR)" ] || \
		vm/deps $(DEPS_DKMS); then d="$(DKMS)"; else d=; \
		echo "no DKMS: the module goes to $(KVER) alone" >&2; fi; \
	$(INSTALL_ENV) DKMS="$$d" ./install-module add
	$(MAKE) -C userspace install PREFIX=$(PREFIX)

uninstall:				## undo that, whichever way it was
	$(INSTALL_ENV) DKMS="$(DKMS)" ./install-module remove
	$(MAKE) -C userspace uninstall PREFIX=$(PREFIX)

INSTALL_ENV = KVER="$(KVER)" KDIR="$(KDIR)" MAKE="$(MAKE)" \
	DESTDIR="$(DESTDIR)" SRCTREE="$(SRCTREE)"

demo check check-debug check-races check-long bench lint: KVER = $(LAB_KVER)

demo: deps-lab all			## real programs over AF_L5, beside TCP
	bench/demo

check: deps-test all			## every test; T=PART one of its parts
	selftests/run $(T)

model: deps-test			## the protocol's models, with spin
	selftests/run model

check-debug: deps-test all		## kernel tests on a debug kernel
	vm/kernel debug
	selftests/check debug --jobs 2 $(if $(RESUME),--resume) $(T)

check-races: deps-test all		## kernel tests, looking for data races
	vm/kernel kcsan
	selftests/check races --jobs 2 $(if $(RESUME),--resume) $(T)

check-long: deps-test all		## what takes hours, before a release
	vm/kernel debug
	selftests/check long $(if $(RESUME),--resume) $(T)

bench: deps-lab all			## all figures, into bench/out
	bench/demo --all

lint: deps-lint deps-lab		## checkpatch, sparse, W=1, shellcheck
	selftests/lint

clean:					## remove what was built
	-$(MAKE) -C $(KDIR) M=$(CURDIR) clean
	for d in $(SUBDIRS) selftests; do $(MAKE) -C $$d clean; done

help:					## this
	@sed -n 's/^\([a-z-]*\):.*\t## /\1\t/p' Makefile | expand -t 16

deps-build:
	@vm/deps $(DEPS_BUILD)

deps-lab: deps-build
	@vm/deps $(DEPS_LAB)

deps-test: deps-lab
	@vm/deps $(DEPS_TEST) $(DEPS_DKMS) $(DEPS_BPF)

deps-lint:
	@vm/deps $(DEPS_LINT)

.PHONY: all module tools install uninstall demo check model check-debug \
	check-races check-long bench lint clean help deps-build deps-lab \
	deps-test deps-lint
