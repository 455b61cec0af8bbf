#!/usr/bin/env python3
"""Mean completion times of drawn jobs under every policy, at several loads, as a Markdown table.

    python3 bench/jobs.py build/release/lockstep [--seeds 8] [--jobs 300] [--gpus 64] [--gpu a100-sxm-80] [--objective log]

Of each load: the mean over the seeds of each policy's mean completion time, and of its ratio to fifo (lowest and highest).
The simulation is deterministic: two runs print the same.
"""
import argparse
import json
import subprocess


def answer(args, load, seed):
    command = [args.lockstep, "jobs", "--draw", str(args.jobs), "--load", str(load), "--seed", str(seed), "--gpu", args.gpu,
               "--gpus", str(args.gpus), "--objective", args.objective, "-o", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--gpu", default="a100-sxm-80")
    parser.add_argument("--objective", default="log")
    args = parser.parse_args()
    print("| load | policy | mean completion, h | fifo / this (lowest .. highest) | done before the last arrival | GPUs used |")
    print("|---|---|---|---|---|---|")
    for load in (0.7, 0.9, 1.1):
        answers = [answer(args, load, seed) for seed in range(1, args.seeds + 1)]
        for place, policy in enumerate(answers[0]["policies"]):
            of = [a["policies"][place] for a in answers]
            mean = lambda key: sum(p[key] for p in of) / len(of)
            ratios = [p["ratio"] for p in of]
            print(f"| {load} | {policy['policy']} | {mean('mean_s') / 3600:.2f} | {mean('ratio'):.2f} "
                  f"({min(ratios):.2f} .. {max(ratios):.2f}) | {100 * mean('done') / args.jobs:.0f} % | "
                  f"{100 * mean('used'):.0f} % |", flush=True)


if __name__ == "__main__":
    main()
