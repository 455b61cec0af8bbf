#!/usr/bin/env python3
"""What plan prints is what predict answers: each row's command is run, and has the row's time and memory.
Usage: round_trip.py PROGRAM [ROWS]; models, GPUs and numbers of GPUs in turn, until ROWS rows (200) were asked.
Without ROWS ./check takes a part of these cases and of the rows, by turns (turn.py)."""
import concurrent.futures, itertools, json, os, shlex, subprocess, sys

from turn import parts, turn

whole = len(sys.argv) > 2
program, most = sys.argv[1], int(sys.argv[2]) if whole else 200 // parts
GPUS = ["h100-sxm", "a100-sxm-80", "b200", "h200", "l40s", "mi300x"]
COUNTS = [16, 8, 64, 24, 256, 1024]
STACKS = ["megatron", "nemo", "megatron", "megatron,torchtitan,deepspeed", "nemo"]


def ask(words):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else {"failed": done.stderr.strip()}


def rows(model, gpu, count, stack):
    batch = ["--gbs", str(4 * count)] + (["--seq", str(min(model["context"] or 2048, 4096))] if model["context"] else [])
    plan = ask(["plan", "--model", model["name"], "--gpu", gpu, "--gpus", str(count), *batch, "--stack", stack, "--top", "8", "--no-exact",
                "--no-sensitivity", "-o", "json"])
    return [choice for found in plan.get("counts", []) for choice in found["choices"]]


def differs(choice):
    words = shlex.split(choice["reproduce"].replace("\\\n", " "))
    said = ask([*words[1:], "-o", "json"] if "--" not in words else [*words[1:words.index("--")], "-o", "json", *words[words.index("--"):]])
    if all(said.get(key) == choice[key] for key in ("step_time_s", "peak_bytes")):
        return None
    return f"{choice['reproduce']}\n  plan {choice['step_time_s']} s, {choice['peak_bytes']} bytes; predict " + (
        said.get("failed") or f"{said.get('step_time_s')} s, {said.get('peak_bytes')} bytes")


models = [m for m in ask(["models", "-o", "json"])["rows"] if "dlrm" not in m["name"]]
asked, wrong = 0, []
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    cases = ((model, GPUS[(i + k) % len(GPUS)], COUNTS[(i + k) % len(COUNTS)], STACKS[(i + k) % len(STACKS)])
             for k in range(len(GPUS)) for i, model in enumerate(models))
    if not whole:
        cases = itertools.islice(cases, turn % parts, None, parts)
    while asked < most:
        batch = list(itertools.islice(cases, 8))
        if not batch:
            break
        found = [choice for choices in pool.map(lambda case: rows(*case), batch) for choice in choices][:most - asked]
        wrong += [text for text in pool.map(differs, found) if text]
        asked += len(found)
for text in wrong[:10]:
    print(text)
print(f"{asked} rows of plan, {len(wrong)} of which predict answers otherwise")
sys.exit(bool(wrong) or not asked)
