#!/usr/bin/env python3
"""Predicts the published times and speed-ups of docs/accuracy/compiled.csv and scores them: `tools/compiled.py PROGRAM`.

Times: mean of exp |ln(predicted / measured)| - 1. A speed-up that the source gives as a range is off by how far it lies outside. Order:
Kendall's tau over the pairs of schedules of a case (of equal sizes and cluster).
"""
import csv
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "bench", "lang_published.lk")
TABLE = os.path.join(ROOT, "docs", "accuracy", "compiled.csv")


def predicted(program, row):
    """Milliseconds of each schedule of the row's program, by name, at its sizes and cluster."""
    words = [program, "compile", "tune", PROGRAMS, "--program", row["program"], "--schedule", "all", "--sizes", row["sizes"],
             "--cluster", row["cluster"], "--programs", "1", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit("compiled.py: %s: %s" % (row["case"], done.stderr.strip()))
    answer = json.loads(done.stdout)
    times = {own["name"]: 1e3 * own["time_s"] for own in answer["file"]}
    times["plain"] = 1e3 * answer["plain"]["time_s"]
    return times


def outside(value, text):
    """How far a value lies from "a" or outside of "a..b", as a ratio, and the bound that it is compared with."""
    bounds = [float(word) for word in text.split("..")]
    nearest = min(max(value, bounds[0]), bounds[-1])
    return value / nearest, nearest


def off(ratios):
    return math.exp(sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios)) - 1


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip().split("\n", maxsplit=1)[0])
    with open(TABLE, encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    answers, times, speeds, concordant, pairs, known = {}, [], [], 0, 0, {}
    print("%-20s %-20s %10s %10s %8s %8s %8s" % ("case", "schedule", "published", "predicted", "off", "speed-up", "predicted"))
    for row in rows:
        key = row["program"], row["sizes"], row["cluster"]
        if key not in answers:
            answers[key] = predicted(sys.argv[1], row)
        mine = answers[key][row["schedule"]]
        line = "%-20s %-20s" % (row["case"], row["schedule"])
        if row["time_ms"]:
            published = float(row["time_ms"])
            times.append(mine / published)
            for other, both in known.setdefault(row["case"], {}).items():
                assert other != row["schedule"]
                pairs += 1
                concordant += (both[0] < published) == (both[1] < mine)
            known[row["case"]][row["schedule"]] = published, mine
            line += " %10.4g %10.4g %+7.1f%%" % (published, mine, 100 * (mine / published - 1))
        else:
            line += " %10s %10.4g %8s" % ("", mine, "")
        if row["over"]:
            speed = answers[key][row["over"]] / mine * float(row["factor"] or 1)
            ratio = outside(speed, row["speed_up"])[0]
            speeds.append(ratio)
            line += " %8s %8.2f %+7.1f%%  over %s" % (row["speed_up"], speed, 100 * (ratio - 1), row["over"])
        print(line)
    near = sum(abs(math.log(ratio)) <= math.log(1.15) for ratio in speeds)
    print("times: %d rows, off by %.1f %% in the mean" % (len(times), 100 * off(times)))
    print("speed-ups: %d of %d within 15 %%, off by %.1f %% in the mean" % (near, len(speeds), 100 * off(speeds)))
    print("order: tau %.2f over %d pairs" % (2 * concordant / pairs - 1, pairs))


if __name__ == "__main__":
    main()
