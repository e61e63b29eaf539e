# SPDX-License-Identifier: GPL-2.0
"""Figures between two hosts: host a serves, host b measures.

Each figure has a server process on a and a client process on b, as a user would
start them; b tells a what to start and how net.l5 is to be. All go over the
same link and RDMA device.
"""

import glob
import json
import os
import re
import select
import subprocess
import time
import xmlrpc.client
import xmlrpc.server

import figures
import sample
from sample import Failed

SERVER = "10.5.0.1"
AGENT_PORT = 7990
DEVICE = "rxe0"
SYSCTL = "/proc/sys/net/l5/"
HW = f"/sys/class/infiniband/{DEVICE}/ports/1/hw_counters/"
RSOCKET = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
CHUNK = 65536
PATIENCE = 20       # seconds until something is given up
# The settings of net.l5 for a figure that wants no others.
SETTINGS = {"rdma_poll": 0, "rdma_notify": 4, "rdma_safe": 0, "rdma_chain": 0,
            "rdma_memo_s": 60, "rdma_ms": 10000}

CAUTION = """\
SOFTWARE RDMA: rxe makes each packet, and its checksum, on the CPUs of these
virtual machines. The figures say what two CPUs and their software do, and
nothing about a network adapter."""


def counters():
    """What may have moved here: AF_L5, the RDMA device, the CPUs."""
    found = figures.counters()
    try:
        with open(HW + "sent_pkts", encoding="ascii") as f:
            found["packets"] = int(f.read())
    except FileNotFoundError:
        pass
    with open("/proc/stat", encoding="ascii") as f:
        for line in f:
            word = line.split()
            if word[0] in ("intr", "ctxt"):
                found[word[0]] = int(word[1])
    return found


def configure(settings):
    """Set net.l5."""
    for name, value in settings.items():
        try:
            with open(SYSCTL + name, "w", encoding="ascii") as f:
                f.write(f"{value}\n")
        except OSError as e:
            raise Failed(f"net.l5.{name}: {e.strerror}") from None


def prepare():
    """Have what the rivals need, and packets handled while a program polls.

    Where a process polls on the only CPU, ksoftirqd, which sends and receives
    for all that is measured here, would have to wait for its time slice.
    """
    subprocess.run(["modprobe", "smc"], check=True)
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="ascii") as f:
                if f.read().startswith("ksoftirqd"):
                    os.sched_setscheduler(int(path.split("/")[2]),
                                          os.SCHED_FIFO, os.sched_param(1))
        except (FileNotFoundError, ProcessLookupError):
            pass


class Agent:
    """What b asks of a; answers are JSON, for XML-RPC's numbers are short."""

    def __init__(self):
        self.server = None
        self.over = False

    def configure(self, settings):
        """Set net.l5."""
        try:
            configure(settings)
        except Failed as e:
            return str(e)
        return ""

    def start(self, command, env, port):
        """Start a server, wait until it listens, return the port."""
        self.finish(True)
        self.server = subprocess.Popen(
            command, env={**os.environ, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.server.poll() is None:
            if not port:
                told, *_ = select.select([self.server.stdout], [], [], 1)
                if told:
                    return int(self.server.stdout.readline() or 0)
            elif figures.listening(port):
                return port
            else:
                time.sleep(0.02)
        return 0

    def finish(self, kill):
        """Wait for the server's end, return what it said if it failed."""
        server, self.server = self.server, None
        if not server:
            return ""
        if kill:
            server.kill()
        try:
            _, said = server.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()
            return "the server does not end"
        if kill or not server.returncode:
            return ""
        return said[-500:] or f"the server's status is {server.returncode}"

    def counters(self):
        """Of this host."""
        return json.dumps(counters())

    def end(self):
        """Nothing more comes."""
        self.finish(True)
        self.over = True
        return ""


def serve(ready):
    """Be host a until b says that it is over."""
    prepare()
    agent = Agent()
    with xmlrpc.server.SimpleXMLRPCServer(
            (SERVER, AGENT_PORT), logRequests=False, allow_none=True) as s:
        s.register_instance(agent)
        ready()
        while not agent.over:
            s.handle_request()


class Pair(sample.Sampler):
    """A server on a and a client here."""

    # What carries it: the counters have to agree.
    carriers = {
        "tcp": lambda m: m.get("conn_rdma", 0) == 0 and m["packets"] < 50,
        "rdma": lambda m: m.get("conn_rdma", 0) == 0 and m["packets"] >= 50,
        "l5": lambda m: m.get("conn_rdma", 0) > 0 and
        m.get("peer_conn_rdma", 0) > 0,
        "asks": lambda m: m.get("rdma_asked", 0) > 0 and
        m.get("conn_rdma", 0) == 0,
    }

    def __init__(self, peer, name, carrier, client, **kw):
        super().__init__("pair/" + name, client)
        self.peer = peer
        self.carrier = carrier
        self.server = kw.get("server", client)
        self.env = kw.get("env", {})
        self.settings = {**SETTINGS, **kw.get("settings", {})}
        self.lasting = kw.get("lasting", False)
        self.notes = {"sent": kw.get("sent", "system call")}
        self.patience = kw.get("patience", PATIENCE)

    def look(self):
        return {**counters(), **{
            "peer_" + k: v for k, v in json.loads(self.peer.counters()).items()
        }}

    def check(self, moved):
        if not self.carriers[self.carrier](moved):
            raise Failed(f"not carried by {self.carrier}: " + ", ".join(
                f"{k} {v}" for k, v in moved.items() if v))

    def at(self, port):
        """How the commands name the address."""
        return ["-L", SERVER], ["-C", f"{SERVER}:{port}"]

    def port(self):
        """The server's choice."""
        return 0

    def call(self):
        configure(self.settings)
        said = self.peer.configure(self.settings)
        if said:
            raise Failed("a: " + said)
        port = self.port()
        port = self.peer.start(self.server + self.at(port)[0], self.env, port)
        if not port:
            raise Failed("a: " + self.peer.finish(True))
        try:
            text = sample.run(self.command + self.at(port)[1], self.env,
                              self.patience)
        except Failed as e:
            said = self.peer.finish(True)
            raise Failed(f"{e}; a: {said}" if said else str(e)) from None
        said = self.peer.finish(self.lasting)
        if said:
            raise Failed("a: " + said)
        return text


class Perftest(Pair):
    """ib_write_lat and ib_write_bw: as many times as fill a sample."""

    ports = iter(range(18000, 30000))

    def __init__(self, peer, name, opt, program, size):
        self.base = [program, "-F", "-d", DEVICE, "-x", "1", "-s", str(size)]
        self.times = 200
        self.seconds = float(opt.seconds)
        super().__init__(peer, name, "rdma", self.base, sent="user's post")

    def port(self):
        return next(self.ports)

    def at(self, port):
        own = ["-n", str(self.times), "-p", str(port)]
        return own, [*own, SERVER]

    def parse(self, text):
        rows = re.findall(r"^\s*(\d+\s+\d+\s+[\d.]+\s.*)$", text, re.M)
        if not rows:
            raise Failed(f"{self.base[0]} printed {text}")
        row = [float(x) for x in rows[-1].split()]
        if self.base[0] == "ib_write_lat":
            # It prints half of a round trip.
            typical, mean = 2 * row[4], 2 * row[5]
            each = mean / 1e6
            yield "", typical, "us"
            yield "-mean", mean, "us"
        else:
            rate = row[3] * (1 << 20) / 1e6
            each = row[0] / rate / 1e6
            yield "", rate, "MB/s"
        self.times = max(50, int(self.seconds / each))


LIB = ["-t", "lib"]
BUSY = ["-t", "lib", "-w", "poll"]
FULL = {"prefix": ["l5run", "--mode=full"], "env": {"L5_RDMA_WAIT": "10000"}}
POLLER = {"settings": {"rdma_poll": 1}, "sent": "poller thread"}
if os.cpu_count() == 1:
    # A process that only spins keeps the thread from what it waits for.
    POLLER["env"] = {"L5_SPIN_US": "0", "L5_YIELDS": "1000"}
BELL = {"sent": "doorbell call"}
VERBS = {"sent": "program, as verbs"}


def samplers(peer, opt):
    """All figures."""
    seconds = ["-d", opt.seconds]

    def own(name, carrier, program, *options, prefix=(), **kw):
        return Pair(peer, name, carrier, [
            *prefix, os.path.join(figures.HERE, program), *seconds, *options],
            **kw)

    def plain(what, program, *options):
        """A program for TCP, and all that it can be made to use."""
        return [
            own(what + "/tcp", "tcp", program, *options),
            own(what + "/l5", "l5", program, *options, "-t", "l5"),
            own(what + "/full", "l5", program, *options, **FULL, **BELL),
            own(what + "/lib", "l5", program, *options, *LIB, **BELL),
            own(what + "/poller", "l5", program, *options, *LIB, **POLLER),
        ]

    def two(kw):
        """The same with two writes a message, as for an adapter."""
        return {**kw, "settings": {**kw.get("settings", {}), "rdma_notify": 0}}

    patient = LIB if "env" in POLLER else BUSY
    lat = [
        Perftest(peer, "lat/verbs", opt, "ib_write_lat", 64),
        own("lat/poller", "l5", "rr", "-m", *patient, **POLLER),
        own("lat/bell", "l5", "rr", "-m", *BUSY, **BELL),
        own("lat/poller-two", "l5", "rr", "-m", *patient, **two(POLLER)),
        own("lat/bell-two", "l5", "rr", "-m", *BUSY, **two(BELL)),
        own("lat/call", "l5", "rr", "-m", "-t", "l5", "-w", "poll"),
        own("lat/tcp", "tcp", "rr", "-m", "-w", "poll"),
    ]
    rr = [
        *plain("rr", "rr"),
        own("rr/full-two", "l5", "rr", **two(FULL), **BELL),
        own("rr/rsocket", "rdma", "rr", env={"LD_PRELOAD": RSOCKET}, **VERBS),
        # SMC version 1 wants addresses of RoCE version 1, which rxe has not;
        # version 2, in Linux 6.1 over rxe, hangs and cannot be killed.
        own("rr/smc", "tcp", "rr", "-t", "smc", sent="TCP, its fallback"),
    ]
    bulk = [
        Perftest(peer, "bulk/verbs", opt, "ib_write_bw", CHUNK),
        *plain("bulk", "stream", "-s", str(CHUNK)),
    ]
    server = [os.path.join(figures.HERE, "crr")]
    longer = ["-d", str(4 * float(opt.seconds))]
    connect = [
        own("connect/" + name, carrier, "crr", "-t", name, "-a", "-e", "100000",
            *longer, server=server, lasting=True, settings={"rdma_memo_s": 0})
        for name, carrier in (("tcp", "tcp"), ("l5", "asks"))
    ]
    many = {"settings": {"rdma_ms": 10000}, "patience": 150, **BELL}
    many = [
        own("many/mailbox", "l5", "many", *LIB, *longer, **many),
        own("many/array", "l5", "many", "-A", *LIB, *longer,
            **many),
    ]
    study = [
        own(f"notify/{notify}-{chain}/{what}", "l5", *command,
            "-t", "l5", "-w", "poll",
            settings={"rdma_notify": notify, "rdma_safe": 15,
                      "rdma_chain": chain})
        for notify in range(4) for chain in range(2)
        for what, command in (("rr", ["rr"]),
                              ("way", ["stream", "-s", "64", "-m"]))
    ]
    return {"lat": lat, "rr": rr, "bulk": bulk, "connect": connect,
            "many": many, "study": study}


def measure(opt, ready):
    """Be host b: take every figure, write them; return how many failed."""
    prepare()
    ready()
    peer = xmlrpc.client.ServerProxy(f"http://{SERVER}:{AGENT_PORT}",
                                     allow_none=True)
    parts = samplers(peer, opt)
    wanted = [s for name in opt.parts or parts for s in parts[name]]
    if opt.only:
        wanted = [s for s in wanted if re.search(opt.only, s.name)]
    try:
        return sample.rounds("pair", wanted, opt, figures.Cores(False))
    finally:
        peer.end()


# As the targets of bench/reach: what, figure, what it is set against, how,
# bounds in the VM and natively.
TARGETS = (
    ("Between hosts, software RDMA: two CPUs, no NIC",),
    ("64 B round trip, poller: ib_write_lat", "pair/lat/poller",
     "pair/lat/verbs", "x<=", 1.3, None),
    ("the same, doorbell call", "pair/lat/bell", "pair/lat/verbs",
     "x<=", 1.6, None),
    ("64 B a second, l5run: rsocket", "pair/rr/full", "pair/rr/rsocket",
     "x>=", 1, None),
    ("the same: AF_SMC", "pair/rr/full", "pair/rr/smc", "x>=", 1, None),
    ("the same: TCP", "pair/rr/full", "pair/rr/tcp", "x>=", 1, None),
    ("64 KiB bulk, doorbell: ib_write_bw", "pair/bulk/lib", "pair/bulk/verbs",
     "x>=", 0.85, None),
    ("200 open connections, mailbox: 20", "pair/many/mailbox-200",
     "pair/many/mailbox-20", "x>=", 0.95, None),
    ("connect() to a TCP server: TCP", "pair/connect/l5", "pair/connect/tcp",
     "x<=", 1.1, None),
)

# Heading, unit, what the others are set against, rows.
TABLE = (
    ("64 B round trip, all polling, microseconds (median)", "lat/verbs", (
        ("ib_write_lat, twice its half", "lat/verbs", ""),
        ("libl5, poller thread", "lat/poller", "<= 1.3"),
        ("libl5, doorbell call", "lat/bell", "<= 1.6"),
        ("poller, two writes", "lat/poller-two", ""),
        ("doorbell, two writes", "lat/bell-two", ""),
        ("AF_L5 by system calls", "lat/call", ""),
        ("TCP", "lat/tcp", ""))),
    ("64 B round trips a second", "rr/tcp", (
        ("TCP", "rr/tcp", ""),
        ("rsocket (librspreload)", "rr/rsocket", ""),
        ("AF_SMC", "rr/smc", ""),
        ("AF_L5 by system calls", "rr/l5", "> 1"),
        ("the TCP program under l5run", "rr/full", "> all"),
        ("the same, two writes", "rr/full-two", ""),
        ("libl5, doorbell call", "rr/lib", "> all"),
        ("libl5, poller thread", "rr/poller", "> all"))),
    ("64 KiB bulk, MB a second", "bulk/verbs", (
        ("ib_write_bw", "bulk/verbs", ""),
        ("TCP", "bulk/tcp", ""),
        ("AF_L5 by system calls", "bulk/l5", ""),
        ("the TCP program under l5run", "bulk/full", ""),
        ("libl5, doorbell call", "bulk/lib", ">= 0.85"),
        ("libl5, poller thread", "bulk/poller", ""))),
    ("Round trips a second on 20 connections, mailbox", "many/mailbox-20", (
        ("20 open", "many/mailbox-20", ""),
        ("200 open", "many/mailbox-200", ">= 0.95"))),
    ("The same, l5_wait_any() without mailbox", "many/array-20", (
        ("20 open", "many/array-20", ""),
        ("200 open", "many/array-200", ""))),
    ("connect() to a plain TCP server, first attempts, microseconds",
     "connect/tcp", (
         ("TCP", "connect/tcp", ""),
         ("AF_L5, which asks for RDMA", "connect/l5", "<= 1.1"))),
)
NOTIFY = ("two writes", "one write, second look", "write with immediate",
          "send and receive")


def number(value):
    """At most nine characters."""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def table(found):
    """The figures, as lines of 80 columns."""
    for heading, base, rows in TABLE:
        rows = [r for r in rows if "pair/" + r[1] in found]
        if not rows:
            continue
        yield heading
        base = found.get("pair/" + base)
        for what, name, want in rows:
            f = found["pair/" + name]
            ratio = f"{f['median'] / base['median']:.2f}x" if base else "-"
            yield f"  {what:<30}{number(f['median']):>10}{ratio:>8} " \
                f"{want:<8} {f['sent']}".rstrip()
    rows = [(n, c) for n in range(4) for c in range(2)
            if f"pair/notify/{n}-{c}/rr" in found]
    if rows:
        yield "Ways to notify (paper, figure 8), calls, both sides polling"
        yield f"  {'64 B':<30}{'round trips/s':>14}{'one way/s':>12}"
        for n, c in rows:
            what = NOTIFY[n] + (", chained" if c else "")
            line = f"  {what:<30}"
            for kind, width in (("rr", 14), ("way", 12)):
                f = found.get(f"pair/notify/{n}-{c}/{kind}")
                line += f"{number(f['median']) if f else '-':>{width}}"
            yield line
