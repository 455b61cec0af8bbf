"""Every collective that gloo has, on data that are the same on all ranks: what gloo leaves is what an emulated rank must leave."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def data(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)


def show(name, *tensors):
    print(name, *[t.tolist() for t in tensors], flush=True)


for op in ("SUM", "PRODUCT", "MIN", "MAX"):
    x = data(3)
    dist.all_reduce(x, getattr(dist.ReduceOp, op))
    show(op, x)
x = torch.tensor([6, 3])
dist.all_reduce(x, dist.ReduceOp.BXOR)
show("BXOR", x)
x = torch.sparse_coo_tensor([[1]], [2.0], (3,))
dist.all_reduce(x)
show("sparse", x.to_dense())
work = dist.all_reduce(data(2), async_op=True)
work.wait()
show("result", work.result()[0])
x = data(2)
y = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] + 1).wait()
show("future", y)
x = data(2)
dist.reduce(x, 0)
if rank == 0:
    show("reduce", x)
dist.broadcast(x.copy_(data(2)), 1)
show("broadcast", x)
parts = list(torch.zeros(world, 2))
dist.all_gather(parts, data(2))
show("all_gather", *parts)
parts = [torch.zeros(2), torch.zeros(3)]
dist.all_gather_coalesced([[torch.zeros(2), torch.zeros(3)] for _ in range(world)], parts)
parts = list(torch.zeros(world, 2)) if rank == 1 else None
dist.gather(data(2), parts, 1)
if rank == 1:
    show("gather", *parts)
x = torch.zeros(2)
if rank == 0:
    dist.scatter(x, list(data(world, 2)), 0)
    show("scatter", x)
else:
    dist.scatter(x, None, 0)
x = torch.zeros(2 * world)
dist.all_to_all_single(x, torch.cat([torch.full((2,), 5.0)] * world))
show("all_to_all", x)
objects = [None] * world
dist.all_gather_object(objects, {"a": [1, 2]})
print(objects)
objects = [(7, "seven"), None]
dist.broadcast_object_list(objects, src=0)
print(objects)
half = dist.new_group([0, world - 1])
x = data(2)
dist.all_reduce(x, group=half)
show("group", x)
alone = dist.new_group([rank]) if world == 1 else [dist.new_group([r]) for r in range(world)][rank]
dist.all_reduce(x, group=alone)
show("alone", x)
dist.barrier()
dist.monitored_barrier()
print(dist.get_backend(), dist.get_world_size(half), dist.is_initialized())
dist.destroy_process_group()
