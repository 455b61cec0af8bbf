#!/usr/bin/env python3
"""Whether the parts of `explain TRACE --job JOB` add up, over every trace of the shared data, with whatever is slow in it: data loading,
allocation, work done once, garbage collection. Usage: sums.py PROGRAM. The sum of the parts of each side is its step, and the
sum of their differences the difference of the steps, to 1 %. The sums are taken from the rows of the answer, as a reader would;
the steps are those of the traces' own annotations and of predict. Exit status 1 where one does not hold."""
import glob
import json
import os
import subprocess
import sys

DATA = os.environ.get("LOCKSTEP_DATA") or os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data")
# The job by a word of the path. What a job computes does not matter to the sums; both sides are to have parts of all kinds.
JOBS = [("resnet", "resnet50 --gpu a100-sxm-80 --gpus 1 --mbs 32"), ("rn50", "resnet50 --gpu v100-sxm-32 --gpus 1 --mbs 32"),
        ("rank", "llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --pp 2 --gbs 32"),
        ("", "llama3.1-8b --gpu h100-sxm --gpus 8 --zero 3 --gbs 16")]
NO_WORK = "no work of a device"
BAR = 0.01


def compare(program, files, job):
    run = subprocess.run([program, "explain", *files, "--job", job, "-o", "json"], capture_output=True, text=True)
    return json.loads(run.stdout)["versus"] if run.returncode in (0, 1) else run.stderr


def off(versus):
    """The largest error of the three sums."""
    sums = {side: sum(part[side] for part in versus["parts"]) for side in ("predicted_s", "measured_s", "delta_s")}
    difference = versus["measured_s"] - versus["predicted_s"]
    return max(abs(sums["predicted_s"] / versus["predicted_s"] - 1), abs(sums["measured_s"] / versus["measured_s"] - 1),
               abs(sums["delta_s"] - difference) / max(abs(difference), 1e-3 * versus["measured_s"]))


def main():
    traces = [[path] for pattern in ("kineto/*", "labelled/*/*") for path in sorted(glob.glob(os.path.join(DATA, "traces", pattern)))]
    traces.append(sorted(glob.glob(os.path.join(DATA, "traces", "dlrm8", "kineto", "*"))))
    compared, idle, failed = 0, set(), 0
    for files in traces:
        job = next(job for word, job in JOBS if word in os.path.basename(files[0]))
        versus = compare(sys.argv[1], files, job)
        if isinstance(versus, str):
            if NO_WORK not in versus:
                failed += 1
                print(f"{files[0]}: {versus.strip()}")
            continue
        compared += 1
        idle |= {part["part"] for part in versus["parts"]
                 if part["part"].startswith("idle") and part["measured_s"] > 0.05 * versus["measured_s"]}
        if off(versus) > BAR:
            failed += 1
            print(f"{files[0]}: off by {100 * off(versus):.2f} %")
    print(f"{compared} traces add up to 1 %, {failed} do not; causes of idle time with 5 % or more of one: {len(idle)}")
    return failed > 0 or compared == 0


if __name__ == "__main__":
    sys.exit(main())
