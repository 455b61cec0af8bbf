"""Samples divided among ranks, batch normalisation whose buffers are broadcast, means over all ranks, checkpoints of rank 0."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo", init_method="tcp://127.0.0.1:23456",
                        world_size=int(os.environ["WORLD_SIZE"]), rank=int(os.environ["RANK"]))
rank, world = dist.get_rank(), dist.get_world_size()
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
net = nn.parallel.DistributedDataParallel(net)
data = TensorDataset(torch.randn(16 * world, 3, 16, 16), torch.randint(5, (16 * world,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for images, target in loader:
        loss = nn.functional.cross_entropy(net(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = torch.tensor([loss.item() * len(target), len(target)])
    dist.all_reduce(total, dist.ReduceOp.SUM)
    if rank == 0:
        torch.save({"epoch": epoch, "net": net.state_dict()}, "checkpoint.pt")
print("imagenet: rank %d of %d, %d images" % (rank, world, total[1]), torch.isfinite(total).all().item())
