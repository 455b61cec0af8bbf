"""ZeroRedundancyOptimizer: each rank updates its own parameters and broadcasts them."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
net = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(32, 32) for _ in range(6)]))
optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
for step in range(6):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
print("zero: rank %d of %d," % (dist.get_rank(), dist.get_world_size()), bool(torch.isfinite(loss)))
