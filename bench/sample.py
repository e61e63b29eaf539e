# SPDX-License-Identifier: GPL-2.0
"""A command that gives samples of figures, and rounds of such commands."""

import os
import platform
import statistics
import subprocess

import figures

PATIENCE = 60       # seconds a sample may take before it is given up
GAUGES = ("rings_kb", "reserved_kb", "pairs", "rdma_now")


class Failed(Exception):
    """A sample that cannot be used."""


def run(command, env=None, patience=PATIENCE):
    """Run a command, return what it prints."""
    try:
        return subprocess.run(command, timeout=patience, check=True,
                              stdin=subprocess.DEVNULL, text=True,
                              env={**os.environ, **(env or {})},
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE).stdout
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {patience} s") from None
    except subprocess.CalledProcessError as e:
        raise Failed(e.stderr.strip() or f"status {e.returncode}") from None


class Sampler:
    """A command that gives one sample of one or more figures."""

    def __init__(self, name, command):
        self.name = name
        self.command = command
        self.samples = {}
        self.units = {}
        self.counters = {}
        self.notes = {}

    def parse(self, text):
        """Yield (suffix of the name, value, unit)."""
        for line in text.splitlines():
            value, unit, *label = line.split()
            yield "".join("-" + x for x in label), float(value), unit

    def call(self):
        """Run the command, return what it prints."""
        return run(self.command)

    def check(self, moved):
        """Fail if the counters say that another transport carried it."""

    def look(self):
        """The counters."""
        return figures.counters()

    def take(self):
        """Take one sample, check what carried it; return how to undo it."""
        before = self.look()
        text = self.call()
        moved = {k: v - before.get(k, 0)
                 for k, v in self.look().items() if k not in GAUGES}
        self.check(moved)
        taken = []
        for suffix, value, unit in self.parse(text):
            name = self.name + suffix
            taken.append(self.samples.setdefault(name, []))
            taken[-1].append(value)
            self.units[name] = unit
        for k, v in moved.items():
            if v:
                self.counters[k] = self.counters.get(k, 0) + v
        return lambda: [samples.pop() for samples in taken]

    def results(self, common):
        """The objects of the JSON file."""
        for name, samples in self.samples.items():
            yield {
                "name": name,
                "unit": self.units[name],
                "samples": samples,
                "median": statistics.median(samples),
                **common,
                "command": " ".join(self.command).replace(
                    figures.HERE, "bench"),
                "counters": self.counters,
                **self.notes,
            }


def rounds(name, samplers, opt, cores):
    """Take every sample once a round, write the file of the set; return how
    many failed."""
    failures = 0
    print(f"{name}: {len(samplers)} commands, round", end="", flush=True)
    for nr in range(1, opt.rounds + 1):
        print(f" {nr}", end="", flush=True)
        for sampler in samplers:
            if opt.verbose:
                print(f"\n{sampler.name}", end="", flush=True)
            try:
                cores.take(sampler.take)
            except (Failed, TimeoutError) as e:
                failures += 1
                print(f"\n{' '.join(sampler.command)}: {e}", flush=True)
        # There may be no time for another one.
        save(name, samplers, opt.out)
    print(flush=True)
    cores.report()
    return failures


def save(name, samplers, where):
    """Write the file of a set."""
    common = {"machine": figures.machine(), "kernel": platform.release(),
              "place": figures.place()}
    figures.save(name, [f for s in samplers for f in s.results(common)], where)
