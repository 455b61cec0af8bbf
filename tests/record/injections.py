"""injections.py: programs with delays of known length, as stalls reports them.

    injections.py LOCKSTEP [--only NAME,...] [--rounds N] [--bound PERCENT] [--quiet-machine | --busy-machine]

Each of the programs (inject.c, of two ranks) times itself in every run. A part that stalls reports is compared with the
program's own timers in the same runs (loading is preparation and fetch): right are those that are off by less than the
bound, 5 % of the step, or whose 95 % interval holds the truth. The parts must sum to the step. On a machine that others use intervals
are wide; with --quiet-machine they must be narrower than 20 % of the step. With --busy-machine only what load cannot change is judged:
the parts sum to the step, the largest of them leads, every run counts as many steps as it was asked for, and no step is shorter than
what it sleeps. Exits with 1 where something is wrong.

Delays are asleep where the name ends in "asleep": they do not change with what else the machine does.
"""
import argparse, glob, io, json, os, struct, subprocess, sys, tarfile, tempfile

# name: settings of inject.c
PROGRAMS = {
    "prep-and-skew-asleep": "load_sleep=100 compute=0 compute_sleep=100 skew_sleep=50",
    "small-skew-asleep": "load_sleep=20 compute=0 compute_sleep=50 skew_sleep=15",
    "prep-and-skew": "prep=20 compute=20 skew=10",
    "cold-reads": "compute=0 compute_sleep=40 cold=16",
    "mapped-cold-reads": "compute=0 compute_sleep=40 cold=16 mapped=1",
    "forked-workers": "loader=1 workers=2 load_sleep=120 compute=0 compute_sleep=30",
    "background-thread": "loader=2 workers=1 load_sleep=60 compute=0 compute_sleep=30",
    "tar-shards": "loader=1 workers=2 shards=1 load_sleep=90 shard_sleep=30 compute=0 compute_sleep=30",
    "copied-shards": "loader=1 workers=2 shards=2 load_sleep=90 shard_sleep=30 compute=0 compute_sleep=30",
    "pool-of-mapped-files": "loader=2 workers=2 load_sleep=120 compute=0 compute_sleep=30 cold=2 mapped=1",
}
PARTS = {"compute": ["compute"], "imbalance": ["imbalance"], "loading": ["preparation", "fetch"],
         "communication": ["waiting", "interconnect", "network"]}


def truths(folder, base):
    """Means over the runs of a configuration, seconds a step; in a run the program prints them last."""
    runs = []
    for path in sorted(glob.glob(f"{folder}/*-{base}.output")):
        timers = {}
        for line in open(path, errors="replace"):
            words = line.split()
            if len(words) == 2 and words[0].isalpha():
                timers[words[0]] = float(words[1])
        if "step" in timers:
            runs.append(timers)
    return {key: sum(r[key] for r in runs) / len(runs) for key in runs[0]} if runs else {}


def wanted(base, hot):
    """The parts of the step by the program's own timers. Whatever cold runs take longer than hot ones is loading: ranks that wait
    for storage unequally also wait for one another."""
    parts = {"compute": base["compute"], "imbalance": hot["imbalance"],
             "communication": hot["step"] - hot["usual"] - hot["imbalance"] - hot["late"]}
    return {**parts, "loading": base["step"] - base["writing"] - sum(parts.values())}


def interval(parts):
    """Of a sum of parts: half widths add as those of independent ones."""
    seen = sum(p["seconds"] for p in parts)
    low, high = (sum((p[k] - p["seconds"]) ** 2 for p in parts if p[k] is not None) ** 0.5 for k in ("low_s", "high_s"))
    return seen, seen - low, seen + high


def write_shards(folder):
    """16 shards of 32 samples: tar archives, and the same samples with their places in front."""
    os.mkdir(folder)
    for shard in range(16):
        samples = [os.urandom(1 << 16) for _ in range(32)]
        with tarfile.open(f"{folder}/{shard:02d}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for i, sample in enumerate(samples):
                member = tarfile.TarInfo(f"{shard:02d}{i:04d}.jpg")
                member.size = len(sample)
                archive.addfile(member, io.BytesIO(sample))
        places = [4 + 4 * (len(samples) + 1) + i * (1 << 16) for i in range(len(samples) + 1)]
        with open(f"{folder}/{shard:02d}.bin", "wb") as out:
            out.write(struct.pack(f"<{1 + len(places)}I", len(samples), *places))
            out.writelines(samples)


def judge_counts(x, settings, rounds):
    """What is wrong of an answer whatever else the machine does."""
    seconds = {p["part"]: p["seconds"] or 0 for p in x["parts"] if p["part"] != "bursts"}  # which never lead
    given = dict(word.split("=") for word in settings)
    # a loader in other threads or processes sleeps while the step computes
    slept = 1e-3 * (float(given["compute_sleep"]) + (0 if "loader" in given else float(given.get("load_sleep", 0))))
    runs = {r["configuration"]: r["runs"] for r in x["runs"]}
    return [what for what, good in {
        f"{x['lead']['first']} leads and is not the largest part": seconds[x["lead"]["first"]] == max(seconds.values()),
        f"a step of {x['step_s']:.4f} s sleeps {slept:.4f} s": x["step_s"] >= slept and x["first_step_s"] >= slept,
        f"{x['steps']} steps and {runs} runs": x["steps"] == 19 and all(runs[name] in (0, rounds) for name in ("null", "hot", "cold")) and runs["hot"] == rounds,
    }.items() if not good]


def judge(name, lockstep, rounds, quiet, busy, bound, folder):
    settings = PROGRAMS[name].split() + ["steps=24"]
    kept, answer = os.path.join(folder, name), os.path.join(folder, "answer.json")
    launch = ["sh", "run.sh", "./inject", *settings]
    command = [lockstep, "stalls", "--yes", "--configurations", "null,hot,cold", "--steps", "24", "--warmup", "5",
               "--repeats", str(rounds), "--out", kept, "-o", "json", "-f", answer, "--", *launch]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: exit status {done.returncode}\n{done.stderr}")
        return 1
    x = json.load(open(answer))
    base, hot = truths(kept, x["base"]), truths(kept, "hot")
    if not base or not hot:
        print(f"{name}: the program printed no timers in its runs of {x['base']}")
        return 1
    truth, step, wrong = wanted(base, hot), x["step_s"], 0
    parts = {p["part"]: p for p in x["parts"]}
    summed = sum(p["seconds"] or 0 for p in x["parts"])
    lead = x["lead"]
    largest = max(truth, key=lambda part: truth[part])
    print(f"{name}: step {1e3 * step:.1f} ms of {x['base']} runs, by the program {1e3 * base['step']:.1f}; largest {lead['first']}"
          f"{'' if lead['apart'] else ', not told apart from ' + lead['second']}; drift {x['drift']['low']:.2f} to {x['drift']['high']:.2f}", flush=True)
    if abs(summed - step) > 1e-9 * step:
        print(f"  the parts sum to {1e3 * summed:.3f} ms")
        wrong += 1
    if busy:
        for what in judge_counts(x, settings, rounds):
            print(f"  {what}")
            wrong += 1
        return wrong
    if lead["apart"] and lead["first"] not in PARTS[largest]:
        print(f"  the largest part is {largest}")
        wrong += 1
    for part, kinds in PARTS.items():
        known = [parts[k] for k in kinds if parts[k]["seconds"] is not None]
        seen, low, high = interval(known)
        near, holds = abs(seen - truth[part]) < 0.01 * bound * step, low <= truth[part] <= high
        wide = quiet and high - low > 0.2 * step
        good = (near or holds) and not wide
        wrong += not good
        print(f"  {part:14s} injected {1e3 * truth[part]:7.1f} reported {1e3 * seen:7.1f} ({1e3 * low:.1f} - {1e3 * high:.1f}), "
              f"off by {100 * (seen - truth[part]) / step:+.1f} % of the step, {100 * (high - low) / step:.0f} % wide"
              f"{'' if good else '  <--'}")
    return wrong


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lockstep")
    options.add_argument("--only", default=",".join(PROGRAMS))
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--bound", type=float, default=5)
    options.add_argument("--quiet-machine", action="store_true")
    options.add_argument("--busy-machine", action="store_true")
    given = options.parse_args()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject.c")
    with tempfile.TemporaryDirectory(dir=os.environ.get("INJECTIONS_DIR")) as folder:
        subprocess.run(["mpicc", "-O1", source, "-o", os.path.join(folder, "inject"), "-lpthread"], check=True)
        with open(os.path.join(folder, "run.sh"), "w") as launcher:
            launcher.write("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                           "exec mpirun -n 2 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl self,vader \"$@\"\n")
        with open(os.path.join(folder, "data"), "wb") as data:
            for _ in range(1024):
                data.write(os.urandom(1 << 20))
        write_shards(os.path.join(folder, "shards"))
        lockstep = os.path.abspath(given.lockstep)
        wrong = sum(judge(name, lockstep, given.rounds, given.quiet_machine, given.busy_machine, given.bound, folder) for name in given.only.split(","))
    print(f"{wrong} wrong; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    sys.exit(wrong > 0)


main()
