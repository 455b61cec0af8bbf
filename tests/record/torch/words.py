"""A recurrent language model whose gradients the program itself averages, with settings and results as objects."""
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("mpi")
rank, world = dist.get_rank(), dist.get_world_size()
settings = [{"width": 32}, "run 7"]
dist.broadcast_object_list(settings, src=0)
net, read = nn.LSTM(settings[0]["width"], 32), nn.Linear(32, 50)
parameters = list(net.parameters()) + list(read.parameters())
for p in parameters:
    dist.broadcast(p.data, 0)
state = None
for step in range(8):
    out, state = net(torch.randn(10, 4, 32), state)
    state = tuple(part.detach() for part in state)
    loss = nn.functional.cross_entropy(read(out).flatten(0, 1), torch.randint(50, (40,)))
    loss.backward()
    for p in parameters:
        dist.all_reduce(p.grad)
        p.data -= 0.1 / world * p.grad
        p.grad = None
everybody = [None] * world
dist.all_gather_object(everybody, {"rank": rank, "loss": loss.item()})
gathered = everybody if rank else [None] * world
dist.gather_object({"done": True}, gathered if rank == 0 else None, dst=0)
mine = [None]
dist.scatter_object_list(mine, [{"part": i} for i in range(world)] if rank == 0 else None, src=0)
print("words: rank %d of %d," % (rank, world), dist.get_backend(), settings[1], len(everybody), all(everybody),
      mine[0] == ({"part": 0} if rank == 0 else None))
