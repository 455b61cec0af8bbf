#!/usr/bin/env python3
"""emit_options.py LOCKSTEP: jobs with options beyond the layout, through every emitter: what is written reads back to the same step
time and memory, or is refused by name. Prints what differs, then how many were which."""
import json
import subprocess
import sys

LOCKSTEP = sys.argv[1]
JOBS = [
    ("--model llama3.2-1b", "--pack lognormal:500"), ("--model llama3.2-1b", "--cp 2 --cp-kind ulysses"),
    ("--model llama3.2-1b", "--cp 4 --cp-kind ring"), ("--model llama3.2-1b", "--recompute core_attn+mlp"),
    ("--model llama3.2-1b", "--recompute full/4"), ("--model llama3.2-1b", "--optimizer muon"),
    ("--model llama3.2-1b", "--dtype fp8 --fp8-recipe blockwise"), ("--model llama3.2-1b", "--tp 2 --pp 2 --vp 2"),
    ("--model llama3.2-1b", "--zero 3 --shard-group 4"), ("--model llama3.2-1b", "--offload-optimizer"),
    ("--model llama3.2-1b", "--task lora --lora-rank 16"), ("--model llama3.2-1b", "--no-overlap-grad-reduce"),
    ("--model llama3.2-1b", "--cuda-graphs"), ("--model llama3.2-1b", "--compile"), ("--model llama3.2-1b", "--state-dtype bf16"),
    ("--model qwen3-30b-a3b", "--ep 8 --recompute moe_act+layernorm"), ("--model qwen3-30b-a3b", "--ep 4 --pack fixed:300 --moe-imbalance 1.3"),
    ("--model qwen3-30b-a3b", "--ep 8 --dtype fp8 --fp8-dispatch --dispatch-sms 24"), ("--model qwen3-30b-a3b", "--ep 8 --pp 2 --vp 2 --expert-overlap"),
]
TARGETS = {"megatron": "megatron", "nemo": "nemo", "bridge": "nemo", "torchtitan": "torchtitan", "deepspeed": "deepspeed",
           "accelerate": "fsdp", "axolotl": "fsdp", "nanotron": "megatron", "llama-factory": "fsdp"}


def step(words):
    done = subprocess.run([LOCKSTEP, "predict", *words, "--no-fixes", "-o", "json"], capture_output=True, text=True)
    if done.returncode == 2:
        return done.stderr.strip()
    answer = json.loads(done.stdout)
    return answer["step_time_s"], json.dumps(answer["memory"])


same = refused = 0
for model, more in JOBS:
    for target, stack in TARGETS.items():
        job = f"{model} {more} --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096 --stack {stack}".split()
        want = step(job)
        if isinstance(want, str):
            refused += 1
            continue
        path = f"emitted.{'yaml' if target in ('accelerate', 'axolotl', 'nanotron', 'llama-factory') else 'sh'}"
        done = subprocess.run([LOCKSTEP, "predict", *job, "--emit", target, "-f", path], capture_output=True, text=True)
        if done.returncode == 2:
            if "cannot run this job" not in done.stderr:
                print(target, more, done.stderr.strip())
            refused += 1
            continue
        got = step(["--gpu", "h100-sxm", "--gpus", "16", "--config" if path.endswith("yaml") else "--script", path])
        if got == want:
            same += 1
        else:
            print(f"{target} {model} {more}: {got} and not {want}")
print(f"{same} read back, {refused} refused")
