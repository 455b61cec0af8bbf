"""capture: a function of PyTorch, an example and a mesh as a program."""

from __future__ import annotations

import difflib
import fnmatch
import inspect
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .._errors import InputError
from . import captured
from .words import Layout, Unsayable, Value, Words, layout_text, read_layout


class Placements:
    """Where inputs lie: layouts by name or pattern, each of which has to mean something."""

    def __init__(self, place: Optional[Mapping[str, str]], axes: Sequence[str]) -> None:
        self.place, self.axes, self.met = dict(place or {}), list(axes), set()
        self.names: List[str] = []

    def of(self, name: str, rank: int, otherwise: Optional[Layout] = None) -> Layout:
        self.names.append(name)
        for pattern, text in self.place.items():
            if pattern == name or fnmatch.fnmatchcase(name, pattern):
                self.met.add(pattern)
                return read_layout(text, self.axes, rank, f"place[{pattern!r}]")
        return otherwise or ("R",) * len(self.axes)

    def check(self) -> None:
        for pattern in self.place:
            if pattern not in self.met:
                near = difflib.get_close_matches(pattern, self.names, 1)
                raise InputError(f"place[{pattern!r}]", "no input has this name",
                                 f"did you mean {near[0]}?" if near else "inputs are " + ", ".join(self.names))


def read_mesh(mesh: Any) -> Dict[str, int]:
    """{"dp": 2, "tp": 4}, or a DeviceMesh of torch with names."""
    names = getattr(mesh, "mesh_dim_names", None)
    if names is not None:
        mesh = dict(zip(names, tuple(mesh.mesh.shape)))
    if not isinstance(mesh, Mapping) or not mesh:
        raise InputError("mesh", f"a value of type {type(mesh).__name__} is no mesh", 'give ranks by axis, as in {"dp": 2, "tp": 4}')
    for name, ranks in mesh.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w{0,30}", name):
            raise InputError("mesh", f"{name!r} is no name of an axis", "use letters and digits")
        if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= 4096:
            raise InputError(f"mesh[{name!r}]", f"{ranks!r} is no number of ranks", "give one from 1 to 4096")
    if len(mesh) > 4:
        raise InputError("mesh", f"{len(mesh)} axes", "the language has up to 4")
    return dict(mesh)


def tensor_layout(tensor: Any, axes: Sequence[str]) -> Optional[Layout]:
    """The layout of a DTensor: its placements by the names of its mesh; None for other tensors."""
    placements, mesh = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    if placements is None or mesh is None:
        return None
    layout: List[object] = ["R"] * len(axes)
    for axis, one in zip(mesh.mesh_dim_names or (), placements):
        if axis not in axes:
            raise InputError("mesh", f"a tensor lies on an axis {axis} that the mesh lacks", f"its axes are {', '.join(axes)}")
        if one.is_shard():
            layout[list(axes).index(axis)] = int(one.dim)
        elif one.is_partial():
            layout[list(axes).index(axis)] = str(getattr(one, "reduce_op", "sum"))
    return tuple(layout)


def _named(name: str, tree: Any) -> Iterator[Tuple[str, Any]]:
    """Tensors of an argument by the names that they get."""
    import torch
    if isinstance(tree, torch.Tensor):
        yield name, tree
    elif isinstance(tree, torch.nn.Module):
        for part, tensor in [*tree.named_parameters(), *tree.named_buffers()]:
            yield f"{name}.{part}" if name else part, tensor
    elif isinstance(tree, Mapping):
        for key, one in tree.items():
            yield from _named(f"{name}.{key}" if name else str(key), one)
    elif isinstance(tree, (list, tuple)):
        for i, one in enumerate(tree):
            yield from _named(f"{name}.{i}", one)


def _arguments(fn: Callable[..., Any], example: Any) -> Tuple[List[Any], Dict[str, Any], List[Tuple[str, Any]]]:
    """The example as arguments, and its tensors by name: parameters of modules and what the function closes over too."""
    args, kwargs = ([], dict(example)) if isinstance(example, Mapping) else (
        list(example) if isinstance(example, (list, tuple)) else [example], {})
    import torch
    if not callable(fn):
        raise InputError("fn", f"a value of type {type(fn).__name__} cannot be called", "give a function or a module")
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        bound = inspect.signature(called).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError("example", f"does not fit the function: {error}", "give its arguments as a tuple, or a dict by name") from None
    found = [pair for name, one in bound.arguments.items() for pair in _named(name, one)]
    if isinstance(fn, torch.nn.Module):
        found += _named("", fn)
    elif inspect.isfunction(inspect.unwrap(fn)):
        outside = inspect.getclosurevars(inspect.unwrap(fn))
        for name, one in {**outside.globals, **outside.nonlocals}.items():
            if isinstance(one, (torch.Tensor, torch.nn.Module, dict, list, tuple)):
                found += _named(name, one)
    elif inspect.ismethod(called) and isinstance(called.__self__, torch.nn.Module):
        found += _named("", called.__self__)
    return args, kwargs, found


def place(tensor: Any, layout: str) -> Any:
    """Inside of a captured function: the tensor, which lies there as the layout says ("S(1,tp)"). In plain PyTorch: the tensor."""
    return _placing[-1](tensor, layout) if _placing else tensor


_placing: List[Callable[[Any, str], Any]] = []


def capture(fn: Callable[..., Any], example: Any, mesh: Any, place: Optional[Mapping[str, str]] = None,
            name: Optional[str] = None) -> "captured.Captured":
    """The program of a function or module of PyTorch on a mesh.

    example: its arguments, as a tuple or a dict by name; their shapes and formats become those of the program. The function runs
    once, on copies. mesh: ranks by axis, {"dp": 2, "tp": 4}. place: layouts of inputs by name or pattern, as the language writes
    them: {"x": "S(0,dp)", "*.weight": "S(0,tp)"}; a DTensor brings its own; what is not named is whole on all ranks. Inputs that the
    function changes in place become states.

    Raises InputError with the line of the function that cannot be said, and what to do instead."""
    try:
        import torch
    except ImportError:
        raise InputError("capture", "PyTorch is not installed", "install torch, or give an exported graph or StableHLO") from None
    from .record import FORMATS, Recorder, flat
    axes = read_mesh(mesh)
    words = Words(axes)
    placements = Placements(place, words.names)
    recorder = Recorder(words)
    recorder._root = {}
    args, kwargs, found = _arguments(fn, example)
    inputs: Dict[Value, Any] = {}

    def take(label: str, tensor: Any) -> Value:
        if tensor.dtype not in FORMATS:
            raise InputError(label, f"has the format {tensor.dtype}", "the language has no such tensors")
        layout = placements.of(label, tensor.dim(), tensor_layout(tensor, words.names))
        value = words.input(re.sub(r"\W", "_", label), tuple(tensor.shape), FORMATS[tensor.dtype], layout)
        inputs[value] = tensor.detach().clone()
        recorder.bind(tensor, value)
        recorder._root[id(tensor)] = value
        return value

    for label, tensor in found:
        if id(tensor) not in recorder.known:
            take(label, tensor)
    constants = [0]

    def lift(tensor: Any) -> Value:
        constants[0] += 1
        return take(f"constant{constants[0]}", tensor)

    def lay(loss: Value, by: Sequence[Value]) -> List[Layout]:
        asked = [words.grad(loss, one, words.whole) for one in by]
        text = words.text("gradients", asked)
        del words.values[-len(asked):]
        return captured.output_layouts(text, words.names)

    def put(tensor: Any, layout: str) -> Any:
        wanted = read_layout(layout, words.names, tensor.dim(), "place")
        with _outside():
            made = tensor.view_as(tensor)
        try:
            recorder.bind(made, words.placed(recorder.value(tensor), wanted))
        except Unsayable as error:
            raise InputError("place", error.what, error.remedy) from None
        return made

    def _outside() -> Any:
        return torch._C.DisableTorchFunction()

    recorder.constant, recorder.lay_gradients = lift, lay
    before = [(tensor, tensor.detach().clone()) for _, tensor in found]
    _placing.append(put)
    try:
        result = recorder.run(fn, args, kwargs)
        outputs = [recorder.value(one) for one in flat(result)]
    except Unsayable as error:
        raise InputError("fn", f"its result: {error.what}", error.remedy) from None
    finally:
        _placing.pop()
        with torch.no_grad():
            for tensor, old in before:
                tensor.copy_(old)
                if tensor.is_leaf:
                    tensor.grad = None
    placements.check()
    return captured.finish(words, outputs, name or getattr(fn, "__name__", type(fn).__name__), inputs, (fn, args, kwargs, found))
