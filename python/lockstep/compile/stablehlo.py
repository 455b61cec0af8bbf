"""StableHLO text with Shardy's shardings (as JAX writes it) as a program: one row an operation.

The forms that are read are those of the printed syntax of StableHLO and Shardy: an operation a line. Sources:
https://openxla.org/stablehlo/spec, https://openxla.org/shardy/sharding_representation."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .._errors import InputError
from . import operations as rows
from .capture import Placements, read_mesh
from .captured import Captured, finish
from .words import Layout, Number, Unsayable, Value, Words, literal

FORMATS = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8", "ui8": "u8",
           "i1": "bool"}
_DEPTH = 32  # of functions that call functions
_TYPE = re.compile(r"tensor<((?:\d+x)*)(\w+)>")
_LINE = re.compile(r"(%[\w$.-]+)(?::\d+)?\s*=\s*\"?([\w.]+)\"?\s*(.*)$")


# ---- rows: (program, operands, rest of the line, type of the result) ----

Row = Callable[[Words, List[Value], str, Tuple[Tuple[int, ...], str]], Value]


def _plain(row: Callable[..., Value]) -> Row:
    return lambda w, x, rest, of: row(w, *x)


def _map(template: str, level: int = 6) -> Row:
    return lambda w, x, rest, of: w.map(template, x, of[1], level)


def _numbers(rest: str, name: str) -> List[int]:
    found = re.search(name + r"\s*=\s*\[([\d,\s-]*)\]", rest)
    return [int(n) for n in found[1].split(",") if n.strip()] if found else []


def _both(rest: str, name: str) -> Tuple[List[int], List[int]]:
    found = re.search(name + r"\s*=\s*\[([\d,\s]*)\]\s*x\s*\[([\d,\s]*)\]", rest)
    return tuple([int(n) for n in part.split(",") if n.strip()] for part in found.groups()) if found else ([], [])  # type: ignore[return-value]


def _dot(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    """dot_general: letters of an einsum for the dims that are joined."""
    (a, b), letters = x, iter("abcdefghijklmnopqrstuvwxyz")
    (batch_a, batch_b), (sum_a, sum_b) = _both(rest, "batching_dims"), _both(rest, "contracting_dims")
    names_a = [next(letters) for _ in a.shape]
    names_b = [next(letters) for _ in b.shape]
    for i, j in zip([*batch_a, *sum_a], [*batch_b, *sum_b]):
        names_b[j] = names_a[i]
    free = [n for i, n in enumerate(names_a) if i not in batch_a + sum_a] + [n for j, n in enumerate(names_b) if j not in batch_b + sum_b]
    made = rows.pair(w, a, "".join(names_a), b, "".join(names_b), "".join([names_a[i] for i in batch_a] + free))
    return w.cast(made, of[1])


def _broadcast(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    """broadcast_in_dim: each dim of the operand is one of the result; the others are new."""
    (value,), dims, (shape, _) = x, _numbers(rest, "dims"), of
    if value.number is not None:
        return w.full(shape, value.number, value.dtype)
    if dims != sorted(dims):
        raise Unsayable("a broadcast that turns dims around", "transpose first")
    for d, n in enumerate(shape):
        if d not in dims:
            value = w.spread(value, d, n)
        elif value.shape[d] != n:
            value = w.spread(w.drop(value, d), d, n)
    return value


def _reduce(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    how = re.search(r"applies stablehlo\.(\w+) across", rest)
    word = {"add": "sum", "maximum": "max", "minimum": "min"}.get(how[1] if how else "")
    neutral = {"sum": (0,), "max": (-math.inf,), "min": (math.inf,)}
    if word is None or len(x) != 2:
        raise Unsayable(f"a reduction by {how[1] if how else 'a function of its own'}", "sums, maxima and minima can be said")
    if x[1].number not in neutral[word] and not (word != "sum" and not math.isfinite(float(x[1].number or 0))):
        raise Unsayable("a reduction that begins elsewhere than at its neutral number", "add or compare afterwards")
    dims = _numbers(rest, "dimensions")
    return w.reduce(word, x[0], dims, False) if dims else x[0]


def _slice(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    value = x[0]
    ranges = re.search(r"\[([\d:,\s]*)\]", rest)
    for d, part in enumerate(ranges[1].split(",") if ranges and ranges[1].strip() else []):
        begin, end, *step = (int(n) for n in part.split(":"))
        value = rows.slice_(w, value, d, begin, end, *step)
    return value


def _pad(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    low, high, between = (_numbers(rest, name) for name in ("low", "high", "interior"))
    if any(between) or min([0, *low, *high]) < 0 or x[1].number != 0:
        raise Unsayable("padding with other than zeros at the ends", "pad with zeros")
    value = x[0]
    for d, (before, after) in enumerate(zip(low, high)):
        value = w.pad(value, d, before, after) if before or after else value
    return value


def _constant(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    text = re.match(r"dense<([^\[\]>]*)>", rest)
    if not text:
        raise Unsayable("a table of numbers in the text", "pass it as an argument")
    word, (shape, dtype) = text[1], of
    if word in ("true", "false"):
        return w.full(shape, word == "true", dtype)
    if word.startswith("0x"):
        size, code = (4, "f") if dtype == "f32" else (8, "d") if dtype == "f64" else (2, "e")
        data = bytes.fromhex(word[2:].zfill(2 * size))
        number = struct.unpack(">f", data + b"\0\0")[0] if dtype == "bf16" else struct.unpack(">" + code, data)[0]
        return w.full(shape, number, dtype)
    return w.full(shape, float(word) if "f" in dtype else int(word), dtype)


def _compare(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    return rows.compare(rows.COMPARED[rest.split(",")[0].strip().lower()])(w, *x)


def _iota(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    (shape, dtype), d = of, int(re.search(r"dim\s*=\s*(\d+)", rest)[1])
    value = w.iota(shape[d], dtype)
    for e, n in enumerate(shape):
        value = value if e == d else w.spread(value, e, n)
    return value


def _transposed(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    return w.permute(x[0], _numbers(rest, "dims"))


def _reshaped(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    return w.reshape(x[0], of[0])


def _joined(w: Words, x: List[Value], rest: str, of: Any) -> Value:
    return w.concat(x, int(re.search(r"dim\s*=\s*(\d+)", rest)[1]))


ROWS: Dict[str, Row] = {
    "add": _plain(rows.add), "subtract": _plain(rows.sub), "multiply": _plain(rows.mul), "divide": lambda w, x, rest, of:
    rows.div(w, *x, rounding_mode=None if rows.is_float(of[1]) else "trunc"), "power": _plain(rows.power), "negate": _plain(rows.negate),
    "maximum": _plain(rows.larger("maximum")), "minimum": _plain(rows.larger("minimum")), "abs": _map("abs({0})"),
    "exponential": _map("exp({0})"), "exponential_minus_one": _map("exp({0}) - 1", 2), "log": _map("log({0})"),
    "log_plus_one": _map("log(1 + {0:3})"), "sqrt": _map("sqrt({0})"), "rsqrt": _map("1/sqrt({0})", 3), "tanh": _map("tanh({0})"),
    "logistic": _map("sigmoid({0})"), "sine": _map("sin({0})"), "cosine": _map("cos({0})"), "erf": _map("erf({0})"),
    "round_nearest_even": _map("round({0})"), "and": lambda w, x, rest, of: rows.logical(w, x[0], x[1], "{0:3}*{1:4}"),
    "or": lambda w, x, rest, of: rows.logical(w, x[0], x[1], "{0:2} + {1:3}"), "not": _plain(rows.logical_not),
    "select": _plain(rows.where), "clamp": lambda w, x, rest, of: rows.clamp(w, x[1], x[0], x[2]), "compare": _compare,
    "convert": lambda w, x, rest, of: w.cast(x[0], of[1]), "constant": _constant, "iota": _iota, "broadcast_in_dim": _broadcast,
    "dot_general": _dot, "reduce": _reduce, "transpose": _transposed, "reshape": _reshaped, "slice": _slice, "concatenate": _joined,
    "pad": _pad,
}
_TRUTH = ("and", "or", "not")  # of bits too, which have no words


# ---- the text ----

def _type(text: str) -> Tuple[Tuple[int, ...], str]:
    found = _TYPE.search(text)
    if not found or found[2] not in FORMATS:
        raise Unsayable(f"the type {text.strip()[:60]}", "tensors of fixed sizes, of the formats " + ", ".join(FORMATS))
    return tuple(int(n) for n in found[1].split("x") if n), FORMATS[found[2]]


def _sharding(text: str, axes: Sequence[str], rank: int) -> Optional[Layout]:
    """#sdy.sharding<@mesh, [{"dp"}, {"tp", ?}, {}]> as a layout of each axis; None: no sharding stands there."""
    found = re.search(r"<@\w+,\s*\[(.*?)\]", text)
    if not found:
        return None
    layout: List[object] = ["R"] * len(axes)
    for d, part in enumerate(re.findall(r"\{([^}]*)\}", found[1])):
        named = re.findall(r'"([^"]+)"(:\(\d+\)\d+)?', part)
        places = [list(axes).index(axis) if axis in axes else -1 for axis, _ in named]
        if -1 in places or d >= rank or any(piece for _, piece in named):
            raise Unsayable(f"the sharding {{{part}}} of dim {d}", "whole axes of the mesh can be said")
        if places != sorted(places):
            raise Unsayable(f"dim {d} over axes in another order than the mesh's", "name the axes in the mesh's order")
        for place in places:
            layout[place] = d
    return tuple(layout)


class _Function:
    def __init__(self, line: int) -> None:
        self.line = line
        self.arguments: List[Tuple[str, str]] = []  # name, type and attributes
        self.body: List[Tuple[int, str]] = []


def _functions(text: str) -> Tuple[Dict[str, _Function], Dict[str, int]]:
    """Functions by name, and the mesh."""
    found: Dict[str, _Function] = {}
    mesh: Dict[str, int] = {}
    now: Optional[_Function] = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split(" loc(")[0].strip()
        axes = re.match(r"sdy\.mesh @\w+ = <\[(.*)\]", line)
        head = re.match(r"func\.func (?:public |private )?@([\w.$-]+)\((.*)$", line)
        if axes:
            mesh = {name: int(ranks) for name, ranks in re.findall(r'"(\w+)"\s*=\s*(\d+)', axes[1])}
        elif head:
            now = found[head[1]] = _Function(number)
            signature = head[2].split(") -> ")[0]
            now.arguments = re.findall(r"(%[\w$.-]+): (.*?)(?=, %|$)", signature)
        elif line == "}":
            now = None
        elif now and line:
            now.body.append((number, line))
    return found, mesh


class _Reader:
    def __init__(self, name: str, functions: Mapping[str, _Function], words: Words) -> None:
        self.name, self.functions, self.words = name, functions, words

    def call(self, function: _Function, given: Sequence[Value], depth: int = 0) -> List[Value]:
        known = {name: value for (name, _), value in zip(function.arguments, given)}
        for number, line in function.body:
            self.words.place = (self.name, number)
            try:
                if line.startswith(("return", "stablehlo.return", "func.return")):
                    return [known[one] for one in re.findall(r"%[\w$.-]+(?:#\d+)?", line)]
                self._line(line, known, depth)
            except (Unsayable, KeyError, TypeError, IndexError, ValueError, OverflowError, struct.error) as error:
                if isinstance(error, InputError):
                    raise
                what = error.what if isinstance(error, Unsayable) else "this form of the operation"
                raise InputError(f"{self.name}:{number}", f"{line[:80]}: {what} cannot be said in lockstep's language",
                                 getattr(error, "remedy", "")) from None
        raise InputError(f"{self.name}:{function.line}", "a function without a return", "give the whole text")

    def _line(self, line: str, known: Dict[str, Value], depth: int) -> None:
        found = _LINE.match(line)
        if not found:
            raise Unsayable("the line", "an operation a line is read; those with regions are not")
        result, name, rest = found.groups()
        arguments, _, types = rest.rpartition(" : ")
        operands = [known[one] for one in re.findall(r"%[\w$.-]+(?:#\d+)?", arguments)]
        if name in ("call", "func.call"):
            target = re.match(r"@([\w.$-]+)", rest)
            if depth >= _DEPTH:
                raise Unsayable(f"calls {_DEPTH} deep", "inline them")
            place = self.words.place
            made = self.call(self.functions[target[1]], operands, depth + 1)
            self.words.place = place
            known.update({result: made[0]} if len(made) == 1 else {f"{result}#{i}": one for i, one in enumerate(made)})
            return
        of = _type(types.rpartition("->")[2] if "->" in types else types.split(",")[-1])
        if name == "sdy.sharding_constraint":
            layout = _sharding(rest, self.words.names, len(of[0]))
            known[result] = self.words.placed(operands[0], layout or self.words.whole)
            return
        bare = name.rpartition(".")[2]
        if bare not in ROWS or (bare in _TRUTH and of[1] != "bool"):
            raise Unsayable("the operation", "docs/guide/capture.md has those that can be")
        made = ROWS[bare](self.words, operands, rest, of)
        if made.shape != of[0]:
            raise Unsayable(f"a result of {list(of[0])}, where {list(made.shape)} arises", "use another form")
        known[result] = self.words.cast(made, of[1])


def capture_stablehlo(text: str, mesh: Any = None, place: Optional[Mapping[str, str]] = None, name: str = "main",
                      file: str = "stablehlo") -> Captured:
    """The program of a StableHLO module's function `name`. The mesh and where arguments lie are those of Shardy in the text; `mesh`
    and `place` (arg0, arg1, ...) say them where the text does not. `file` names the text in errors."""
    if not isinstance(text, str):
        raise InputError("text", f"a value of type {type(text).__name__} is no text", "give the module as a string")
    functions, found = _functions(text)
    words = Words(read_mesh(mesh if mesh is not None else found or None))
    if name not in functions:
        raise InputError(file, f"has no function @{name}", "its functions are " + ", ".join(functions) if functions else "give StableHLO's text")
    placements = Placements(place, words.names)
    inputs = []
    for label, kind in functions[name].arguments:
        try:
            shape, dtype = _type(kind)
            layout = placements.of(label[1:], len(shape), _sharding(kind, words.names, len(shape)))
        except Unsayable as error:
            raise InputError(f"{file}:{functions[name].line}", f"{label}: {error.what} cannot be said", error.remedy) from None
        inputs.append(words.input(re.sub(r"\W", "_", label[1:]), shape, dtype, layout))
    placements.check()
    outputs = _Reader(file, functions, words).call(functions[name], inputs)
    return finish(words, outputs, name if name != "main" else "captured", {}, None)
