"""A small transformer, several micro-batches a step of which the last one communicates."""
import contextlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")


class Model(nn.Module):
    def __init__(self, words=97, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(16, width)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True), 2)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        mask = torch.full((16, 16), float("-inf")).triu(1)
        return self.head(self.layers(self.words(tokens) + self.places.weight, mask))


model = DistributedDataParallel(Model(), gradient_as_bucket_view=True, find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(6):
    for micro in range(3):
        tokens = torch.randint(97, (4, 17))
        with model.no_sync() if micro < 2 else contextlib.nullcontext():
            loss = nn.functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
            (loss / 3).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
everywhere = [torch.zeros(()) for _ in range(dist.get_world_size())]
dist.all_gather(everywhere, loss.detach())
print("mingpt: rank %d of %d," % (dist.get_rank(), len(everywhere)), all(e == loss for e in everywhere))
