#!/usr/bin/env python3
"""emit_options.py LOCKSTEP: every option of predict that states something of a job, as the table of options.py gives it, and a few jobs
of several, through every emitter: what is written reads back to the same step time and memory, or to those that a note states because the framework
cannot be told all of the job, or is refused by name. An option that is
neither in that table nor among those of the question below fails. Prints what differs, then how many were which.
./check takes a part of the jobs, by turns (turn.py)."""
import concurrent.futures
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import options  # noqa: E402
from turn import of_turn  # noqa: E402

LOCKSTEP = options.PROGRAM
JOBS = [
    ("--model llama3.2-1b", "--pack lognormal:500"), ("--model llama3.2-1b", "--cp 2 --cp-kind ulysses"),
    ("--model llama3.2-1b", "--cp 4 --cp-kind ring"), ("--model llama3.2-1b", "--recompute core_attn+mlp"),
    ("--model llama3.2-1b", "--recompute full/4"), ("--model llama3.2-1b", "--optimizer muon"),
    ("--model llama3.2-1b", "--dtype fp8 --fp8-recipe blockwise"), ("--model llama3.2-1b", "--tp 2 --pp 2 --vp 2"),
    ("--model llama3.2-1b", "--zero 3 --shard-group 4"), ("--model llama3.2-1b", "--offload-optimizer"),
    ("--model llama3.2-1b", "--zero 3 --offload-optimizer --offload-params"),
    ("--model llama3.2-1b", "--zero 3 --recompute full --offload-activations --fused-loss"),
    ("--model llama3.2-1b", "--task lora --lora-rank 16"), ("--model llama3.2-1b", "--no-overlap-grad-reduce"),
    ("--model llama3.2-1b", "--cuda-graphs"), ("--model llama3.2-1b", "--compile"), ("--model llama3.2-1b", "--state-dtype bf16"),
    ("--model llama3.2-1b", "--no-master-weights"), ("--model llama3.2-1b", "--zero 3 --no-master-weights"),
    ("--model qwen3-30b-a3b", "--ep 8 --recompute moe_act+layernorm"), ("--model qwen3-30b-a3b", "--ep 4 --pack fixed:300 --moe-imbalance 1.3"),
    ("--model qwen3-30b-a3b", "--ep 8 --dtype fp8 --fp8-dispatch --dispatch-sms 24"), ("--model qwen3-30b-a3b", "--ep 8 --pp 2 --vp 2 --expert-overlap"),
]
SIZE = "--gpu h100-sxm --gpus 16 --gbs 64 --seq 4096"
TARGETS = {"megatron": "megatron", "nemo": "nemo", "bridge": "nemo", "torchtitan": "torchtitan", "deepspeed": "deepspeed",
           "accelerate": "fsdp", "axolotl": "fsdp", "nanotron": "megatron", "llama-factory": "fsdp"}
FILES = ("axolotl", "nanotron", "llama-factory")
# What the machine is, how it is asked, and what is printed: no part of what is written.
QUESTION = set("""as gpu gpus cluster script deepspeed_config calibration config set var power ranks exact no-contention straggler jitter
    gpu-spread seed seeds noise tokens pue carbon price-kwh mtbf checkpoint-interval checkpoint-write failures recovery checkpoint-tiers spares repair
    price-gpu run input-gbps input-bytes trace trace-ranks graph chakra chakra-times
    chakra-host goal emit replace html charts no-fixes resume output file verbose measured calibrated fail-if""".split())
# Networks and steps that no framework here is written for: refused as such, or no step of training alone.
OTHER_STEPS = set("""plan response response-max lengths prompt samples engine gpu-mem-util max-sequences max-tokens prefix-caching
    attention-dp kv-dtype rollout speculative arrivals slo""".split())


@functools.lru_cache(maxsize=None)
def step(*words):
    done = subprocess.run([LOCKSTEP, "predict", *words, "--no-fixes", "-o", "json"], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        return done.stderr.strip()
    answer = json.loads(done.stdout)
    return answer["step_time_s"], json.dumps(answer["memory"]), answer["peak_bytes"]


def of_options():
    """A job for each option, from the first check of options.py that changes a decoder's answer."""
    for name in sorted(options.names_of("predict")):
        if name in QUESTION or name in OTHER_STEPS:
            continue
        acts = [(job, words) for kind, job, words in options.PREDICT.get(name, []) if kind == "acts" and "--model" in job
                and not any(job.startswith(other) for other in (options.NET, options.DLRM, options.HUGECTR, options.WRITES, options.LEARNS))]
        if not acts:
            yield name, None
        else:
            job, words = acts[0]
            yield name, (job + " " + words).replace("$ROOT", options.ROOT)


UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60, "h": 3600, "GiB": 2**30, "MiB": 2**20, "TiB": 2**40}
NOTE = re.compile(r"has no setting for (.*): (?:as written a step takes ([0-9.]+) (\w+) and ([0-9.]+) (\w+)|what is written cannot run)")


def as_noted(note, got):
    """Whether the answer is that of the note, in its three digits."""
    if not note.group(2):
        return isinstance(got, str)
    near = lambda said, unit, is_: abs(float(said) * UNITS[unit] - is_) <= 0.02 * is_
    return not isinstance(got, str) and near(*note.groups()[1:3], got[0]) and near(*note.groups()[3:5], got[2])


def emitted(job, target):
    """ "same", "noted", "refused", or what is wrong."""
    words = shlex.split(job)
    if "--stack" not in words:
        words += ["--stack", TARGETS[target]]
    want = step(*words)
    if isinstance(want, str):
        return "refused"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "emitted." + ("yaml" if target in FILES else "sh"))
        done = subprocess.run([LOCKSTEP, "predict", *words, "--emit", target, "-f", path], capture_output=True, text=True, check=False)
        if done.returncode == 2:
            return "refused" if "cannot run this job" in done.stderr else done.stderr.strip()
        machine = [w for key in ("--gpu", "--gpus") if key in words for w in (key, words[words.index(key) + 1])]
        got = step(*machine, "--config" if target in FILES else "--script", path)
    note = NOTE.search(done.stderr)
    if note:
        return "noted" if as_noted(note, got) else f"{got}, but {note.group(0)}"
    same = got == want or not isinstance(got, str) and all(abs(a - b) <= 0.006 * b for a, b in zip(got[::2], want[::2]))
    return "same" if same else f"{got} and not {want}"


def main():
    jobs, bad = [], 0
    for name, job in of_options():
        if job:
            jobs.append((name, job))
        else:
            print(f"--{name} is neither in the table of options.py with a job of a decoder nor among the options of a question")
            bad += 1
    jobs += [(more, f"{model} {more} {SIZE}") for model, more in JOBS]
    jobs = of_turn(jobs)
    count = {"same": 0, "noted": 0, "refused": 0}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TEST_JOBS", 2))) as pool:
        tasks = [(name, target, pool.submit(emitted, job, target)) for name, job in jobs for target in TARGETS]
        for name, target, task in tasks:
            result = task.result()
            if result in count:
                count[result] += 1
            else:
                print(f"{target} {name}: {result}")
                bad += 1
    if count["refused"] > count["same"] + count["noted"]:
        print("more are refused than written")
    print(f"{count['same']} read back, {count['noted']} as noted, {count['refused']} refused" + (f", {bad} wrong" if bad else ""))


main()
