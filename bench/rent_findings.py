#!/usr/bin/env python3
"""The findings of Stash (ICDCS 2023) on AWS p2 and p3, predicted, as a Markdown table.

    python3 bench/rent_findings.py PROGRAM

Of each network at 32 images (BERT: 4 sequences) a GPU, in fp32 with DDP: the step on one GPU, on all GPUs of one machine, and
on as many GPUs of two machines of half the size. Interconnect stall: share of the step that all GPUs of one machine need longer
than one of them, with DDP's buckets of 25 MiB; and with a reduction for each tensor, as Stash's script for images had it (BERT's had
buckets). Network: how much slower two machines are than one of the same number of GPUs.
"""
import json
import subprocess
import sys

MACHINES = [  # one machine, two of half the size, as `lockstep machines` has them
    ("p2.16xlarge", "1 node * 16 k80 pcie", "2 x p2.8xlarge", "2 node * 8 k80 pcie, nic 1*10g"),
    ("p3.16xlarge", "1 node * 8 v100-sxm-16 nvlink", "2 x p3.8xlarge", "2 node * 4 v100-sxm-16 nvlink, nic 1*10g"),
]
TENSORS = 0.001  # MiB: less than any tensor that counts
NETWORKS = [("alexnet", 32), ("shufflenet-v2-x0.5", 32), ("squeezenet1.0", 32), ("mobilenet-v2", 32), ("resnet18", 32), ("resnet50", 32),
            ("resnet152", 32), ("vgg11", 32), ("bert-large", 4)]


def step(cluster, gpus, network, batch, bucket=25):
    command = [sys.argv[1], "predict", "--model", network, "--cluster", cluster, "--gpus", str(gpus), "--mbs", str(batch), "--dtype",
               "fp32", "--stack", "ddp", "-o", "json"] + (["--seq", "384"] if network.startswith("bert") else [])
    if gpus > 1:  # one GPU reduces no gradients
        command += ["--bucket", str(bucket)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["step_time_s"]


def main():
    print("| machine | network | 1 GPU, ms | all GPUs, ms | interconnect stall | tensor by tensor, ms | stall | two machines, ms | slower by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, cluster, halves, joined in MACHINES:
        gpus = int(cluster.split("*")[1].split()[0])
        for network, batch in NETWORKS:
            one, whole, two = step(cluster, 1, network, batch), step(cluster, gpus, network, batch), step(joined, gpus, network, batch)
            tensors = None if network.startswith("bert") else step(cluster, gpus, network, batch, TENSORS)
            apart = f"{1e3 * tensors:.0f} | {100 * max(0, 1 - one / tensors):.0f} %" if tensors else " | "
            print(f"| {name}; {halves} | {network} | {1e3 * one:.0f} | {1e3 * whole:.0f} | {100 * max(0, 1 - one / whole):.0f} % | {apart} | "
                  f"{1e3 * two:.0f} | {two / whole:.1f} x |")


if __name__ == "__main__":
    main()
