"""composed.py: jobs composed from the recordings of their first and last rank, against the jobs themselves on this machine.

    composed.py LOCKSTEP [--only NAME,...] [--bound PERCENT] [--rounds N]

Each job (inject.c) runs as recorded alone, and as it is; the machine's calls are measured by `calibrate host --mpi` first. The step that
compose predicts is compared with the median, over rounds, of the mean step that the job itself prints. Exits with 1 where one is off
by more than the bound, 10 %.

Ranks are bound to cores, the same number to each: the kernel does not move ranks of real-time priority from a core that has more of
them to one that has fewer. Where other programs run, give all of it that priority: chrt -f 1 python3 composed.py ...
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

# name: ranks, settings of inject.c
JOBS = {
    "4-asleep": (4, "compute=0 compute_sleep=140"),
    "64-asleep": (64, "compute=0 compute_sleep=140"),
    "4-computing": (4, "compute=40"),
    "64-computing": (64, "compute=8"),
    "64-both": (64, "compute=5 compute_sleep=100"),
}
MPIRUN = "mpirun --oversubscribe --map-by core --bind-to core:overload-allowed --mca mpi_yield_when_idle 1 --mca btl self,vader".split()


def run(command, folder):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def judge(name, lockstep, bound, rounds, folder):
    ranks, settings = JOBS[name]
    program = ["./inject", *settings.split(), "steps=12"]
    run([lockstep, "record", "--world", str(ranks), "--ranks", f"0,{ranks - 1}", "--out", name, "--", *program], folder)
    x = json.loads(run([lockstep, "compose", name, "--cluster", "host.json", "--ranks-per-node", str(ranks), "-o", "json"], folder))
    measured = []
    for _ in range(rounds):
        said = run([*MPIRUN, "-n", str(ranks), *program], folder).splitlines()
        measured += [float(line.split()[1]) for line in said if line.startswith("step ")]
    measured = statistics.median(measured)
    off = x["step_s"] / measured - 1
    good = abs(off) < 0.01 * bound
    print(f"{name}: predicted {1e3 * x['step_s']:.0f} ms ({1e3 * x['step_low_s']:.0f} to {1e3 * x['step_high_s']:.0f}), measured {1e3 * measured:.0f} ms, "
          f"{100 * off:+.1f} %{'' if good else '  <--'}; load {os.getloadavg()[0]:.1f}", flush=True)
    return not good


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lockstep")
    options.add_argument("--only", default=",".join(JOBS))
    options.add_argument("--bound", type=float, default=10)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject.c")
    lockstep = os.path.abspath(given.lockstep)
    with tempfile.TemporaryDirectory() as folder:
        run(["mpicc", "-O1", source, "-o", "inject", "-lpthread"], folder)
        run([lockstep, "calibrate", "host", "--mpi", " ".join([*MPIRUN, "-n", "2"]), "-f", "host.json"], folder)
        wrong = sum(judge(name, lockstep, given.bound, given.rounds, folder) for name in given.only.split(","))
    print(f"{wrong} wrong")
    sys.exit(wrong > 0)


main()
