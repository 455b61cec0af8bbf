#!/usr/bin/env python3
"""Whether `explain TRACE --job JOB` names what differs: usage: judge.py PROGRAM [-v] [OPTIONS of
predict: what the traced run has in addition to its change, which the job does not say].

A pair is a job, and the same with one change whose predicted step is written as a timeline. The
comparison of that timeline with the unchanged job must list the change first. Among the pairs are
changes of the job, of its software, of the GPUs and of the network. Exit status 1 below the floor."""
import json
import os
import subprocess
import sys
import tempfile

FLOOR = 32

DENSE = "llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --pp 1 --zero 1 --mbs 1 --gbs 64 --stack megatron"
SHARDED = "llama3.1-8b --gpu h100-sxm --gpus 16 --tp 1 --pp 1 --zero 3 --mbs 2 --gbs 64 --recompute full --stack fsdp"
STAGES = "llama3.1-8b --gpu h100-sxm --gpus 16 --tp 2 --pp 4 --vp 2 --zero 1 --mbs 1 --gbs 32 --stack megatron"
EXPERTS = "mixtral-8x7b --gpu h100-sxm --gpus 32 --tp 1 --pp 2 --ep 8 --zero 1 --mbs 1 --gbs 64"
NODES = "--cluster '2 node * 8 h100-sxm %s, nic %s'"


def cluster(links, nics):
    return lambda job: job.replace("--gpu h100-sxm --gpus 16", NODES % (links, nics))


def swap(old, new):
    return lambda job: job.replace(old, new)


# (the cause that is to be first, job, change: options that are added, or a function)
PAIRS = [
    ("recompute_full", DENSE, "--recompute full"),
    ("recompute_selective", DENSE, "--recompute selective"),
    ("recompute_none", SHARDED, swap("--recompute full", "--recompute none")),
    ("attention_unfused", DENSE, "--attention unfused"),
    ("eager", SHARDED + " --no-eager", swap("--no-eager", "--eager")),
    ("compile", SHARDED, "--compile"),
    ("no_overlap_reduce", DENSE, "--no-overlap-grad-reduce"),
    ("no_overlap_gather", DENSE, "--no-overlap-param-gather"),
    ("no_sequence_parallel", DENSE, "--no-sequence-parallel"),
    ("half_tp", DENSE, swap("--tp 2", "--tp 1")),
    ("double_tp", DENSE, swap("--tp 2", "--tp 4")),
    ("zero_0", DENSE, swap("--zero 1", "--zero 0")),
    ("zero_3", SHARDED.replace("--zero 3", "--zero 1"), swap("--zero 1", "--zero 3")),
    ("fp32", SHARDED, "--dtype fp32"),
    ("fp8", DENSE, "--dtype fp8"),
    ("double_mbs", DENSE, swap("--mbs 1", "--mbs 2")),
    ("half_mbs", SHARDED, swap("--mbs 2", "--mbs 1")),
    ("double_gbs", DENSE, swap("--gbs 64", "--gbs 128")),
    ("half_gbs", DENSE, swap("--gbs 64", "--gbs 32")),
    ("double_seq", DENSE + " --seq 4096", swap("--seq 4096", "--seq 8192")),
    ("half_seq", DENSE + " --seq 8192", swap("--seq 8192", "--seq 4096")),
    ("offload_optimizer", DENSE, "--offload-optimizer"),
    ("offload_activations", SHARDED, "--offload-activations"),
    ("plain_1f1b", STAGES, swap("--vp 2", "--vp 1")),
    ("power_70", DENSE, "--power 490"),
    ("straggler_1.3", STAGES, "--straggler 0:1.3"),
    ("gpu_a100", DENSE, swap("h100-sxm", "a100-sxm-80")),
    ("gpu_h200", SHARDED, swap("h100-sxm", "h200")),
    ("one_nic", SHARDED, cluster("nvlink4", "1*400g")),
    ("one_nic_100g", SHARDED, cluster("nvlink4", "1*100g")),
    ("sockets", SHARDED, cluster("nvlink4", "8*400g sockets")),
    ("no_nvlink", DENSE, cluster("pcie5", "8*400g")),
    ("imbalance_2", EXPERTS, "--moe-imbalance 2"),
    ("allgather_dispatcher", EXPERTS, "--dispatcher allgather"),
]


def ask(program, *words):
    answer = subprocess.run([program, *words], capture_output=True, text=True)
    if answer.returncode not in (0, 1) or not answer.stdout:
        raise SystemExit(f"{words}: {answer.stderr}")
    return answer.stdout


def main():
    import shlex
    program, verbose = sys.argv[1], "-v" in sys.argv
    more = [word for word in sys.argv[2:] if word != "-v"]
    named = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        for cause, job, change in PAIRS:
            changed = change(job) if callable(change) else f"{job} {change}"
            ask(program, "predict", *shlex.split(changed), *more, "--trace", path)
            versus = json.loads(ask(program, "explain", path, "--job", job, "-o", "json"))["versus"]
            parts = sum(part["delta_s"] for part in versus["parts"])
            off = versus["measured_s"] - versus["predicted_s"]
            assert abs(parts - off) <= 0.01 * max(abs(off), 1e-3 * versus["measured_s"]), (cause, parts, off)
            causes = [found["cause"] for found in versus["causes"]]
            named += causes[:1] == [cause]
            if verbose or causes[:1] != [cause]:
                shown = ", ".join(f"{c['cause']} {c['share']:.2f} off {c['time_off']:.4f} {c['work_off']:.4f}" for c in versus["causes"][:3])
                print(f"{'ok' if causes[:1] == [cause] else 'NO':3} {cause:22} x {versus['ratio']:.3f}"
                      f" off {versus['unchanged_time_off']:.4f} {versus['unchanged_work_off']:.4f}: {shown}")
    print(f"{named} of {len(PAIRS)} changes are named first; at least {FLOOR} must be")
    return named < FLOOR


if __name__ == "__main__":
    sys.exit(main())
