"""GPipe over all ranks: activations by send and recv, gradients by a batch of both ways."""
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world, micros = dist.get_rank(), dist.get_world_size(), 4
stage = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
for step in range(8):
    ins, outs = [], []
    for micro in range(micros):
        x = torch.randn(8, 64) if rank == 0 else torch.empty(8, 64)
        if rank > 0:
            dist.recv(x, rank - 1)
        ins.append(x.requires_grad_())
        outs.append(stage(x))
        if rank < world - 1:
            dist.send(outs[-1].detach(), rank + 1)
    for micro in range(micros):
        gradient = torch.ones(8, 64)
        if rank < world - 1:
            for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, gradient, rank + 1)]):
                work.wait()
        outs[micro].backward(gradient)
        if rank > 0:
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, ins[micro].grad, rank - 1)]):
                work.wait()
    for p in stage.parameters():
        p.data -= 1e-4 * p.grad
        p.grad = None
print("pipeline: rank %d of %d," % (rank, world), bool(torch.isfinite(outs[-1]).all()))
