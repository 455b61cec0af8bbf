"""What a PyTorch function does, call by call: it runs once on the example, and every call of torch becomes words.

Calls are seen where the user makes them (torch.overrides), so that F.linear stays one product over the last dim and a gradient by
autograd the language's own `grad`. A function of torch without a row is looked into: the ATen operations that it makes
have rows too."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .._errors import InputError
from .operations import in_place, row_of
from .words import Layout, Unsayable, Value, Words

FORMATS = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
           torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}

# What says something of a tensor and computes nothing.
_ASKS = set("""shape dtype device layout size dim ndim ndimension numel nelement stride storage_offset is_floating_point is_complex
is_leaf is_cuda is_sparse is_quantized is_mkldnn is_nested requires_grad grad_fn names data_ptr is_contiguous element_size __len__ storage
is_same_size get_device is_tensor is_grad_enabled set_grad_enabled _is_view _base __hash__ __repr__ __format__ is_inference _version
output_nr result_type promote_types can_cast retain_grad retains_grad register_hook is_meta itemsize nbytes __deepcopy__ type_as_format
broadcast_shapes broadcast_tensors_shapes finfo iinfo is_pinned __dir__ __reduce_ex__ is_conj is_neg is_signed _nested_tensor_size""".split())
# What makes a number of the machine out of a tensor.
_LEAVES = set("item tolist numpy __bool__ __int__ __float__ __index__ __contains__ __array__ __iter_numbers__ equal allclose is_nonzero nonzero unique".split())
_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


def canonical(func: Callable[..., Any]) -> str:
    """The name that a row has: properties with a dot before."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        return "." + getattr(func.__self__, "__name__", "?") + ("=" if name == "__set__" else "")
    return "getitem" if name == "__getitem__" else name


def user_place() -> Tuple[str, int]:
    """The line of the user's that is running."""
    frame = sys._getframe(1)
    while frame:
        file = frame.f_code.co_filename
        file = file if file.startswith("<") else os.path.abspath(file)
        if not file.startswith((_HERE + os.sep, _TORCH + os.sep)):
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0


def flat(tree: Any) -> List[Any]:
    """Tensors of nested tuples, lists and dicts, in order; data classes of torch are tuples."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [one for part in tree for one in flat(part)] if isinstance(tree, (list, tuple)) else []


def _memory(tensor: torch.Tensor) -> int:
    """What views of one memory share, also where there is none (meta tensors)."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage._cdata


class Recorder:
    """Values of the program by the tensors that they are."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.known: Dict[int, Value] = {}
        self.keep: List[torch.Tensor] = []  # an id stands for a tensor as long as it lives
        self.by_memory: Dict[int, List[torch.Tensor]] = {}
        self.stale: Dict[int, Tuple[str, int]] = {}
        self.constant: Optional[Callable[[torch.Tensor], Value]] = None
        self.lay_gradients: Optional[Callable[[Value, Sequence[Value]], List[Layout]]] = None

    # ---- tensors and values ----

    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        if id(tensor) not in self.known:
            self.keep.append(tensor)
            self.by_memory.setdefault(_memory(tensor), []).append(tensor)
        self.known[id(tensor)] = value
        self.stale.pop(id(tensor), None)

    def value(self, tensor: torch.Tensor) -> Value:
        if id(tensor) in self.stale:
            file, line = self.stale[id(tensor)]
            raise Unsayable(f"a view of memory that line {line} has changed since", "take the view again after the change")
        known = self.known.get(id(tensor))
        if known is None and self.constant is not None:
            known = self.constant(tensor)
            self.bind(tensor, known)
        if known is None:
            raise Unsayable("a tensor that is neither an input nor made of inputs", "pass it as an argument")
        return known

    def _values(self, tree: Any) -> Any:
        """Arguments as rows take them."""
        if isinstance(tree, torch.Tensor):
            return self.value(tree)
        if isinstance(tree, (list, tuple)):
            return type(tree)(map(self._values, tree)) if type(tree) in (list, tuple) else [self._values(one) for one in tree]
        if isinstance(tree, dict):
            return {key: self._values(one) for key, one in tree.items()}
        return FORMATS.get(tree, tree) if isinstance(tree, torch.dtype) else tree

    def _bind_result(self, name: str, result: Any, made: Any) -> None:
        tensors, values = flat(result), [made] if isinstance(made, Value) else list(made)
        for tensor, value in zip(tensors, values):
            wanted = FORMATS.get(tensor.dtype)
            if value.shape != tuple(tensor.shape):
                raise Unsayable(f"{name} in this form: it makes {list(tensor.shape)}", "say it by other operations")
            if wanted and value.dtype != wanted:
                value = self.words.cast(value, wanted)
            self.bind(tensor, value)

    # ---- calls ----

    def call(self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any], inside: bool) -> Any:
        """One call of torch: run, and said in words."""
        bare = name.lstrip(".")
        if bare in _ASKS or name.endswith("="):
            return func(*args, **kwargs)
        self.words.place = place = user_place() if not inside else self.words.place
        try:
            return self._say(name, func, args, kwargs, inside)
        except Unsayable as error:
            file, line = place
            raise InputError(f"{file}:{line}", f"{name}: {error.what} cannot be said in lockstep's language", error.remedy) from None

    def _say(self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any], inside: bool) -> Any:
        if name in _LEAVES:
            return self._number(name, func, args, kwargs)
        if name == "grad":
            return self._gradients(func, args, kwargs)
        if name == "backward":
            return self._backward(func, args, kwargs)
        if name == ".grad":
            return func(*args, **kwargs)
        tensors = flat([args, kwargs])
        row = row_of(name)
        if kwargs.get("out") is not None or name == "__setitem__":
            raise Unsayable("a tensor that is written in part or from outside", "make a new one: where, cat, pad")
        if row is None and not any(id(one) in self.known for one in tensors):
            return func(*args, **kwargs)  # of constants
        if row is None or (name in ("to", "type") and not tensors):
            return self._look_into(name, func, args, kwargs, inside)
        if in_place(name):
            return self._change(name, row, func, args, kwargs)
        made = self._made(name, row, args, kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and id(result) in self.known and made is self.known[id(result)]:
            return result
        self._bind_result(name, result, made)
        return result

    def _made(self, name: str, row: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        given = {key: one for key, one in self._values(kwargs).items() if one is not None and key not in (
            "device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "requires_grad", "generator", "inplace", "_stacklevel")}
        given = {"x" if key in ("input", "self") else key: one for key, one in given.items()}
        try:
            return row(self.words, *self._values(list(args)), **given)
        except (TypeError, KeyError, AttributeError) as error:
            raise Unsayable(f"the arguments {str(error).partition('() ')[2] or error}", "use the plain form of the operation") from None

    def _number(self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        for tensor in flat([args, kwargs]):
            if id(tensor) in self.known and not self.known[id(tensor)].fixed:
                raise Unsayable("a number that depends on the data", "the program is the same for all data: use where")
        return func(*args, **kwargs)

    def _look_into(self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any], inside: bool) -> Any:
        if inside:
            raise Unsayable("the operation", "say it by others: docs/guide/capture.md has the table")
        with _Dispatched(self, name):
            result = func(*args, **kwargs)
        if any(id(one) not in self.known for one in flat(result)):
            raise Unsayable("the function", "say it by others: docs/guide/capture.md has the table")
        return result

    def _change(self, name: str, row: Callable[..., Any], func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        """An operation in place: names of the memory stand for the new value, other views of it for none."""
        target = args[0]
        old = self.value(target)
        made = self._made(name, row, args, kwargs)
        result = func(*args, **kwargs)
        if made.shape != old.shape:
            raise Unsayable("a change of the shape in place", "assign the result")
        self._replace(target, self.words.cast(made, old.dtype))
        return result

    def _replace(self, target: torch.Tensor, made: Value) -> None:
        same = [one for one in self.by_memory.get(_memory(target), [])]
        alike = [one for one in same if (one.shape, one.stride(), one.storage_offset()) == (target.shape, target.stride(), target.storage_offset())]
        leaves = [one for one in same if self.root.get(id(one)) is not None]
        if leaves and not any(one is leaf for one in alike for leaf in leaves):
            raise Unsayable("a change of a part of an input", "make the whole new value and copy_ it")
        for one in same:
            if any(one is other for other in alike):
                self.known[id(one)] = made
                leaf = self.root.get(id(one))
                if leaf is not None:
                    self.words.updates[leaf] = made
            else:
                self.stale[id(one)] = self.words.place or ("", 0)

    @property
    def root(self) -> Dict[int, Value]:
        return self._root

    _root: Dict[int, Value] = {}

    # ---- gradients ----

    def _gradients(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        given = dict(zip(("outputs", "inputs", "grad_outputs"), args), **kwargs)
        losses, by = flat([given["outputs"]]), flat([given["inputs"]])
        if len(losses) != 1 or losses[0].numel() != 1 or given.get("grad_outputs") is not None:
            raise Unsayable("gradients of more than one number", "give one loss, without grad_outputs")
        result = func(*args, **kwargs)
        self._bind_gradients(losses[0], by, result)
        return result

    def _backward(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        loss = args[0]
        if loss.numel() != 1 or any(one is not None for one in args[1:2]):
            raise Unsayable("the backward pass of more than one number", "give one loss, without a gradient")
        leaves = [one for one in self.keep if one.is_leaf and one.requires_grad and id(one) in self._root]
        before = [one for one in leaves if one.grad is not None]
        if before:
            raise Unsayable("gradients added to those before", "set .grad to None before the backward pass")
        result = func(*args, **kwargs)
        by = [one for one in leaves if one.grad is not None]
        self._bind_gradients(loss, by, [one.grad for one in by])
        return result

    def _bind_gradients(self, loss: torch.Tensor, by: Sequence[torch.Tensor], gradients: Sequence[Optional[torch.Tensor]]) -> None:
        pairs = [(self.value(one), gradient) for one, gradient in zip(by, gradients) if gradient is not None]
        number = self.value(loss)
        number = self.words.reshape(number, ()) if number.shape else number
        layouts = self.lay_gradients(number, [one for one, _ in pairs])
        for (one, gradient), layout in zip(pairs, layouts):
            self.bind(gradient, self.words.grad(number, one, layout))

    # ---- running ----

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        with _Called(self):
            return function(*args, **kwargs)


class _Called(TorchFunctionMode):
    """Calls of torch's functions and of tensors' methods."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recorder.call(canonical(func), func, args, kwargs or {}, False)


class _Dispatched(TorchDispatchMode):
    """Operations of ATen inside of one function."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        super().__init__()
        self.recorder, self.name = recorder, name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recorder.call(func._schema.name, func, args, kwargs or {}, True)
