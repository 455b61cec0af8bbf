"""Hooks that compress gradients: of PyTorch in C++ and in Python, and one of the program's own."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook


def halves(group, bucket):
    small = bucket.buffer().to(torch.float16).div_(dist.get_world_size())
    future = dist.all_reduce(small, async_op=True).get_future()
    return future.then(lambda f: bucket.buffer().copy_(f.value()[0]))


dist.init_process_group("gloo")
state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=3)
done = []
for state, hook in ((None, default_hooks.allreduce_hook), (None, halves), (state, powerSGD_hook.powerSGD_hook)):
    torch.manual_seed(5)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), bucket_cap_mb=0.01)
    net.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(6):
        optimizer.zero_grad()
        loss = net(torch.randn(16, 64)).square().mean()
        loss.backward()
        optimizer.step()
    done.append(bool(torch.isfinite(loss)))
print("hooks: rank %d of %d," % (dist.get_rank(), dist.get_world_size()), done)
