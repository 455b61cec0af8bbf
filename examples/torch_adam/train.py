#!/usr/bin/env python3
"""A small transformer trained twice by several ranks from the same start: with DistributedDataParallel and torch's Adam,
and with the optimizer that lockstep wrote from ../fused_adam/adam.lk, which reduces, updates and gathers slice by slice
and keeps 1/P of the moments. Prints both losses; exit status 1 where they are more than 1e-5 apart at any step.

    lockstep compile emit --target torch ../fused_adam/adam.lk --out adam.py
    mpirun -n 2 python3 train.py
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, os.getcwd())
import adam  # noqa: E402: the emitted module is in this folder

STEPS, WORDS, LENGTH, BATCH, WIDTH = 50, 29, 12, 8, 32
LR, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1))

    def forward(self, text):
        return self.out(self.layers(self.words(text) + self.places, self.mask))


def batch(step, rank):
    """Nine of ten words follow from the one before; the others are random."""
    source = torch.Generator().manual_seed(1000 * step + rank)
    text = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=source)
    for t in range(1, LENGTH + 1):
        chance = torch.rand(BATCH, generator=source) < 0.9
        text[:, t] = torch.where(chance, (3 * text[:, t - 1] + 1) % WORDS, text[:, t])
    return text


def loss_of(network, text):
    return nn.functional.cross_entropy(network(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def mean_over_ranks(x):
    x = x.detach().clone()
    dist.all_reduce(x)
    return x.item() / dist.get_world_size()


def start():
    torch.manual_seed(1)
    return Network()


def by_torch(rank):
    network = nn.parallel.DistributedDataParallel(start())
    optimizer = torch.optim.Adam(network.parameters(), lr=LR, betas=(B1, B2), eps=EPS)
    losses = []
    for step in range(STEPS):
        loss = loss_of(network, batch(step, rank))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(mean_over_ranks(loss))
    return losses


def by_lockstep(rank, schedule):
    network = start()
    weights = nn.utils.parameters_to_vector(network.parameters()).detach()
    step_of = adam.Compiled(schedule, {"dp": dist.get_world_size(), "N": weights.numel()})
    states = {"w": weights.clone(), "m": torch.zeros(step_of.shape("state_m")), "v": torch.zeros(step_of.shape("state_v"))}
    losses = []
    for step in range(STEPS):
        loss = loss_of(network, batch(step, rank))
        network.zero_grad()
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
        step_of({"g": gradient}, states, {"lr": LR, "b1": B1, "b2": B2, "eps": EPS, "t": step + 1})
        nn.utils.vector_to_parameters(states["w"], network.parameters())
        losses.append(mean_over_ranks(loss))
    return losses


def main():
    rank, ranks = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0)), int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
    torch.set_num_threads(1)
    meet = os.path.join(tempfile.gettempdir(), "lockstep-train-" + os.environ.get("OMPI_MCA_ess_base_jobid", str(os.getpid())))
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=ranks)
    schedule = sys.argv[1] if len(sys.argv) > 1 else "zero"
    ours, theirs = by_lockstep(rank, schedule), by_torch(rank)
    apart = max(abs(a - b) for a, b in zip(ours, theirs))
    if rank == 0:
        for step in list(range(0, STEPS, 10)) + [STEPS - 1]:
            print(f"step {step:2}  loss {theirs[step]:.6f} by torch, {ours[step]:.6f} by lockstep")
        print(f"at most {apart:.2g} apart over {STEPS} steps on {ranks} ranks, schedule {schedule}")
    dist.barrier()
    return apart > 1e-5


if __name__ == "__main__":
    sys.exit(main())
