#!/usr/bin/env python3
"""No neighbour of plan's winner is faster: each of its degrees is doubled or halved, each of its switches changed, its
layout of stages left out, and predict asked.
Usage: neighbours.py PROGRAM [JOBS [FIRST]]; JOBS random jobs (24) from seed FIRST on; works in the current folder."""
import concurrent.futures, json, os, random, shlex, subprocess, sys

from drawn import draw_job

program, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 24
first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
# What plan searches by itself, and so what a neighbour may differ in; for DDP it lists --zero as not searched.
ALONE = {"zero": ["0", "1", "2", "3"], "recompute": ["none", "selective", "full"]}
DEGREES = ["tp", "pp", "cp", "ep", "mbs", "vp"]


def ask(words):
    done = subprocess.run([program, *words, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else None


def neighbours(words, stack):
    """The winner's command with one option changed."""
    at = {word[2:]: i + 1 for i, word in enumerate(words) if word.startswith("--")}
    for name in DEGREES:
        now = int(words[at[name]]) if name in at else 1
        for value in {now * 2, now // 2} - {0}:
            # across nodes, which have 8 of the GPUs that are drawn, plan searches no tensor parallelism, and lists that
            if name in at and (name != "tp" or value <= 8):
                yield [*words[:at[name]], str(value), *words[at[name] + 1:]]
    if "pipeline-layout" in at:
        yield [*words[:at["pipeline-layout"] - 1], *words[at["pipeline-layout"] + 1:]]
    for name, values in ALONE.items():
        for value in values if name in at and (name, stack) != ("zero", "ddp") else []:
            if value != words[at[name]]:
                yield [*words[:at[name]], value, *words[at[name] + 1:]]


def judge(seed):
    """(neighbours that fit, what is faster than the winner) of a job."""
    job = draw_job(random.Random(seed), seed)
    words = [word for name, value in job.items() if name not in (*DEGREES, *ALONE) for word in ("--" + name, str(value))]
    plan = ask(["plan", *words, "--no-sensitivity", "--headroom", "0", "--top", "1", "--threads", "1"])
    choices = [choice for found in plan["counts"] for choice in found["choices"]] if plan else []
    if not choices:
        return 0, []
    command = shlex.split(choices[0]["reproduce"].replace("\\\n", " "))[1:]
    tried, faster = 0, []
    for other in neighbours(command, choices[0]["stack"]):
        said = ask(other)
        if not said or not said["fits"]:
            continue
        tried += 1
        if said["step_time_s"] < choices[0]["step_time_s"] * (1 - 1e-9):
            faster.append(f"{shlex.join(command)}: {choices[0]['step_time_s']} s\n  {shlex.join(other)}: {said['step_time_s']} s")
    return tried, faster


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    found = list(pool.map(judge, range(first, first + most)))
for tried, faster in found:
    for line in faster:
        print(line)
print(f"{sum(1 for tried, faster in found if tried)} jobs, {sum(tried for tried, faster in found)} neighbours,",
      f"{sum(len(faster) for tried, faster in found)} faster than the winner")
