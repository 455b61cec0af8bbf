"""Columns of the first matrix and rows of the second on the ranks of a group, replicas across groups: a mesh of new_group."""
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
width = min(4, world)
for first in range(0, world, width):
    made = dist.new_group(list(range(first, first + width)))
    if first <= rank < first + width:
        tensor = made
for first in range(width):
    made = dist.new_group(list(range(first, world, width)))
    if rank % width == first:
        data = made


class Into(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=tensor)
        return gradient


class OutOf(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        x = x.clone()
        dist.all_reduce(x, group=tensor)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient


up, down = nn.Linear(64, 256 // width), nn.Linear(256 // width, 64, bias=False)
parameters = list(up.parameters()) + list(down.parameters())
for step in range(8):
    x = torch.randn(16, 64)
    dist.broadcast(x, rank // width * width, group=tensor)
    loss = OutOf.apply(down(torch.relu(up(Into.apply(x))))).square().mean()
    loss.backward()
    work = [dist.all_reduce(p.grad, group=data, async_op=True) for p in parameters]
    for one, p in zip(work, parameters):
        one.wait()
        p.data -= 1e-3 / dist.get_world_size(data) * p.grad
        p.grad = None
print("tensor parallel: rank %d of %d," % (rank, world), dist.get_world_size(tensor), dist.get_world_size(data),
      bool(torch.isfinite(loss)))
