#!/usr/bin/env python3
"""Compares what explain says of public traces with the cause that their owners or measurements give
(traces/labelled/labels.csv of the shared data): the cause must be first or second among the stalls, with no wrong remedy above
it. Usage: tests/labelled/check.py [PROGRAM] [-v]"""
import csv
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.environ.get("LOCKSTEP_DATA") or os.path.join(ROOT, "..", "shared", "data"), "traces", "labelled")
FLOOR = 16  # traces that are explained as labelled

# Words of the labels, by the kind of a stall and the beginning of what it is.
WORDS = [
    ("data loading", "", "data_loading"),
    ("preprocessing", "", "input_preprocessing"),
    ("launch", "", "launch"),
    ("optimizer", "", "optimizer"),
    ("one-off", "", "one_off"),
    ("allocation", "", "allocation"),
    ("copies", "host to device", "copies_h2d"),
    ("copies", "pageable", "copies_pageable"),
    ("communication", "", "communication"),
    ("straggler", "", "straggler"),
    ("arrival skew", "", "straggler"),
    ("sync", "", "sync"),
    ("slow kernel", "", "slow_kernel"),
]
# Remedies of the labels, by words that only they have.
REMEDIES = {"graphs": "CUDA graphs", "workers": "num_workers", "overlap": "overlap", "pinned": "pin_memory"}
HEALTHY = 0.1  # of the step: a smaller stall is none


def word_of(stall):
    for kind, what, word in WORDS:
        if stall["kind"] == kind and stall["what"].startswith(what):
            return word
    return stall["kind"]


def explain(program, files):
    command = [program, "explain", *(os.path.join(DATA, name) for name in files), "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 2:
        return "no_times" if "does not say when" in run.stderr else "refused", []
    return "", json.loads(run.stdout)["stalls"]


def judge(label, refused, stalls):
    """What stands first and second, and whether that is as labelled."""
    accepted = label["cause"].split("|")
    if refused:
        return [refused], refused in accepted
    words = [word_of(stall) for stall in stalls if stall["lost_pctg"] >= 0.5]
    if "healthy" in accepted:
        return words[:2] or ["healthy"], not stalls or stalls[0]["lost_pctg"] < 100 * HEALTHY
    for at, stall in enumerate(stalls[:2]):
        if word_of(stall) in accepted:
            return words[:2], True
        if any(REMEDIES[wrong] in stall["remedy"] for wrong in label["wrong"].split(";") if wrong):
            return words[:2], False
    return words[:2], False


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    program = os.path.abspath(words[0]) if words else os.path.join(ROOT, "build", "release", "lockstep")
    table = os.path.join(DATA, "labels.csv")
    if not os.path.exists(table):
        print(f"labelled: {table} is not here")
        print("labelled: 0 passed, 0 failed, 1 skipped")
        return 0
    with open(table, encoding="utf-8") as file:
        labels = list(csv.DictReader(line for line in file if not line.startswith("#")))
    good = 0
    for label in labels:
        refused, stalls = explain(program, label["files"].split(";"))
        found, right = judge(label, refused, stalls)
        good += right
        print(f"{'ok  ' if right else 'NOT '} {label['name']:24} {label['cause']:24} {', '.join(found)}")
        if "-v" in sys.argv:
            for stall in stalls:
                print(f"       {stall['lost_pctg']:6.1f} %  {stall['kind']}: {stall['what']} -> {stall['remedy']}")
    print(f"{good} of {len(labels)} are explained as labelled; {FLOOR} have to be")
    failed = good < min(FLOOR, len(labels))
    print(f"labelled: {good} passed, {len(labels) - good if failed else 0} failed, 0 skipped")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
