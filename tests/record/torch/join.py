"""Inputs of different length on each rank, evened out by Join."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join

dist.init_process_group("gloo")
rank = dist.get_rank()
net = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
count = 0
with Join([net]):
    for batch in [torch.randn(8, 16)] * (5 + rank % 3):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
        count += 1
print("join: rank %d of %d, %d batches" % (rank, dist.get_world_size(), count))
