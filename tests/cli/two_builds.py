#!/usr/bin/env python3
"""Two builds, of other compilers or other optimization, give the same bytes.
Usage: two_builds.py PROGRAM OTHER [QUESTIONS]; QUESTIONS (200) over the verbs that calculate, of random jobs; in the current folder."""
import os, random, subprocess, sys

from drawn import draw_job

programs, questions = [os.path.realpath(path) for path in sys.argv[1:3]], int(sys.argv[3]) if len(sys.argv) > 3 else 200
data = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../data")
with open("tables.csv", "w") as file:
    file.write("name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n")


def words_of(job, *names):
    return [word for name, value in job.items() if not names or name in names for word in ("--" + name, str(value))]


def ask_of(draw, number):
    """A question as words; most are jobs, for which the arithmetic is longest."""
    job = draw_job(draw, number)
    few = {**job, "gpus": min(job["gpus"], 16)}
    few["gbs"] = few["gpus"] * 4
    return draw.choice([
        ["predict", *words_of(job)], ["predict", *words_of(job)], ["predict", *words_of(job), "--exact"],
        ["predict", *words_of(job), "--jitter", "0.02", "--seeds", "3"], ["predict", *words_of(job), "-v"],
        ["plan", *words_of(few, "model", "gpu", "gpus", "gbs", "seq"), "--top", "3", "--threads", "1"],
        ["collective", "--gpu", job["gpu"], "--gpus", str(max(job["gpus"], 2)), "-b", "1K", "-e", "256M"],
        ["rent", "--model", "gpt2", "--seq", "1024", "--gbs", "256", "--tokens", "1B", "--most-gpus", "8", "--provider", "aws"],
        ["shard", "tables.csv", "--gpu", job["gpu"], "--gpus", str(draw.choice([2, 4, 8])), "--batch", str(64 * draw.randint(8, 64))],
        ["jobs", "--draw", str(draw.randint(2, 30)), "--gpu", "h100-sxm", "--gpus", "16"],
        ["explain", f"{data}/trace_small.json"], ["replay", f"{data}/trace_small.json"],
        ["diff", f"{data}/trace_before.json", f"{data}/trace_after.json"], ["validate", f"{data}/runs_small.csv"]]) + ["-o", "json"]


def answer(program, words):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr if done.returncode == 2 else b""


answered = differ = 0
for number in range(questions):
    words = ask_of(random.Random(number), number)
    first, other = (answer(program, words) for program in programs)
    answered += first[0] == 0
    if first != other:
        differ += 1
        at = next((n for n, (a, b) in enumerate(zip(first[1], other[1])) if a != b), min(len(first[1]), len(other[1])))
        print(f"{' '.join(words)}: exit status {first[0]}, {other[0]}; byte {at}: {first[1][at - 40:at + 20]!r}, {other[1][at - 40:at + 20]!r}; "
              f"{(first[2] or other[2])[:200].decode(errors='replace')}")
print(f"{questions} questions, {answered} answered, {differ} answered otherwise")
sys.exit(differ > 0 or answered < questions // 2)
