"""Parameters in shards, gathered for each block: what FullyShardedDataParallel does, by the calls that it does it with. The class
itself wants a GPU in PyTorch 1.13."""
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
try:
    from torch.distributed.fsdp import FullyShardedDataParallel
    FullyShardedDataParallel(nn.Linear(8, 8))
    print("fsdp: the class works here")
except (RuntimeError, AssertionError, ValueError) as error:
    print("fsdp: the class does not:", str(error).splitlines()[0][:60])
torch.manual_seed(3)
blocks = [nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(3)]


def padded(block):
    flat = nn.utils.parameters_to_vector(block.parameters()).detach()
    return nn.functional.pad(flat, (0, -len(flat) % world))


sizes = [sum(p.numel() for p in block.parameters()) for block in blocks]
shards = [padded(block).chunk(world)[rank].clone() for block in blocks]


def gather(i):
    whole = torch.empty(len(shards[i]) * world)
    dist.all_gather_into_tensor(whole, shards[i]) if hasattr(dist, "all_gather_into_tensor") else dist._all_gather_base(whole, shards[i])
    nn.utils.vector_to_parameters(whole[:sizes[i]], blocks[i].parameters())


for step in range(6):
    x = torch.randn(8, 32)
    kept = []
    for i, block in enumerate(blocks):
        gather(i)
        kept.append(x.detach().requires_grad_())
        x = block(kept[-1])
    loss, gradient = x.square().mean(), 2 * x.detach() / x.numel()
    for i in reversed(range(len(blocks))):
        gather(i)
        blocks[i].zero_grad()
        blocks[i](kept[i]).backward(gradient)
        gradient = kept[i].grad
        whole = nn.functional.pad(torch.cat([p.grad.flatten() for p in blocks[i].parameters()]), (0, len(shards[i]) * world - sizes[i]))
        own = torch.empty_like(shards[i])
        scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        scatter(own, whole)
        shards[i] -= 0.1 / world * own
print("fsdp: rank %d of %d," % (rank, world), bool(torch.isfinite(loss)))
