#!/usr/bin/env python3
"""expected_judge.py PROGRAM: how often a change that was made to a job is named first by predict --measured.

Job A is one of six; job B is A with one change of 25. B's step time (a number), or B's log as
Megatron-LM prints it (step time, memory, timers), is given to A. Prints a row a change; exit status 1
if fewer are named first than the floors below. With -v also what was named instead.
"""
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

FLOORS = {"number": 17, "log": 21}
H100 = "8 node * 8 h100-sxm nvlink4, nic "
JOBS = {
    "8b, 8 GPUs": "llama3-8b --gpu h100 --gpus 8 --tp 2 --gbs 64 --seq 8192 --mbs 1",
    "70b, 64 GPUs": "llama3-70b --gpu h100 --gpus 64 --tp 8 --pp 4 --mbs 1 --gbs 128 --seq 8192",
    "8b, FSDP": "llama3-8b --gpu h100 --gpus 32 --stack torchtitan --zero 3 --mbs 1 --gbs 64 --seq 8192",
    "experts": "mixtral-8x7b --gpu h100 --gpus 64 --tp 2 --pp 4 --ep 8 --mbs 1 --gbs 256 --seq 4096",
    "fine-tuning": "llama3-8b --gpu a100-sxm-80 --gpus 8 --stack fsdp --zero 3 --task sft --mbs 2 --gbs 64 --seq 2048",
    "PCIe": "llama2-7b --gpu l40s --gpus 8 --stack deepspeed --zero 3 --mbs 1 --gbs 32 --seq 4096",
}
# the job, what is changed in it, the causes that say so
CHANGES = [
    ("8b, 8 GPUs", "--recompute full", "recompute_full"),
    ("8b, 8 GPUs", "--power 490", "power_70"),
    ("8b, 8 GPUs", "--straggler 0:1.3", "straggler_1.3"),
    ("8b, 8 GPUs", "--gbs 32", "half_gbs stated_gbs"),
    ("8b, 8 GPUs", "--dtype tf32", "tf32"),
    ("70b, 64 GPUs", {"cluster": H100 + "1*100g"}, "one_nic_100g"),
    ("70b, 64 GPUs", {"cluster": "8 node * 8 h100-sxm pcie, nic 8*400g"}, "no_nvlink"),
    ("70b, 64 GPUs", "--recompute full", "recompute_full"),
    ("70b, 64 GPUs", "--gpus 32", "fewer_gpus"),
    ("70b, 64 GPUs", "--seq 4096", "half_seq"),
    ("8b, FSDP", {"cluster": "4 node * 8 h100-sxm nvlink4, nic 1*400g"}, "one_nic"),
    ("8b, FSDP", {"cluster": "4 node * 8 h100-sxm nvlink4, nic 1*100g"}, "one_nic_100g"),
    ("8b, FSDP", {"cluster": "4 node * 8 h100-sxm nvlink4, nic 8*400g, oversub 4"}, "shared_fabric"),
    ("8b, FSDP", {"cluster": "4 node * 8 h100-sxm pcie, nic 8*400g"}, "no_nvlink"),
    ("8b, FSDP", "--recompute full", "recompute_full"),
    ("experts", "--moe-imbalance 2", "imbalance_2"),
    ("experts", "--moe-imbalance 4", "imbalance_4"),
    ("experts", {"cluster": H100 + "1*100g"}, "one_nic_100g"),
    ("experts", "--power 350", "power_50"),
    ("fine-tuning", "--recompute full", "recompute_full"),
    ("fine-tuning", "--mbs 1", "half_mbs"),
    ("fine-tuning", "--gbs 128", "double_gbs stated_gbs"),
    ("PCIe", {"cluster": "1 node * 8 l40s pcie, nop2p, nic 8*100g"}, "no_peer"),
    ("PCIe", {"cluster": "1 node * 8 l40s pcie 12GB/s, nic 8*100g"}, "half_pcie"),
    ("PCIe", "--seq 2048", "half_seq"),
]


def predict(program, words):
    done = subprocess.run([program, "predict", *words, "--no-fixes", "-o", "json"],
                          capture_output=True, text=True, check=False)
    if done.returncode == 2:
        sys.exit(f"expected_judge.py: {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def changed(job, change):
    words = JOBS[job].split()
    if isinstance(change, str):
        return words + change.split()
    for option in ("--gpu", "--gpus"):
        at = words.index(option)
        del words[at:at + 2]
    return words + ["--cluster", change["cluster"]]


def megatron_log(answer):
    """Forty iterations of a run that is exactly as predicted."""
    ms = 1000 * answer["step_time_s"]
    parts = {key: 1000 * part["exposed_s"] for key, part in answer["breakdown"].items()}
    outside = parts.get("dp", 0), parts.get("optimizer", 0)
    peak = max(answer["memory"], key=lambda stage: stage["reserved_bytes"])
    layout = answer["layout"]
    lines = []
    for i in range(1, 41):
        lines.append(f" [2026-01-01 00:00:{i % 60:02d}.000000] iteration {i:8d}/     100 | consumed samples: "
                     f"{i * layout['gbs']:12d} | elapsed time per iteration (ms): {ms:.1f} | learning rate: "
                     f"1.0E-05 | global batch size: {layout['gbs']:5d} | lm loss: 2.0E+00 | loss scale: 1.0 | "
                     "grad norm: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |")
        if i == 1:
            lines.append("[Rank 0] (after 1 iterations) memory (MB) | allocated: 1000.0 | max allocated: "
                         f"{peak['allocated_bytes'] / 2**20:.1f} | reserved: {peak['reserved_bytes'] / 2**20:.1f}"
                         f" | max reserved: {peak['reserved_bytes'] / 2**20:.1f}")
        lines += ["(min, max) time across ranks (ms):",
                  f"    forward-backward ...............................: ({ms - sum(outside):.2f}, {ms - sum(outside):.2f})",
                  f"    all-grads-sync .................................: ({outside[0]:.2f}, {outside[0]:.2f})",
                  f"    optimizer ......................................: ({outside[1]:.2f}, {outside[1]:.2f})"]
    return "\n".join(lines) + "\n"


def judge(program, kinds, row):
    """The answers to B's number and to its log, by kind."""
    words = JOBS[row[0]].split()
    true = predict(program, changed(row[0], row[1]))
    answers = {}
    if "number" in kinds:
        answers["number"] = predict(program, words + ["--measured", f"{true['step_time_s']:.4g} s"])
    if "log" in kinds:
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(megatron_log(true))
            log.flush()
            answers["log"] = predict(program, words + ["--measured", log.name])
    return answers


def main():
    program, verbose = sys.argv[1], "-v" in sys.argv
    kinds = [kind for kind in FLOORS if kind in sys.argv] or list(FLOORS)
    failed = False
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda row: judge(program, kinds, row), CHANGES))
    for kind in kinds:
        first = 0
        for (job, _, right), answers in zip(CHANGES, judged):
            causes = answers[kind]["expected"]["causes"]
            found = bool(causes) and causes[0]["cause"] in right.split()
            first += found
            if verbose:
                shown = " ".join(f"{c['cause']}:{c['share']:.2f}" for c in causes[:4])
                print(f"{kind:7} {job:13} {right:22} {'yes' if found else 'no ':3} {shown}")
        print(f"{kind}: {first} of {len(CHANGES)} changes are named first")
        failed |= first < FLOORS[kind]
    return failed


if __name__ == "__main__":
    sys.exit(main())
