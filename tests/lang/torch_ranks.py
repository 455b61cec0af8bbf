"""On every rank of mpirun: modules that `emit --target torch` wrote, each schedule against the module's own reference.
torch_ranks.py MODULE=SIZES...: prints a line per schedule on rank 0; exit status 1 where one differs."""
import importlib
import os
import sys
import tempfile
import zlib

import torch
import torch.distributed as dist


def draw(module, mesh, argument, shape, modulus):
    """Numbers that are the same on ranks which hold the same."""
    dtype, _, layout = module.ARGUMENTS[0][argument]
    own = [mesh.at[a] for a, text in zip(module.AXES, layout.split(" ")) if not text.startswith("R(")]
    source = torch.Generator().manual_seed(zlib.crc32(f"{argument} {own}".encode()))
    if not dtype.is_floating_point:
        return torch.randint(0, modulus, shape, generator=source).to(dtype)
    return (torch.rand(shape, generator=source) + (0.1 if argument.startswith("state") else -0.5)).to(dtype)


def as_held(mesh, x, shape):
    """A whole state as a schedule holds it: sliced over the one axis."""
    for d, extent in enumerate(shape):
        if x.shape[d] != extent:
            return mesh.slice(x, d, mesh.axes[0]).clone()
    return x.clone()


def apart(got, want):
    scale = max(1.0, want.double().abs().max().item() if want.numel() else 0)
    unit = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(want.dtype, 1e-5)
    return (got.double() - want.double()).abs().max().item() / scale / unit if want.numel() else 0


def check(name, sizes):
    module = importlib.import_module(name)
    sizes = {k: int(v) for k, v in (word.split("=") for word in sizes.split(","))}
    scalars = {name: 0.3 for name in module.SCALARS}
    plain, worst = module.Compiled("plain", sizes), 0
    given = {a: draw(module, plain.mesh, a, plain.shape(a), 2) for a in plain.arguments if not a.startswith("out")}
    inputs = {a[3:]: x for a, x in given.items() if a.startswith("in_")}
    held = {a[6:]: x.clone() for a, x in given.items() if a.startswith("state_")}
    want = module.Reference(sizes)(inputs, held, scalars)
    for schedule in module.SCHEDULES:
        step = module.Compiled(schedule, sizes)
        states = {a[6:]: as_held(step.mesh, x, step.shape(a)) for a, x in given.items() if a.startswith("state_")}
        got = step(inputs, states, scalars)
        pairs = list(zip(got, want)) + [(x, as_held(step.mesh, held[k], x.shape)) for k, x in states.items()]
        found = torch.tensor(max(apart(a, b) for a, b in pairs))
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        worst = max(worst, found.item())
        if dist.get_rank() == 0:
            print(f"{name} {schedule}: {'agrees' if found <= 1 else f'differs by {found.item():.3g} of what is allowed'}")
        step.close()
        if module.REFERENCES[module.SCHEDULES.index(schedule)]:
            worst = max(worst, by_torch(module, schedule, sizes, inputs, given, scalars, want, held))
    return worst > 1


def by_torch(module, schedule, sizes, inputs, given, scalars, want, held):
    """The schedule by torch's own operations and gloo's collectives, against the program as it stands."""
    step = module.Reference(sizes, None, schedule)
    states = {a[6:]: as_held(step.mesh, x, step.shape(a)) for a, x in given.items() if a.startswith("state_")}
    got = step(inputs, states, scalars)
    pairs = list(zip(got, want)) + [(x, as_held(step.mesh, held[k], x.shape)) for k, x in states.items()]
    found = torch.tensor(max(apart(a, b) for a, b in pairs))
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"{module.PROGRAM} {schedule} by torch: {'agrees' if found <= 1 else f'differs by {found.item():.3g} of what is allowed'}")
    return found.item()


def main():
    sys.path.insert(0, os.getcwd())
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    meet = os.path.join(os.environ.get("TORCH_MEET", tempfile.gettempdir()), f"meet.{ranks}")
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=ranks)
    wrong = sum(check(*word.split(":")) for word in sys.argv[1:])
    dist.barrier()
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
