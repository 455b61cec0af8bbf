# ---- the runtime: what this module needs in addition to the program ---------------------------------------------------

import ctypes
import hashlib
import math
import os
import subprocess

import torch
import torch.distributed as dist


def _cut(count, ranks, rank):
    """First place and number of elements of a rank's slice: the first `count % ranks` ranks hold one more."""
    each, more = divmod(count, ranks)
    return rank * each + min(rank, more), each + (rank < more)


class Mesh:
    """Ranks of a process group by axes, the last axis counting fastest; sizes of axes and dims by name."""

    def __init__(self, axes, sizes, group=None):
        self.sizes, self.axes, self.group, self.lines = dict(sizes), axes, group, {}
        ranks = dist.get_world_size(group)
        if math.prod(sizes[a] for a in axes) != ranks:
            raise ValueError("the axes " + ", ".join(f"{a}={sizes[a]}" for a in axes) + f" do not make the {ranks} ranks of the group")
        self.members = [dist.get_global_rank(group, r) if group else r for r in range(ranks)]
        self.at, rest = {}, dist.get_rank(group)
        for a in reversed(axes):
            rest, self.at[a] = divmod(rest, sizes[a])

    def extent(self, text):
        return int(eval(text, {"size": lambda name: self.sizes[name], "__builtins__": {}}, self._names()))

    def _names(self):
        return {**self.sizes, **{a: a for a in self.axes}}

    def box(self, dims, cuts):
        """Of each dim the first place and the number of elements that this rank holds; cuts: {axis: dim}."""
        boxes = [(0, self.extent(d)) for d in dims]
        for a in self.axes:
            if a in cuts:
                first, count = boxes[cuts[a]]
                begin, own = _cut(count, self.sizes[a], self.at[a])
                boxes[cuts[a]] = (first + begin, own)
        return boxes

    def shape(self, dims, cuts):
        return [count for _, count in self.box(dims, cuts)]

    # Collectives over one axis, by the backend of the group: gloo on processors, NCCL on GPUs.

    def line(self, axis):
        """The process group of this rank's axis; all ranks make all groups of the axis, in one order, at its first use."""
        if axis not in self.lines:
            count, stride = self.sizes[axis], math.prod(self.sizes[a] for a in self.axes[self.axes.index(axis) + 1:])
            mine = dist.get_rank(self.group)
            for first in (r for r in range(len(self.members)) if r // stride % count == 0):
                ranks = [first + k * stride for k in range(count)]
                made = dist.new_group([self.members[r] for r in ranks], backend=dist.get_backend(self.group))
                if mine in ranks:
                    self.lines[axis] = made
        return self.lines[axis]

    def cuts(self, count, axis):
        return [_cut(count, self.sizes[axis], r)[1] for r in range(self.sizes[axis])]

    def allreduce(self, x, axis, op):
        total = x.to(_SUMMED.get(x.dtype, x.dtype), copy=True).contiguous()
        dist.all_reduce(total, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}[op], group=self.line(axis))
        return total.to(x.dtype)

    def reducescatter(self, x, axis, op, d):
        if dist.get_backend(self.group) != "nccl" or op != "sum" or x.shape[d] % self.sizes[axis]:
            return self.slice(self.allreduce(x, axis, op), d, axis)
        parts = [part.contiguous() for part in x.chunk(self.sizes[axis], d)]
        mine = torch.empty_like(parts[0])
        dist.reduce_scatter(mine, parts, group=self.line(axis))
        return mine

    def slice(self, x, d, axis):
        begin, count = _cut(x.shape[d], self.sizes[axis], self.at[axis])
        return x.narrow(d, begin, count)

    def allgather(self, x, d, axis, whole):
        """Slices may differ by one: all travel with the extent of the longest."""
        cuts = self.cuts(whole, axis)
        own = x if x.shape[d] == cuts[0] else _cut_to(x, d, cuts[0], True)
        parts = [torch.empty_like(_bytes(own)) for _ in cuts]
        dist.all_gather(parts, _bytes(own), group=self.line(axis))
        return torch.cat([part.view(x.dtype).view(own.shape).narrow(d, 0, count) for part, count in zip(parts, cuts)], d)

    def alltoall(self, x, d, e, axis, whole):
        """From slices along d, of `whole` elements in all, to slices along e."""
        rows, columns = self.cuts(whole, axis), self.cuts(x.shape[e], axis)
        sent = [part.contiguous() for part in x.split(columns, e)]
        shapes = []
        for count in rows:
            shape = list(x.shape)
            shape[d], shape[e] = count, columns[self.at[axis]]
            shapes.append(shape)
        received = [math.prod(shape) * x.element_size() for shape in shapes]
        into = torch.empty(sum(received), dtype=torch.uint8, device=x.device)
        dist.all_to_all_single(into, torch.cat([_bytes(part) for part in sent]), received,
                               [part.numel() * x.element_size() for part in sent], group=self.line(axis))
        return torch.cat([part.clone().view(x.dtype).view(shape) for part, shape in zip(into.split(received), shapes)], d)

    def permute(self, x, axis, shift):
        """Slices of other ranks may be of other extents, which travel along."""
        everything = [None] * self.sizes[axis]
        dist.all_gather_object(everything, x.detach().cpu(), group=self.line(axis))
        return everything[(self.at[axis] - shift) % self.sizes[axis]].to(x.device)


# What gloo does not add, and in what it is added.
_SUMMED = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.int16: torch.int32}


def _bytes(x):
    """What a backend carries of any format."""
    return x.contiguous().flatten().view(torch.uint8)


def _function(of_tensor, of_number):
    return lambda x: of_tensor(x) if isinstance(x, torch.Tensor) else of_number(x)


_sqrt, _exp, _log = _function(torch.sqrt, math.sqrt), _function(torch.exp, math.exp), _function(torch.log, math.log)
_tanh, _erf, _sin, _cos = _function(torch.tanh, math.tanh), _function(torch.erf, math.erf), _function(torch.sin, math.sin), _function(torch.cos, math.cos)
_abs, _exp2, _round = _function(torch.abs, abs), _function(torch.exp2, lambda x: 2.0**x), _function(torch.round, round)
_relu, _gelu, _sigmoid = torch.relu, torch.nn.functional.gelu, torch.sigmoid


def _tensor(x, dtype):
    return x.to(dtype) if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=dtype)


def _select(condition, a, b, dtype):
    return torch.where(condition, _tensor(a, dtype), _tensor(b, dtype))


def _quotient(a, b):
    return torch.div(a, b, rounding_mode="trunc")


def _cut_to(x, d, count, first):
    """The first or the last elements along d; 0 where there are none."""
    have = x.shape[d]
    if count <= have:
        return x.narrow(d, 0 if first else have - count, count)
    more = list(x.shape)
    more[d] = count - have
    zeros = x.new_zeros(more)
    return torch.cat([x, zeros] if first else [zeros, x], d)


def _reduce(x, op, dims, keep):
    if op == "sum":
        return x.sum(dim=dims, keepdim=keep).to(x.dtype) if dims else x
    if op == "norm":
        return (x * x).sum(dim=dims, keepdim=keep).sqrt()
    return (torch.amax if op == "max" else torch.amin)(x, dim=dims, keepdim=keep)


def _cumsum(x, d, reverse):
    return x.flip(d).cumsum(d).flip(d).to(x.dtype) if reverse else x.cumsum(d).to(x.dtype)


def _gather_rows(table, index, begin, whole):
    at = index.long() - begin
    here = (at >= 0) & (at < table.shape[0])
    rows = table[at.clamp(0, max(table.shape[0] - 1, 0))] if table.shape[0] else table.new_zeros([*index.shape, table.shape[1]])
    return rows * here[..., None].to(table.dtype) if table.shape[0] else rows


def _add_rows(x, index, rows):
    return x.new_zeros([rows, x.shape[-1]]).index_add_(0, index.long().flatten(), x.reshape(-1, x.shape[-1]))


# ---- the emitted library ----------------------------------------------------------------------------------------------

_library = None


def _build():
    """Compiles the C source next to this module, once for each text of it, and loads it; $MPICC and $LOCKSTEP_CFLAGS are used."""
    global _library
    if _library is None:
        text = SOURCE + GLUE
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__lockstep__")
        flags = os.environ.get("LOCKSTEP_CFLAGS", "-O3 -march=native").split()
        name = PROGRAM + "-" + hashlib.sha256((text + " ".join(flags)).encode()).hexdigest()[:16]
        path = os.path.join(folder, name + ".so")
        if not os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            own = os.path.join(folder, f"{name}.{os.getpid()}")
            with open(own + ".c", "w") as file:
                file.write(text)
            subprocess.run([os.environ.get("MPICC", "mpicc"), *flags, "-std=c11", "-shared", "-fPIC", "-DLOCKSTEP_NO_MAIN", own + ".c",
                            "-o", own + ".so", "-lm"], check=True)
            os.rename(own + ".so", path)
            os.remove(own + ".c")
        # MPI's own libraries look for symbols of one another
        _library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        _library.lk_torch_part.restype = ctypes.c_int64
    return _library


def _result(states, new):
    for name, value in new.items():
        states[name].copy_(value)


class Compiled:
    """A schedule of the program, opened by all ranks of a process group (None: all ranks) together. MPI carries what is
    sent: ranks of the group are those of MPI's world, as mpirun starts them. Tensors are the rank's own parts, on the CPU."""

    def __init__(self, schedule, sizes, group=None):
        self.library, self.mesh, self.schedule = _build(), Mesh(AXES, sizes, group), SCHEDULES.index(schedule)
        self.arguments = ARGUMENTS[self.schedule]
        numbers = (ctypes.c_int64 * len(SIZES))(*[sizes[name] for name in SIZES])
        ranks = (ctypes.c_int * len(self.mesh.members))(*self.mesh.members)
        self.plan, error = ctypes.c_void_p(), ctypes.create_string_buffer(256)
        if self.library.lk_torch_open(self.schedule, numbers, len(ranks), ranks, ctypes.byref(self.plan), error):
            raise RuntimeError(f"{PROGRAM}, schedule {schedule}: {error.value.decode()}")

    def shape(self, argument):
        """What this rank holds of "in_NAME", "state_NAME" or "outN_NAME"."""
        begin, extent = (ctypes.c_int64 * 6)(), (ctypes.c_int64 * 6)()
        self.library.lk_torch_part(self.plan, argument.encode(), begin, extent)
        return [extent[d] for d in range(len(self.arguments[argument][1]))]

    def __call__(self, inputs, states, scalars):
        """The outputs, as a list; states are updated in place. All by name."""
        tensors, outputs = [], []
        for argument, (dtype, _, _) in self.arguments.items():
            kind, _, name = argument.partition("_")
            if kind in ("in", "state"):
                tensor = (inputs if kind == "in" else states)[name]
                if tensor.dtype != dtype or list(tensor.shape) != self.shape(argument) or not tensor.is_contiguous():
                    raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}, not {dtype} {self.shape(argument)}, one after the other")
            else:
                tensor = torch.empty(self.shape(argument), dtype=dtype)
                outputs.append(tensor)
            tensors.append(tensor)
        pointers = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() or 64 for t in tensors])
        values = (ctypes.c_double * (len(SCALARS) + 1))(*[float(scalars[name]) for name in SCALARS], 0.0)
        if self.library.lk_torch_run(self.schedule, self.plan, values, pointers):
            raise RuntimeError(f"{PROGRAM} could not run")
        return outputs

    def close(self):
        self.library.lk_torch_close(self.plan)
        self.plan = None


class Reference:
    """A schedule by torch's own operations and collectives: on processors with gloo, on GPUs with NCCL; what Compiled is to be
    compared with. What the schedule runs together follows one another here."""

    def __init__(self, sizes, group=None, schedule="plain"):
        self.mesh, self.schedule = Mesh(AXES, sizes, group), SCHEDULES.index(schedule)
        self.run = REFERENCES[self.schedule]
        if not self.run:
            raise NotImplementedError(REFUSED or f"{schedule} runs on another mesh than the program")

    def shape(self, argument):
        """What this rank holds of "in_NAME", "state_NAME" or "outN_NAME"."""
        return [count for _, count in self._box(argument)]

    def part(self, argument, whole):
        """A copy of this rank's part of a whole tensor."""
        for d, (begin, count) in enumerate(self._box(argument)):
            whole = whole.narrow(d, begin, count)
        return whole.clone(memory_format=torch.contiguous_format)

    def _box(self, argument):
        _, dims, layout = ARGUMENTS[self.schedule][argument]
        cuts = {axis: int(text[2:].split(",")[0]) for axis, text in zip(AXES, layout.split(" ")) if text.startswith("S(")}
        return self.mesh.box(dims, cuts)

    def __call__(self, inputs, states, scalars):
        with torch.no_grad():
            outputs, new = self.run(self.mesh, inputs, states, scalars)
            _result(states, {name: value.clone() for name, value in new.items()})
            return outputs
