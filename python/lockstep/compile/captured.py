"""A captured program, and what the compiler says of it: check, verify, tune, a module for PyTorch."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .._errors import FileError, InputError
from .words import Layout, Unsayable, Value, Words, layout_text, read_layout

# How far a result may be from the function's own, of its largest element.
TOLERANCE = {"f64": 1e-5, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}


# ---- the compiler ----

def _compile(action: str, text: str, *words: str) -> str:
    """What `lockstep compile` answers about a text; its refusals are raised."""
    program = os.environ.get("LOCKSTEP_PROGRAM") or shutil.which("lockstep")
    if not program:
        raise FileError("lockstep", "the program is not on PATH", "install it, or name it in LOCKSTEP_PROGRAM")
    try:
        done = subprocess.run([program, "compile", action, "-", *words], input=text.encode(), capture_output=True, check=False)
    except OSError as error:
        raise FileError(program, f"cannot be run: {error.strerror}", "name the program in LOCKSTEP_PROGRAM") from None
    if done.returncode > 1 or done.returncode < 0:
        line = done.stderr.decode("utf-8", "replace").strip().splitlines()
        what = line[0].removeprefix("lockstep: ") if line else f"ended with status {done.returncode}"
        where, colon, rest = what.partition(": ") if what.startswith("standard input:") else ("", "", what)
        raise InputError(where.replace("standard input", "program"), rest)
    return done.stdout.decode("utf-8")


def output_layouts(text: str, axes: Sequence[str]) -> List[Layout]:
    """The layout of each output of a program, as its types say."""
    values = json.loads(_compile("print", text, "--ir", "-o", "json"))["programs"][0]["values"]
    return [read_layout(" ".join(one["layout"]), axes, 6, "layout") for one in values if one["op"] == "out"]


# ---- what is answered ----

@dataclass
class Verdict:
    """`verify`: whether the program computes what the function does; of each result how far apart, relative to its largest element."""

    equal: bool
    worst: float
    apart: Dict[str, float]


@dataclass
class Tuned:
    """`tune`: the fastest schedule, its time by simulation, how much faster than as it stands, and the proof that it computes the
    same: the draws in exact arithmetic and the chance that a difference went unseen (docs/reference/language.md, verify)."""

    program: "Captured"
    schedule: str
    text: str
    time_s: float
    gain: float
    proof: Dict[str, Any]

    def collectives(self) -> List[Tuple[str, str, int]]:
        """Collectives of the program as the schedule has rewritten it: word, axis, elements; sorted."""
        return collectives(self.text, "best" if self.schedule != "plain" else None)

    def module(self, path: Any) -> "Module":
        """The program with this schedule as a module for PyTorch, written to `path`, and why it is right."""
        return self.program._module(self.text, path, "best" if self.schedule != "plain" else "plain", self.proof)


@dataclass
class Module:
    """A Python module that `lockstep compile emit --target torch` wrote; `proof` says why its schedule is right."""

    path: str
    schedule: str
    sizes: Dict[str, int]
    proof: Dict[str, Any]

    def load(self, group: Any = None, compiled: bool = False) -> Any:
        """The schedule, opened by all ranks of a process group together: step({input: part}, {state: part}, {}) answers the outputs and
        changes the states. It runs by torch's operations and the group's backend, gloo or NCCL; `compiled`: as the emitted C, whose
        messages MPI carries. step.part("in_x", x) is a rank's part of a whole tensor."""
        import importlib.util
        spec = importlib.util.spec_from_file_location("lockstep_" + re.sub(r"\W", "_", os.path.basename(self.path)[:-3]), self.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if compiled:
            return module.Compiled(self.schedule, self.sizes, group)
        return module.Reference(self.sizes, group, self.schedule)


def collectives(text: str, schedule: Optional[str], sizes: Optional[Mapping[str, int]] = None) -> List[Tuple[str, str, int]]:
    """What travels in a program after a schedule: (word, axis, elements), sorted. sizes: of dims that have names."""
    words = ["--schedule", schedule] if schedule else []
    action = "rewrite" if schedule else "print"
    done = json.loads(_compile(action, text, "--ir", "-o", "json", *words))
    found = []
    for program in done["programs"]:
        for one in program["values"]:
            if one["op"] in ("allreduce", "allgather", "reducescatter", "alltoall", "reduce", "broadcast", "permute"):
                axis = one["attributes"].split(",")[-2 if "dim=" in one["attributes"] else -1].strip()
                found.append((one["op"], axis, math.prod(_extent(n, sizes or {}) for n in one["shape"])))
    return sorted(found)


def _extent(text: str, sizes: Mapping[str, int]) -> int:
    """A size as the compiler prints it: sums and products of numbers and names."""
    numbers = re.sub(r"[A-Za-z_]\w*", lambda name: str(sizes[name[0]]), text)
    return sum(math.prod(map(int, term.split("*"))) for term in re.sub(r"[\s()]", "", numbers).split("+"))


def interpret(text: str, sizes: str, given: Mapping[str, Any]) -> Dict[str, List[float]]:
    """Results of a program on these tensors, by the interpreter on all ranks: "out 1", ..., and states by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "inputs.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump({name: _numbers(tensor) for name, tensor in given.items()}, file)
        done = json.loads(_compile("run", text, "--sizes", sizes, "--inputs", path, "--all", "-o", "json"))
    found: Dict[str, List[float]] = {}
    for one in done["results"]:
        label = f"out {len(found) + 1}" if one["name"].startswith("out ") else one["name"]
        found[label] = [float(x) for x in one["values"][0]]
    return found


def tuned(text: str, sizes: str, **options: Any) -> Tuple[str, Optional[str], Dict[str, Any], Dict[str, Any]]:
    """The program with its fastest schedule, named best; that name (None: as it stands); what tune says of it; the proof."""
    words = ["--sizes", sizes, "-o", "json"]
    for key, value in options.items():
        if value is not None and value is not False:
            words += ["--" + key.replace("_", "-")] + ([] if value is True else [str(value)])
    done = json.loads(_compile("tune", text, *words))
    first = done["schedules"][0] if done["schedules"] else done["plain"]
    if first["schedule"] == "plain":
        return text, None, first, dict(_ITSELF)
    return text + f"schedule best {{ {first['schedule']} }}\n", "best", first, done["verified"]


_ITSELF = {"equal": True, "draws": 0, "chance": 0}  # a program as it stands


# ---- the program ----

class Captured:
    """A program made of a function. `text` is the program; `mesh` the ranks of each axis; `inputs` and `outputs` names with
    their types."""

    def __init__(self, words: Words, outputs: Sequence[Value], name: str, inputs: Mapping[Value, Any], origin: Any) -> None:
        self.mesh = dict(words.axes)
        self._origin, self._given = origin, inputs
        updates = {state: words.placed(words.solid(value), state.layout) for state, value in words.updates.items()}
        outputs = [_settled(words, value) for value in outputs]
        if not outputs and not updates:
            raise InputError("fn", "has no result", "return a tensor, or change an input in place")
        self.name = re.sub(r"\W", "_", name)[:48].strip("_") or "program"
        self.name = self.name if self.name[0].isalpha() else "p" + self.name
        try:
            self.text, names = words.written(self.name, outputs, updates)
        except Unsayable as error:
            raise InputError("fn", error.what, error.remedy) from None
        self._names = {value: own for value, own in names.items() if value.leaf}
        self._outputs, self._states = outputs, list(updates)
        self.inputs = {own: value.dtype + _extents(value) + layout_text(value.layout, words.names) for value, own in self._names.items()}
        self.outputs = [value.dtype + _extents(value) + layout_text(value.layout, words.names) for value in outputs]
        self.check()

    def _sizes(self) -> str:
        return ",".join(f"{axis}={ranks}" for axis, ranks in self.mesh.items())

    def check(self) -> str:
        """What `lockstep compile check` says: formats, shapes and layouts fit together."""
        return _compile("check", self.text)

    def print(self) -> str:
        """The program in the language's one form."""
        return _compile("print", self.text)

    def collectives(self) -> List[Tuple[str, str, int]]:
        """What travels, as the program stands: (word, axis, elements), sorted."""
        return collectives(self.text, None)

    # ---- against the function ----

    def verify(self, example: Any = None) -> Verdict:
        """Runs the function, and the program by the interpreter on all ranks of the mesh, on the same numbers: those that were
        captured, or others of the same shapes."""
        if self._origin is None:
            raise InputError("verify", "the program was made of a text, not of a function", "compare with a function of your own")
        if "dropout(" in self.text:
            raise InputError("verify", "dropout draws otherwise in PyTorch", "capture the function with dropout off: model.eval()")
        given, wanted = self._run(example)
        got = interpret(self.text, self._sizes(), given)
        apart = {}
        for label, tensor, dtype in wanted:
            reference, own = tensor.double().flatten().tolist(), got[label]
            scale = max([1e-30] + [abs(x) for x in reference if math.isfinite(x)])
            worst = max([0.0] + [0.0 if a == b or (a != a and b != b) else abs(a - b) / scale for a, b in zip(own, reference)])
            apart[label] = worst if worst == worst else math.inf
        equal = all(apart[label] <= TOLERANCE.get(dtype, 0) for label, _, dtype in wanted)
        return Verdict(equal, max(apart.values()), apart)

    def _run(self, example: Any) -> Tuple[Dict[str, Any], List[Tuple[str, Any, str]]]:
        """The function on an example, whose tensors are as before afterwards."""
        import torch
        from .capture import _arguments
        from .record import flat
        fn, args, kwargs, found = self._origin
        if example is not None:
            args, kwargs, found = _arguments(fn, example)
        unique = list({id(tensor): tensor for _, tensor in found}.values())
        values = list(self._given)
        for value, tensor in zip(values, unique):
            if tuple(tensor.shape) != value.shape:
                raise InputError("example", f"{value.template} is {list(tensor.shape)}, not {list(value.shape)}",
                                 "capture again for other shapes")
        captured = list(self._given.values())
        if example is None:
            with torch.no_grad():
                for tensor, old in zip(unique, captured):
                    tensor.copy_(old)
        before = [tensor.detach().clone() for tensor in unique] + captured[len(unique):]
        given = {self._names[value]: old for value, old in zip(values, before) if value in self._names}
        try:
            results = [one.detach().clone() for one in flat(fn(*args, **kwargs))]
            after = {value: tensor.detach().clone() for value, tensor in zip(values, unique)}
        finally:
            with torch.no_grad():
                for tensor, old in zip(unique, before):
                    tensor.copy_(old)
                    if tensor.is_leaf:
                        tensor.grad = None
        wanted = [(f"out {i + 1}", tensor, value.dtype) for i, (tensor, value) in enumerate(zip(results, self._outputs))]
        return given, wanted + [(self._names[state], after[state], state.dtype) for state in self._states]

    # ---- schedules ----

    def tune(self, gpu: Optional[str] = None, cluster: Optional[str] = None, **options: Any) -> Tuned:
        """The fastest schedule on a cluster, by simulation, and verified. options: those of `lockstep compile tune`."""
        text, _, first, proof = tuned(self.text, self._sizes(), gpu=gpu, cluster=cluster, **options)
        return Tuned(self, first["schedule"], text, first["time_s"], first["gain"], proof)

    def module(self, path: Any) -> Module:
        """The program as it stands as a module for PyTorch, written to `path`."""
        return self._module(self.text, path, "plain", dict(_ITSELF))

    def _module(self, text: str, path: Any, schedule: str, proof: Dict[str, Any]) -> Module:
        if not proof.get("equal"):
            raise InputError("module", "the schedule was not found equal", "tune again")
        path = os.path.abspath(os.fspath(path))
        _compile("emit", text, "--target", "torch", "--out", path)
        return Module(path, schedule, dict(self.mesh), proof)


def _settled(words: Words, value: Value) -> Value:
    """An output: sums that ranks hold in parts are added up."""
    value = words.solid(value)
    return words.placed(value, tuple("R" if one in ("sum", "max", "min") else one for one in value.layout))


def _extents(value: Value) -> str:
    return "[" + ",".join(map(str, value.shape)) + "]" if value.shape else ""


def _numbers(tensor: Any) -> List[Any]:
    if not tensor.is_floating_point():
        return tensor.flatten().long().tolist()
    return [x if math.isfinite(x) else ("nan" if x != x else "inf" if x > 0 else "-inf") for x in tensor.double().flatten().tolist()]


def finish(words: Words, outputs: Sequence[Value], name: str, inputs: Mapping[Value, Any], origin: Any) -> Captured:
    try:
        return Captured(words, outputs, name, inputs, origin)
    except Unsayable as error:
        raise InputError("fn", error.what, error.remedy) from None
