"""staging.py: files of two tiers, the slow one by record's throttle: what stalls --staging predicts against what moving the files
gains.

    staging.py LOCKSTEP [--rounds N] [--bound PERCENT]

Files of 100 to 800 KB are read in every step. Each round records the program with all files on the slow tier, asks for the files
to stage, and records it again with those on the fast one. The gain that was predicted and the one that was measured, both in calls
that read, are medians over rounds; exits with 1 where they differ by more than the bound, or where what is staged does not fit, gains nothing
or is of another tier.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile

SIZES = [100, 200, 300, 400, 600, 800]  # KB
STEPS, PIECE = 12, 50_000
PROGRAM = f"""
import os
for step in range({STEPS}):
    os.close(os.open("step", os.O_RDONLY))
    for number in range({len(SIZES)}):
        path = "fast/%d" % number
        fd = os.open(path if os.path.exists(path) else "slow/%d" % number, os.O_RDONLY)
        while os.read(fd, {PIECE}): pass
        os.close(fd)
"""


def recorded(lockstep, folder, name):
    """What stalls says of a run. Its steps are marked: on a busy machine those of milliseconds would not be found by their rhythm."""
    out = os.path.join(folder, name)
    subprocess.run([lockstep, "record", "--out", out, "--program", "python3", "--slow", f"latency=4000us rate=50MB/s over {folder}/slow",
                    "--step-marker", f"open:{folder}/step", "--", "python3", "reads.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    words = f"size={0.5e-6 * sum(SIZES)}GB rate=5GB/s latency=10us"
    done = subprocess.run([lockstep, "stalls", "--recording", out, "--warmup", "0", "--staging", words, "-o", "json"],
                          capture_output=True, text=True)
    shutil.rmtree(out)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lockstep")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--bound", type=float, default=10)
    given = options.parse_args()
    lockstep, predicted, measured = os.path.abspath(given.lockstep), [], []
    with tempfile.TemporaryDirectory() as made:
        folder = os.path.realpath(made)
        for name in ("slow", "fast"):
            os.mkdir(f"{folder}/{name}")
        for number, size in enumerate(SIZES):
            with open(f"{folder}/slow/{number}", "wb") as out:
                out.write(os.urandom(1000 * size))
        open(f"{folder}/step", "w").close()
        with open(f"{folder}/reads.py", "w") as program:
            program.write(PROGRAM)
        for round in range(given.rounds):
            before = recorded(lockstep, folder, f"before{round}")
            chosen = [f for f in before["files"] if f["staged"] == "yes"]
            staged = [os.path.basename(f["file"]) for f in chosen]
            if not chosen or before["staging"]["used"] > 500 * sum(SIZES) or min(f["gain_s"] for f in chosen) <= 0:
                sys.exit(f"staged: {chosen}")
            if any(not f["file"].startswith(f"{folder}/slow/") for f in chosen):
                sys.exit(f"staged, though not of the slow tier: {chosen}")
            for name in staged:
                shutil.copyfile(f"{folder}/slow/{name}", f"{folder}/fast/{name}")
            after = recorded(lockstep, folder, f"after{round}")
            for name in staged:
                os.remove(f"{folder}/fast/{name}")
            predicted.append(sum(f["gain_s"] for f in chosen))
            measured.append(before["staging"]["read_s"] - after["staging"]["read_s"])
            print(f"staged {' '.join(staged)}, {before['staging']['used'] / 1e3:.0f} of {0.5 * sum(SIZES):.0f} KB: gain predicted {predicted[-1]:.3f} s, "
                  f"measured {measured[-1]:.3f} s ({100 * (predicted[-1] / measured[-1] - 1):+.1f} %)", flush=True)
    off = 100 * (statistics.median(predicted) / statistics.median(measured) - 1)
    print(f"medians of {given.rounds}: predicted {statistics.median(predicted):.3f} s, measured {statistics.median(measured):.3f} s ({off:+.1f} %); "
          f"load of the machine {os.getloadavg()[0]:.1f}")
    sys.exit(abs(off) > given.bound)


main()
