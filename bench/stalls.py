#!/usr/bin/env python3
"""Injected stalls and what lockstep stalls makes of them; predictions of other machines against measured ones.

    bench/stalls.py [--lockstep PROGRAM] [--repeats N] [--steps N] [delay] [disk] [decode] [network] [cores]

Builds examples/train and runs it in a private folder: as it is, and with one thing slowed on purpose:

    delay     each large all-reduce begins 2 ms later (a preloaded library that wraps MPI_Allreduce)
    disk      the block device's reads are throttled by a cgroup (blkio of version 1), the data set is not in memory
    decode    the data set's decoding takes more passes
    network   two hosts (network namespaces, their link limited by tc tbf) with a slow link against a fast one
    cores     no stall: one core instead of all

The truth is the trainer's own timer without lockstep, in runs that alternate (median of the repeats; the spread of equal runs,
A/A, is beside it). A stall's recovered share is what it adds to the same stall without injection, of the injected step. Every
other part must not grow by more than the bar either. disk, cores and network predict as well: half, twice and four times the
disk's rate, half the cores, ten times the network. disk and network need root. Exit status 1: a bar was missed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAR_POINTS, BAR_RATIO = 5.0, 0.10
KINDS = ("compute", "writing", "preparation", "fetch", "waiting", "interconnect", "network")
# 16 samples of 8 KiB a rank and step, 1 MiB of gradients
SHAPE = "--model mlp --dim 256 --seq 32 --hidden 256 --layers 2 --batch 32 --dp 2 --quiet".split()
SAMPLES = 16384
SLOW = r"""
#define _GNU_SOURCE
#include <mpi.h>
#include <time.h>
int MPI_Allreduce(const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
	if (n > 1000) nanosleep(&(struct timespec){0, 2000000}, NULL);
	return PMPI_Allreduce(a, b, n, t, o, c);
}
"""
AGENT = """#!/bin/sh
case $1 in 10.77.0.1) ns=%(a)s name=hosta ;; *) ns=%(b)s name=hostb ;; esac
shift
exec ip netns exec $ns unshare --uts sh -c "hostname $name; exec $*"
"""


def sh(*words, **more):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **more).stdout


class Bench:
    def __init__(self, asked, folder):
        self.asked, self.folder, self.missed, self.runs = asked, folder, [], 0
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NO_COLOR="1")
        sh("make", "-s", "-C", ROOT / "examples/train", f"OUT={folder}")
        self.launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                         "--mca", "btl", "self,vader"]
        self.data = folder / "data.bin"
        self.train(self.launcher, steps=1, more=["--write-data", str(SAMPLES)])

    def words(self, launcher, steps, more=()):
        return [*launcher, "-n", "2", str(self.folder / "train"), "--data", str(self.data), "--steps", str(steps), *SHAPE, *more]

    def train(self, launcher, steps=None, more=(), before=(), settings=None):
        """Mean step in seconds by the trainer's own timer."""
        words = [*before, *self.words(launcher, steps or self.asked.steps + 5, more)]
        out = subprocess.run(words, env=dict(self.environment, **(settings or {})), capture_output=True, text=True)
        found = re.search(r"mean ([0-9.]+) ms", out.stdout)
        if out.returncode or not found:
            sys.exit(f"{' '.join(words)}: {out.stdout}{out.stderr}")
        return 1e-3 * float(found[1])

    def stalls(self, launcher, configurations, more=(), before=(), settings=None, what_if=()):
        kept = ["--out", f"{self.asked.keep}/{self.runs}"] if self.asked.keep else []
        self.runs += 1
        words = [*before, self.asked.lockstep, "stalls", "--yes", "-o", "json", *kept, "--steps", str(self.asked.steps), "--repeats",
                 str(self.asked.repeats), "--configurations", configurations]
        for line in what_if:
            words += ["--what-if", line]
        words += ["--", *self.words(launcher, 100000, more)]
        out = subprocess.run(words, env=dict(self.environment, **(settings or {})), capture_output=True, text=True)
        if out.returncode:
            sys.exit(f"{' '.join(words)}: {out.stderr}")
        answer = json.loads(out.stdout[out.stdout.index("{"):])
        answer["part"] = {p["part"]: p["seconds"] or 0 for p in answer["parts"]}
        return answer

    def alternate(self, *runs):
        """Medians of runs that alternate, and the largest spread of equal ones."""
        times = [[] for _ in runs]
        for _ in range(self.asked.repeats):
            for mine, run in zip(times, runs):
                mine.append(run())
        middles = [statistics.median(t) for t in times]
        spread = max(max(t) / min(t) - 1 for t in times)
        return middles, spread

    def report(self, kind, name, plain, slowed, truth, spread):
        step = slowed["step_s"]
        injected = 100 * (truth[1] - truth[0]) / truth[1]
        grown = {k: 100 * (slowed["part"][k] - plain["part"][k]) / step for k in KINDS}
        print(f"{kind}: {name}: step {1e3 * truth[0]:.1f} -> {1e3 * truth[1]:.1f} ms by its own timer (A/A {100 * spread:.0f} %), "
              f"{1e3 * plain['step_s']:.1f} -> {1e3 * step:.1f} ms by stalls ({slowed['base']})")
        print(f"  injected {injected:5.1f} points, recovered as {name} {grown[name]:5.1f}; others: " +
              ", ".join(f"{k} {v:+.1f}" for k, v in grown.items() if k != name))
        wrong = [k for k, v in grown.items() if abs(v - (injected if k == name else 0)) > BAR_POINTS]
        if wrong:
            self.missed.append(f"{kind}: {', '.join(wrong)}")

    def compare(self, kind, what, predicted, measured):
        off = predicted / measured - 1
        print(f"{kind}: what if {what}: predicted {1e3 * predicted:.1f} ms, measured {1e3 * measured:.1f} ms, {100 * off:+.1f} %")
        if abs(off) > BAR_RATIO:
            self.missed.append(f"{kind}: what if {what}")

    # ---- what is slowed ----

    def delay(self):
        source, library = self.folder / "slow.c", self.folder / "slow.so"
        source.write_text(SLOW)
        sh("mpicc", "-shared", "-fPIC", "-o", library, source)
        slow = {"LD_PRELOAD": str(library)}
        truth, spread = self.alternate(lambda: self.train(self.launcher), lambda: self.train(self.launcher, settings=slow))
        plain = self.stalls(self.launcher, "null,hot")
        slowed = self.stalls(self.launcher, "null,hot", settings=slow)
        self.report("delay", "interconnect", plain, slowed, truth, spread)

    def decode(self):
        more = ["--decode", "60"]
        truth, spread = self.alternate(lambda: self.train(self.launcher), lambda: self.train(self.launcher, more=more))
        plain = self.stalls(self.launcher, "null,hot")
        slowed = self.stalls(self.launcher, "null,hot", more=more)
        self.report("decode", "preparation", plain, slowed, truth, spread)

    def evict(self):
        fd = os.open(self.data, os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

    def cold(self, before, more):
        self.evict()
        return self.train(self.launcher, before=before, more=more)

    def warm(self, more):
        self.data.read_bytes()
        return self.train(self.launcher, more=more)

    def disk(self):
        group = pathlib.Path("/sys/fs/cgroup/blkio/lockstep-bench")
        if not group.parent.exists() or os.geteuid() != 0:
            print("disk: left out: no blkio cgroup of version 1, or no root")
            return
        device = os.stat(self.data).st_dev
        group.mkdir(exist_ok=True)
        limit = group / "blkio.throttle.read_bps_device"
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

        def rate(megabytes):
            limit.write_text(f"{os.major(device)}:{os.minor(device)} {int(megabytes * 1e6)}\n")

        def throttled(megabytes):
            rate(megabytes)
            return self.cold(inside, more)

        # a step of 0.2 s: what the limit lets pass in 20 ms that nothing is read, it lets pass at once afterwards
        steps, self.asked.steps, more = self.asked.steps, 25, ["--batch", "320"]
        others = (2, 0.5, 4)
        try:
            truth, spread = self.alternate(lambda: self.warm(more), lambda: throttled(12),
                                           *(lambda by=by: throttled(12 * by) for by in others))
            plain = self.stalls(self.launcher, "null,hot", more=more)
            rate(12)
            slowed = self.stalls(self.launcher, "null,hot,cold", before=inside, more=more,
                                 what_if=[f"disk={by}" for by in others])
            self.report("disk", "fetch", plain, slowed, truth, spread)
            rates = slowed["rates"]
            print(f"  storage works {1e3 * rates['device_s']:.1f} ms of a step, {1e3 * rates['hidden_s']:.1f} ms of it hidden")
            for by, change, measured in zip(others, slowed["what_if"], truth[2:]):
                self.compare("disk", f"disk x{by}", change["step_s"], measured)
        finally:
            self.asked.steps = steps
            group.rmdir()

    def cores(self):
        count = len(os.sched_getaffinity(0))
        few = sorted(os.sched_getaffinity(0))[: max(1, count // 2)]
        before = ["taskset", "-c", ",".join(map(str, few))]
        (_, measured), spread = self.alternate(lambda: self.train(self.launcher), lambda: self.train(self.launcher, before=before))
        now = self.stalls(self.launcher, "null,hot", what_if=[f"cores={len(few)}"])
        self.compare("cores", f"{len(few)} of {count} cores (A/A {100 * spread:.0f} %)", now["what_if"][0]["step_s"], measured)

    def network(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            print("network: left out: no root, or no ip and tc")
            return
        names = {"a": f"lockstep-a{os.getpid()}", "b": f"lockstep-b{os.getpid()}"}
        agent = self.folder / "agent.sh"
        agent.write_text(AGENT % names)
        agent.chmod(0o755)
        try:
            for name in names.values():
                sh("ip", "netns", "add", name)
            sh("ip", "link", "add", "vA", "netns", names["a"], "type", "veth", "peer", "name", "vB", "netns", names["b"])
            for which, device, address in (("a", "vA", "10.77.0.1/24"), ("b", "vB", "10.77.0.2/24")):
                sh("ip", "-n", names[which], "addr", "add", address, "dev", device)
                sh("ip", "-n", names[which], "link", "set", device, "up")
                sh("ip", "-n", names[which], "link", "set", "lo", "up")
            self.hosts(names, agent)
        finally:
            for name in names.values():
                subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def hosts(self, names, agent):
        launcher = [str(agent), "10.77.0.1", "mpirun", "--host", "10.77.0.1:1,10.77.0.2:1", "--mca", "plm_rsh_agent", str(agent),
                    "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include",
                    "10.77.0.0/24", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "--mca", "btl_tcp_links", "2"]

        def rate(megabits):
            # half a millisecond of the rate passes at once: ten times the rate is ten times that too
            for which, device in (("a", "vA"), ("b", "vB")):
                subprocess.run(["ip", "netns", "exec", names[which], "tc", "qdisc", "del", "dev", device, "root"],
                               capture_output=True)
                sh("ip", "netns", "exec", names[which], "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                   f"{megabits}mbit", "burst", str(int(megabits * 1e6 / 8 * 5e-4)), "latency", "10ms")

        def limited(megabits):
            rate(megabits)
            return self.train(launcher)

        slow, fast = 200, 2000
        truth, spread = self.alternate(lambda: limited(fast), lambda: limited(slow))
        rate(fast)
        plain = self.stalls(launcher, "null,hot")
        rate(slow)
        slowed = self.stalls(launcher, "null,hot", what_if=["network=10"])
        self.report("network", "network", plain, slowed, truth, spread)
        self.compare("network", "network x10", slowed["what_if"][0]["step_s"], truth[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default=str(ROOT / "build/release/lockstep"))
    parser.add_argument("--keep", help="folder that keeps the recordings")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("which", nargs="*", default=[])
    asked = parser.parse_args()
    every = ["delay", "decode", "disk", "network", "cores"]
    for name in asked.which:
        if name not in every:
            parser.error(f"{name}: there are {', '.join(every)}")
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        bench = Bench(asked, pathlib.Path(folder))
        for name in asked.which or every:
            getattr(bench, name)()
    print("bars missed: " + "; ".join(bench.missed) if bench.missed else "all bars are met")
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
