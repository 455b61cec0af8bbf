#!/usr/bin/env python3
"""Replays of every trace in FOLDER/traces that has times, and of other traces given, against their bars. Usage: replay_bars.py PROGRAM
FOLDER [TRACES...].

Of a trace, means over its steps and ranks (exp(mean |ln|) - 1, as the program has them):
  itself    every step by its own times: the largest error at most 1 %
  parts     so: streams, exposed communication, idle time, each summed over the steps: at most 1 %
  held out  steps by the others, of several ranks each by the others: at most 3 % where the mean of the others is within 3 %, and
            never over that mean's error by more than 1 %"""
import glob, json, math, os, subprocess, sys

program, folder, *others = sys.argv[1:]
traces = sorted(glob.glob(f"{folder}/traces/kineto/*.gz")) + [f"{folder}/traces/dlrm8/kineto", *others]


def ask(trace, hold_out):
    """The predicted steps of all ranks, and the error of their parts."""
    run = subprocess.run([program, "replay", trace, "--hold-out", hold_out, "-o", "json"], capture_output=True, text=True)
    if run.returncode:
        assert hold_out != "none", run.stderr
        return [], 0
    told = json.loads(run.stdout)
    steps = [step for rank in told["ranks"] for step in rank["steps"] if step["predicted_us"] is not None]
    return steps, told["summary"]["parts_error"]


def errors(steps, column):
    return [abs(math.log(step[column] / step["measured_us"])) for step in steps]


def mean(logs):
    return math.expm1(sum(logs) / len(logs))


wrong = 0
print(f"{'trace':32} {'steps':>5} {'itself':>8} {'parts':>8}  {'held':5} {'error':>8} {'mean of others':>15}", file=sys.stderr)
for trace in traces:
    own, parts = ask(trace, "none")
    assert own, trace
    itself = math.expm1(max(errors(own, "predicted_us")))
    line = f"{os.path.basename(trace)[:32]:32} {len(own):5} {100 * itself:6.2f} % {100 * parts:6.2f} %"
    missed = max(itself, parts) > 0.01
    for what in ("step", "rank"):
        steps, _ = ask(trace, what)
        if not steps:
            continue
        held, plain = mean(errors(steps, "predicted_us")), mean(errors(steps, "baseline_us"))
        line += f"  {what:5} {100 * held:6.2f} % {100 * plain:13.2f} %"
        missed = missed or held > plain + 0.01 or (plain <= 0.03 < held)
    print(line + ("  MISSED" if missed else ""), file=sys.stderr)
    wrong += missed
print("all within the bars" if not wrong else f"{wrong} of {len(traces)} traces missed a bar")
