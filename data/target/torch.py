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
        self.sizes, self.axes, self.group = dict(sizes), axes, group
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

    # Collectives over one axis. What each rank has is gathered and then used: slow, and the same for all backends.

    def all(self, x, axis):
        everything = [None] * len(self.members)
        dist.all_gather_object(everything, x.detach().cpu(), group=self.group)
        stride = 1
        for a in reversed(self.axes):
            if a == axis:
                break
            stride *= self.sizes[a]
        mine = dist.get_rank(self.group)
        first = mine - self.at[axis] * stride
        return [everything[first + k * stride].to(x.device) for k in range(self.sizes[axis])]

    def allreduce(self, x, axis, op):
        parts = self.all(x, axis)
        total = parts[0]
        for part in parts[1:]:
            total = total + part if op == "sum" else (torch.maximum if op == "max" else torch.minimum)(total, part)
        return total

    def slice(self, x, d, axis):
        begin, count = _cut(x.shape[d], self.sizes[axis], self.at[axis])
        return x.narrow(d, begin, count)

    def allgather(self, x, d, axis):
        return torch.cat(self.all(x, axis), d)

    def permute(self, x, axis, shift):
        return self.all(x, axis)[(self.at[axis] - shift) % self.sizes[axis]]


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
        return [extent[d] for d in range(self.arguments[argument][1])]

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
    """The program as it stands, by torch's own operations and torch.distributed: what Compiled is to be compared with."""

    def __init__(self, sizes, group=None):
        if REFUSED:
            raise NotImplementedError(REFUSED)
        self.mesh = Mesh(AXES, sizes, group)

    def __call__(self, inputs, states, scalars):
        with torch.no_grad():
            outputs, new = reference(self.mesh, inputs, states, scalars)
            _result(states, {name: value.clone() for name, value in new.items()})
            return outputs
