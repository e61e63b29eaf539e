# SPDX-License-Identifier: GPL-2.0
"""Figures: how they are kept in bench/out/PLACE/*.json, and where taken.

A file holds one set: a list of objects with name, unit, samples, median,
machine, kernel, place, command, and counters: by how much /proc/net/l5_stat moved
while the samples were taken.
"""

import glob
import json
import os
import re
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
STAT = "/proc/net/l5_stat"
PLACES = ("vm", "native")
SETS = ("rr", "stream", "map", "crr", "lives", "un", "redis", "memcached", "nginx",
        "pgbench", "idle")


def processor():
    """Its name."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    return model.group(1) if model else "unknown processor"


def machine():
    """Processor, number of CPUs, and what runs them: kvm, tcg or nothing."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        text = f.read()
    model = processor()
    if "QEMU TCG" in model:
        accel = "tcg"
    elif re.search(r"^flags\s*:.*\bhypervisor\b", text, re.M):
        accel = "kvm"
    else:
        accel = "none"
    # An emulated processor does not know the real one: bench/demo says it.
    host = os.environ.get("L5_BENCH_HOST")
    if host and host != model:
        model += " on " + host
    return f"{model}, {os.cpu_count()} CPUs, {accel}"


def place():
    """Where this runs: in a VM of the lab, or natively on this machine."""
    return PLACES["L5_KERNEL" not in os.environ]


def counters():
    """The counters of AF_L5 in this network namespace; {} without it."""
    try:
        with open(STAT, encoding="utf-8") as f:
            return {k: int(v) for k, v in (line.split() for line in f)}
    except FileNotFoundError:
        return {}


def listening(port):
    """Does a TCP socket listen there? Asks without making a connection."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(line.split()[1].endswith(f":{port:04X}") and
                   line.split()[3] == "0A" for line in f)


class Cores:
    """Are the CPUs two cores?

    The host of a virtual machine may run its CPUs on two cores now and then on
    two hyperthreads of one, where no line of a cache has to move: figures of
    the one cannot be compared with those of the other. Two cores are what
    counts, if there are two at all.
    """

    LOOK = [os.path.join(HERE, "limit"), "-d", "0.03"]
    NEAR = 5e6      # bare round trips a second that two cores do not make

    def __init__(self, wanted, patience=30):
        """@patience: seconds to wait for them, in all."""
        self.retaken = 0
        self.left = patience
        self.watch = wanted and machine().endswith("kvm")

    def apart(self):
        """Are they two cores at this moment?"""
        time.sleep(0.02)
        done = subprocess.run(self.LOOK, check=True, text=True,
                              stdout=subprocess.PIPE)
        return float(done.stdout.split()[0]) < self.NEAR

    def wait(self):
        """Wait until they are; but figures of one core are better than none."""
        start = time.monotonic()
        while self.watch and not self.apart():
            if time.monotonic() - start > self.left:
                print("CAUTION: both CPUs seem to be on one core", flush=True)
                self.watch = False
        self.left -= time.monotonic() - start

    def take(self, sample):
        """Take a sample, again until they are two before and after it.

        It is a function that returns how to undo it.
        """
        while True:
            self.wait()
            start = time.monotonic()
            undo = sample()
            if not self.watch or self.apart():
                return
            undo()
            self.retaken += 1
            self.left -= time.monotonic() - start

    def report(self):
        """Say how often."""
        if self.retaken:
            print(f"{self.retaken} samples taken again: the host had moved "
                  "the CPUs onto one core", flush=True)


def save(name, figures, where):
    """Write a set, whole or not at all."""
    os.makedirs(where, exist_ok=True)
    path = os.path.join(where, name + ".json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(figures, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def load(where):
    """All figures of a directory by name."""
    found = {}
    for path in sorted(glob.glob(os.path.join(where, "*.json"))):
        with open(path, encoding="utf-8") as f:
            for figure in json.load(f):
                found[figure["name"]] = figure
    return found
