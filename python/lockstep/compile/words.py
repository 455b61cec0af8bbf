"""A program of lockstep's language as it grows: values with shape, format and layout, and the words that make them.

Every word has a rule: which dims of its operands and of its result are one and the same. Where operands are placed in different
ways, the rule says which ways the word can take; the one that moves the fewest bytes is taken, and the collectives that lead there
become statements of their own. docs/reference/language.md has the words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from .._errors import InputError

Layout = Tuple[object, ...]  # one of an axis: "R", an int (the dim that it slices), or "sum", "max", "min" (partial)
Number = Union[int, float, bool]

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
LOWEST = {"f64": -1.7976931348623157e308, "f32": -3.4028234663852886e38, "bf16": -3.3895313892515355e38, "f16": -65504.0}
_FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGERS = ("u8", "i8", "i16", "i32", "i64")

# What no value may be called: words of the language.
_TAKEN = set("""program schedule mesh dim list scalar in state out for to at of size copy sqrt exp log tanh erf relu gelu sigmoid abs sin
cos exp2 round cast minimum maximum select dropout matmul conv2d gather_rows add_rows transpose parts join spread first last concat
cumsum iota sum max min mean norm argmax argmin topk topk_index gather scatter_add onehot pad narrow reshape softmax log_softmax stop
alltoallv grad total slice local sliced partial allgather alltoall allreduce reducescatter reduce broadcast permute send keep ta tb
reverse""".split())

_ATOM = 6  # how tightly a text binds: comparison 1, sum 2, product 3, sign 4, power 5, call or name 6
_LINE = 100  # an expression that is longer gets a name


class Unsayable(Exception):
    """What the language has no words for; the caller knows the place."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def promote(values: Sequence[Union["Value", Number]]) -> str:
    """The format in which PyTorch combines values: the highest kind (bool, integer, real) decides, then tensors before single
    numbers, then the wider format."""
    best = (-1, -1, -1)
    for value in values:
        if isinstance(value, Value):
            kind = 0 if value.dtype == "bool" else 2 if is_float(value.dtype) else 1
            place = (_FLOATS if kind == 2 else _INTEGERS).index(value.dtype) if kind else 0
            best = max(best, (kind, 1 + (len(value.shape) > 0), place))
        else:
            kind = 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2
            best = max(best, (kind, 0, 2 if kind == 2 else 4 if kind else 0))
    formats = {value.dtype for value in values if isinstance(value, Value)}
    if {"f16", "bf16"} <= formats and best == (2, 2, 1):
        return "f32"
    return ("bool",) if best[0] == 0 else (_INTEGERS if best[0] == 1 else _FLOATS)[best[2]] if best[0] else "bool"


@dataclass(eq=False)
class Value:
    """A tensor: all of it has `shape`; `layout` says what ranks hold. `template` is its text, {i} its i-th operand."""

    shape: Tuple[int, ...]
    dtype: str
    layout: Layout
    template: str
    operands: Tuple["Value", ...] = ()
    level: int = _ATOM
    place: Optional[Tuple[str, int]] = None
    hint: Optional[str] = None       # a name that its statement is given
    leaf: Optional[str] = None       # "in" or "state"
    number: Optional[Number] = None  # all elements are this number
    moves: bool = False              # a collective
    fixed: bool = False              # depends on no input

    def bytes(self) -> int:
        count = BYTES[self.dtype]
        for extent in self.shape:
            count *= extent
        return count


@dataclass
class Rule:
    """Dims by label, None for one that repeats: of operands, and of the result. `reduces` are labels that go, and by which
    reduction; `whole` cannot be cut; of `even` ones the ranks have to divide the number; `linear` are sets of operands that may be
    partial sums together, the result being one. `free`: operands may be whole where the label is cut."""

    ins: Sequence[Sequence[Optional[str]]]
    out: Sequence[Optional[str]]
    reduces: Mapping[str, str] = field(default_factory=dict)
    whole: Sequence[str] = ()
    even: Mapping[str, int] = field(default_factory=dict)
    linear: Sequence[Tuple[int, ...]] = ()
    free: bool = False


def _labels(rank: int) -> List[str]:
    return [str(d) for d in range(rank)]


class Words:
    """The program. Axes: {name: ranks}."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        self.axes = dict(axes)
        self.names = list(axes)
        self.values: List[Value] = []
        self.inputs: List[Value] = []
        self.updates: Dict[Value, Value] = {}
        self.outputs: List[Value] = []
        self.place: Optional[Tuple[str, int]] = None
        self.keys = 0  # of dropout
        self._moved: Dict[tuple, Value] = {}

    # ---- values ----

    @property
    def whole(self) -> Layout:
        return ("R",) * len(self.names)

    def _add(self, value: Value) -> Value:
        value.place = self.place
        value.fixed = value.leaf is None and all(one.fixed for one in value.operands)
        self.values.append(value)
        return value

    def input(self, name: str, shape: Sequence[int], dtype: str, layout: Layout) -> Value:
        value = self._add(Value(tuple(shape), dtype, layout, name, leaf="in"))
        self.inputs.append(value)
        return value

    def full(self, shape: Sequence[int], number: Number, dtype: str) -> Value:
        """A tensor of one number: a literal, where it is combined with others."""
        return self._add(Value(tuple(shape), dtype, self.whole, "", number=number))

    def solid(self, value: Value) -> Value:
        """A value that a word can take: one number spread over its dims, where it was a literal."""
        if value.number is None:
            return value
        made = self._add(Value((), value.dtype, self.whole, f"cast({value.dtype}, {literal(value.number)})"))
        for d, extent in enumerate(value.shape):
            made = self.spread(made, d, extent)
        return made

    # ---- where things are ----

    def _ranks(self, axis: int) -> int:
        return self.axes[self.names[axis]]

    def _cut(self, value: Value, axis: int, d: int) -> int:
        """Over how many ranks dim d is sliced by other axes."""
        ranks = 1
        for a, one in enumerate(value.layout):
            if a != axis and one == d and not isinstance(one, str):
                ranks *= self._ranks(a)
        return ranks

    def _move_bytes(self, value: Value, axis: int, want: object) -> float:
        """What a rank receives to have `value` as wanted over one axis: rings, with the same constants for all."""
        have, ranks = value.layout[axis], max(self._ranks(axis), 2)
        if have == want or (have == "R" and isinstance(want, int)) or (value, axis, want) in self._moved:
            return 0.0
        share = value.bytes() * (ranks - 1) / ranks
        for a, one in enumerate(value.layout):
            if a != axis and isinstance(one, int):
                share /= self._ranks(a)
        if isinstance(have, str):
            return 2 * share if want == "R" else share
        return share if want == "R" else share / ranks

    def to(self, value: Value, axis: int, want: object) -> Value:
        """The value with another layout over an axis: the collective that leads there, once."""
        have, name = value.layout[axis], self.names[axis]
        if have == want:
            return value
        known = self._moved.get((value, axis, want))
        if known is not None:
            return known
        value = self.solid(value)
        layout = value.layout[:axis] + (want,) + value.layout[axis + 1:]
        if have == "R":
            template, suffix = f"slice({{0}}, {want}, {name})", "own"
        elif isinstance(have, int):
            template, suffix = ((f"allgather({{0}}, {have}, {name})", "all") if want == "R" else
                                (f"alltoall({{0}}, {have}, {want}, {name})", "there"))
        else:
            template, suffix = ((f"allreduce({{0}}, {have}, {name})", have) if want == "R" else
                                (f"reducescatter({{0}}, {have}, {name}, dim={want})", have))
        made = self._add(Value(value.shape, value.dtype, layout, template, (value,), hint=suffix, moves=have != "R"))
        self._moved[value, axis, want] = made
        return made

    def placed(self, value: Value, layout: Layout) -> Value:
        """The value with this layout over every axis."""
        for axis, want in enumerate(layout):
            if want in ("sum", "max", "min") and want != value.layout[axis]:
                raise Unsayable(f"a value that is not partial over {self.names[axis]} is asked for as parts")
            value = self.to(value, axis, want)
        return value

    def _ways(self, operands: Sequence[Value], rule: Rule, axis: int) -> Iterable[Tuple[List[object], object]]:
        """What the rule can take over one axis: the layout of each operand, and of the result."""
        for chosen in rule.linear:
            if all(operands[i].layout[axis] == "sum" for i in chosen):
                yield ["sum" if i in chosen else "R" for i in range(len(operands))], "sum"
        seen = []
        for value, dims in zip(operands, rule.ins):
            have = value.layout[axis]
            label = dims[have] if isinstance(have, int) else None
            if label is None or label in seen or label in rule.whole:
                continue
            seen.append(label)
            places = [dims.index(label) if label in dims else None for dims in rule.ins]
            ranks = self._ranks(axis) * max(self._cut(one, axis, at) for one, at in zip(operands, places) if at is not None)
            if label in rule.even and rule.even[label] % ranks:
                continue
            result = rule.out.index(label) if label in rule.out else rule.reduces.get(label)
            if result is not None:
                yield ["R" if at is None else at for at in places], result
        yield ["R"] * len(operands), "R"

    def _arrange(self, operands: Sequence[Value], rule: Rule, result_bytes: int) -> Tuple[List[Value], Layout]:
        """Operands moved to where the rule takes them, and the layout of what it makes."""
        operands, layout = list(operands), []
        for axis in range(len(self.names)):
            def price(way: Tuple[List[object], object]) -> float:
                moved = sum(self._move_bytes(value, axis, want) for value, want in zip(operands, way[0]))
                # Parts that arise here are reduced later.
                fresh = isinstance(way[1], str) and way[1] != "R" and "sum" not in way[0]
                return moved + (result_bytes / 2 if fresh else 0)

            wants, result = min(self._ways(operands, rule, axis), key=price)
            for i, want in enumerate(wants):
                if not (rule.free and operands[i].layout[axis] == "R"):
                    operands[i] = self.to(operands[i], axis, want)
            layout.append(result)
        return operands, tuple(layout)

    def word(self, template: str, operands: Sequence[Value], rule: Rule, shape: Sequence[int], dtype: str, level: int = _ATOM,
             hint: Optional[str] = None) -> Value:
        """A value by a word: `template` holds the operands as {0}, {1}."""
        shape = tuple(shape)
        if len(shape) > 6:
            raise Unsayable(f"a tensor of {len(shape)} dims", "the language has up to 6: join some")
        operands = [self.solid(one) for one in operands]
        size = Value(shape, dtype, (), "").bytes()
        operands, layout = self._arrange(operands, rule, size)
        return self._add(Value(shape, dtype, layout, template, tuple(operands), level, hint=hint))

    # ---- elementwise ----

    def map(self, template: str, operands: Sequence[Union[Value, Number]], dtype: str, level: int = _ATOM,
            linear: Sequence[Tuple[int, ...]] = ()) -> Value:
        """Elementwise, dims aligned at the last one. Numbers stay literals."""
        shape = broadcast([one.shape for one in operands if isinstance(one, Value)])
        tensors, texts = [], {}
        given = [one for one in operands if isinstance(one, Value) and one.number is None]
        if broadcast([one.shape for one in given]) != shape or not given:  # numbers give it its shape
            operands = [self.solid(one) if isinstance(one, Value) else one for one in operands]
        for i, one in enumerate(operands):
            number = one.number if isinstance(one, Value) else one
            texts[i] = len(tensors) if number is None else literal(number)
            if number is None:
                tensors.append(one)
        where = {i: at for i, at in texts.items() if isinstance(at, int)}
        template = re.sub(r"\{(\d)(:\d)?\}", lambda m: "{%d%s}" % (where[int(m[1])], m[2] or "") if int(m[1]) in where
                          else _within(texts[int(m[1])], _ATOM if texts[int(m[1])][0] != "-" else 4, m[2]), template)
        linear = [tuple(where[i] for i in chosen) for chosen in linear if all(i in where for i in chosen)]
        labels = _labels(len(shape))
        ins = [[None if n == 1 and shape[len(shape) - len(one.shape) + d] != 1 else labels[len(shape) - len(one.shape) + d]
                for d, n in enumerate(one.shape)] for one in tensors]
        return self.word(template, tensors, Rule(ins, labels, linear=linear, free=True), shape, dtype, level)

    def cast(self, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        if value.number is not None:
            return self.full(value.shape, value.number, dtype)
        if dtype == "bool":
            return self.map("{0:2} != 0", [value], "bool", 1)
        return self.map(f"cast({dtype}, {{0}})", [value], dtype, linear=[(0,)] if is_float(dtype) and is_float(value.dtype) else ())

    def alike(self, operands: Sequence[Union[Value, Number]], dtype: Optional[str] = None) -> Tuple[list, str]:
        """Operands in the one format in which they are combined."""
        dtype = dtype or promote(operands)
        return [self.cast(one, dtype) if isinstance(one, Value) else one for one in operands], dtype

    # ---- products ----

    def matmul(self, a: Value, b: Value, ta: bool = False, tb: bool = False) -> Value:
        m, k = a.shape[-2:][::-1] if ta else a.shape[-2:]
        k2, n = b.shape[-2:][::-1] if tb else b.shape[-2:]
        if k != k2:
            raise Unsayable(f"a product over {k} and {k2} elements")
        batch = broadcast([a.shape[:-2], b.shape[:-2]])
        labels = _labels(len(batch))

        def dims(x: Value, last: List[str]) -> List[Optional[str]]:
            lead = x.shape[:-2]
            return [None if e == 1 and batch[len(batch) - len(lead) + d] != 1 else labels[len(batch) - len(lead) + d]
                    for d, e in enumerate(lead)] + last

        rule = Rule([dims(a, ["k", "m"] if ta else ["m", "k"]), dims(b, ["n", "k"] if tb else ["k", "n"])], labels + ["m", "n"],
                    {"k": "sum"}, linear=[(0,), (1,)], free=True)
        return self.word(f"matmul({{0}}, {{1}}{', ta' if ta else ''}{', tb' if tb else ''})", [a, b], rule, batch + (m, n), a.dtype)

    def conv2d(self, x: Value, w: Value, stride: int, pad: int) -> Value:
        n, c, height, width = x.shape
        o, _, kh, kw = w.shape
        out = [n, o, (height + 2 * pad - kh) // stride + 1, (width + 2 * pad - kw) // stride + 1]
        rule = Rule([["n", "c", "h", "w"], ["o", "c", "i", "j"]], ["n", "o", "h", "w"], {"c": "sum"}, whole="hwij", free=True)
        return self.word(f"conv2d({{0}}, {{1}}, stride={stride}, pad={pad})", [x, w], rule, out, x.dtype)

    # ---- views ----

    def transpose(self, x: Value, d: int, e: int) -> Value:
        labels = _labels(len(x.shape))
        out, shape = list(labels), list(x.shape)
        out[d], out[e], shape[d], shape[e] = out[e], out[d], shape[e], shape[d]
        if d == e:
            return x
        return self.word(f"transpose({{0}}, {d}, {e})", [x], Rule([labels], out, linear=[(0,)]), shape, x.dtype)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        at = list(range(len(order)))
        for d, want in enumerate(order):
            e = at.index(want)
            x = self.transpose(x, d, e)
            at[d], at[e] = at[e], at[d]
        return x

    def parts(self, x: Value, d: int, n: int) -> Value:
        labels = _labels(len(x.shape))
        out, shape = labels[:d + 1] + [None] + labels[d + 1:], list(x.shape)
        shape[d:d + 1] = [n, shape[d] // n]
        return self.word(f"parts({{0}}, {d}, {n})", [x], Rule([labels], out, even={labels[d]: n}, linear=[(0,)]), shape, x.dtype)

    def join(self, x: Value, d: int) -> Value:
        labels = _labels(len(x.shape))
        shape = list(x.shape)
        rule = Rule([labels], labels[:d + 1] + labels[d + 2:], whole=labels[d + 1], even={labels[d]: shape[d]}, linear=[(0,)])
        shape[d:d + 2] = [shape[d] * shape[d + 1]]
        return self.word(f"join({{0}}, {d})", [x], rule, shape, x.dtype)

    def spread(self, x: Value, d: int, n: int) -> Value:
        labels = _labels(len(x.shape))
        shape = list(x.shape)
        shape.insert(d, n)
        if x.number is not None:
            return self.full(shape, x.number, x.dtype) if x.template == "" else x
        return self.word(f"spread({{0}}, {d}, {n})", [x], Rule([labels], labels[:d] + [None] + labels[d:], linear=[(0,)]), shape, x.dtype)

    def drop(self, x: Value, d: int) -> Value:
        """Without dim d, of extent 1."""
        if x.number is not None:
            return self.full(x.shape[:d] + x.shape[d + 1:], x.number, x.dtype)
        if d + 1 < len(x.shape) and not any(one == d + 1 and isinstance(one, int) for one in x.layout):
            return self.join(x, d)
        if d > 0 and not any(one == d - 1 and isinstance(one, int) and x.shape[d - 1] % self._ranks(a) for a, one in enumerate(x.layout)):
            return self.join(x, d - 1)
        if x.dtype == "bool":
            return self.cast(self.reduce("sum", self.cast(x, "i32"), [d], False), "bool")
        return self.reduce("sum", x, [d], False)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in the same order: dims are joined as far as needed, then divided."""
        shape = tuple(shape)
        if x.number is not None:
            return self.full(shape, x.number, x.dtype)
        at = 0
        while x.shape != shape:
            have = x.shape[at] if at < len(x.shape) else None
            want = shape[at] if at < len(shape) else None
            if have == want:
                at += 1
            elif want == 1 or have is None:
                x = self.spread(x, at, 1)
            elif have == 1 or want is None:
                x = self.drop(x, at)
            elif have % want == 0:
                x = self.parts(x, at, want)
            elif at + 1 < len(x.shape):
                x = self.join(x, at)
            else:
                raise Unsayable(f"{list(x.shape)} in the shape {list(shape)}")
        return x

    def ends(self, word: str, x: Value, d: int, n: int) -> Value:
        """The first or the last n elements along d."""
        if x.shape[d] == n:
            return x
        labels = _labels(len(x.shape))
        shape = x.shape[:d] + (n,) + x.shape[d + 1:]
        if x.number is not None:
            return self.full(shape, x.number, x.dtype)
        return self.word(f"{word}({{0}}, {d}, {n})", [x], Rule([labels], labels, whole=labels[d], linear=[(0,)]), shape, x.dtype)

    def narrow(self, x: Value, d: int, begin: int, n: int) -> Value:
        if begin == 0 or begin + n == x.shape[d]:
            return self.ends("last" if begin else "first", x, d, n)
        labels = _labels(len(x.shape))
        shape = x.shape[:d] + (n,) + x.shape[d + 1:]
        rule = Rule([labels], labels, whole=labels[d], linear=[(0,)])
        return self.word(f"narrow({{0}}, {d}, {begin}, {n})", [x], rule, shape, x.dtype)

    def pad(self, x: Value, d: int, before: int, after: int) -> Value:
        labels = _labels(len(x.shape))
        shape = x.shape[:d] + (x.shape[d] + before + after,) + x.shape[d + 1:]
        rule = Rule([labels], labels, whole=labels[d], linear=[(0,)])
        return self.word(f"pad({{0}}, {d}, {before}, {after})", [x], rule, shape, x.dtype)

    def concat(self, values: Sequence[Value], d: int) -> Value:
        made = values[0]
        for one in values[1:]:
            labels = _labels(len(one.shape))
            shape = made.shape[:d] + (made.shape[d] + one.shape[d],) + made.shape[d + 1:]
            made = self.word(f"concat({{0}}, {{1}}, {d})", [made, one], Rule([labels] * 2, labels, whole=labels[d], linear=[(0, 1)]),
                             shape, one.dtype)
        return made

    def cumsum(self, x: Value, d: int, reverse: bool = False) -> Value:
        labels = _labels(len(x.shape))
        rule = Rule([labels], labels, whole=labels[d], linear=[(0,)])
        return self.word(f"cumsum({{0}}, {d}{', reverse' if reverse else ''})", [x], rule, x.shape, x.dtype)

    def along(self, word: str, x: Value, d: int) -> Value:
        """softmax, log_softmax: of the same shape, whole along d."""
        labels = _labels(len(x.shape))
        return self.word(f"{word}({{0}}, {d})", [x], Rule([labels], labels, whole=labels[d]), x.shape, x.dtype)

    def iota(self, n: int, dtype: str) -> Value:
        return self._add(Value((n,), dtype, self.whole, f"iota({dtype}, {n})"))

    # ---- reductions and indices ----

    def reduce(self, word: str, x: Value, dims: Sequence[int], keep: bool) -> Value:
        """sum, mean, max, min over some dims; none: over all."""
        rank, dims = len(x.shape), sorted(dims)
        labels = _labels(rank)
        dims = dims or list(range(rank))
        if not dims:
            return x
        op = "sum" if word == "mean" else word
        out = [None if d in dims else labels[d] for d in range(rank) if keep or d not in dims]
        shape = [1 if d in dims else x.shape[d] for d in range(rank) if keep or d not in dims]
        named = "".join(f", {d}" for d in dims) if len(dims) < rank or keep else ""
        rule = Rule([labels], out, {labels[d]: op for d in dims}, linear=[(0,)] if op == "sum" else ())
        return self.word(f"{word}({{0}}{named}{', keep' if keep else ''})", [x], rule, shape, x.dtype)

    def index_of(self, word: str, x: Value, d: int, k: int = 0) -> Value:
        """argmax, argmin, topk_index (k of them) along d: i32."""
        labels = _labels(len(x.shape))
        rule = Rule([labels], labels if k else labels[:d] + labels[d + 1:], whole=labels[d])
        shape = x.shape[:d] + ((k,) if k else ()) + x.shape[d + 1:]
        return self.word(f"{word}({{0}}, {d}{f', {k}' if k else ''})", [x], rule, shape, "i32")

    def gather(self, x: Value, index: Value, d: int) -> Value:
        labels = _labels(len(x.shape))
        ins = [labels[:d] + ["from"] + labels[d + 1:], labels]
        return self.word(f"gather({{0}}, {{1}}, {d})", [x, index], Rule(ins, labels, {"from": "sum"}, linear=[(0,)]), index.shape, x.dtype)

    def scatter_add(self, x: Value, index: Value, d: int, n: int) -> Value:
        labels = _labels(len(x.shape))
        out = labels[:d] + [None] + labels[d + 1:]
        shape = x.shape[:d] + (n,) + x.shape[d + 1:]
        rule = Rule([labels, labels], out, {labels[d]: "sum"}, linear=[(0,)])
        return self.word(f"scatter_add({{0}}, {{1}}, {d}, {n})", [x, index], rule, shape, x.dtype)

    def gather_rows(self, table: Value, index: Value) -> Value:
        labels = _labels(len(index.shape))
        rule = Rule([["row", "column"], labels], labels + ["column"], {"row": "sum"}, linear=[(0,)])
        return self.word("gather_rows({0}, {1})", [table, index], rule, index.shape + table.shape[1:], table.dtype)

    def add_rows(self, x: Value, index: Value, n: int) -> Value:
        labels = _labels(len(index.shape))
        rule = Rule([labels + ["column"], labels], [None, "column"], {one: "sum" for one in labels}, linear=[(0,)])
        return self.word(f"add_rows({{0}}, {{1}}, {n})", [x, index], rule, (n, x.shape[-1]), x.dtype)

    def onehot(self, index: Value, n: int, dtype: str) -> Value:
        labels = _labels(len(index.shape))
        return self.word(f"onehot({dtype}, {{0}}, {n})", [index], Rule([labels], labels + [None]), index.shape + (n,), dtype)

    def stop(self, x: Value) -> Value:
        labels = _labels(len(x.shape))
        return self.word("stop({0})", [x], Rule([labels], labels, linear=[(0,)]), x.shape, x.dtype)

    def dropout(self, x: Value, p: float) -> Value:
        labels = _labels(len(x.shape))
        self.keys += 1
        return self.word(f"dropout({{0}}, {literal(p)}, key={self.keys})", [x], Rule([labels], labels), x.shape, x.dtype)

    def grad(self, loss: Value, by: Value, layout: Layout) -> Value:
        """The gradient of one number; the layout is the compiler's to say."""
        return self._add(Value(by.shape, by.dtype, layout, "grad({0}, {1})", (loss, by), moves=True, hint="g"))

    # ---- the text ----

    def text(self, name: str, outputs: Sequence[Value]) -> str:
        """The program that leaves these outputs."""
        return _Printer(self, outputs, {}).text(name)

    def written(self, name: str, outputs: Sequence[Value], updates: Mapping[Value, Value]) -> Tuple[str, Dict[Value, str]]:
        """The program that leaves these outputs and gives these states new values, and what its inputs are called."""
        printer = _Printer(self, outputs, updates)
        text = printer.text(name)
        return text, {leaf: printer.texts[leaf][0] for leaf in self.inputs if leaf in printer.texts}


def literal(number: Number) -> str:
    if isinstance(number, float):
        if number == float("-inf") or number == float("inf") or number != number:
            raise Unsayable(f"the number {number}", "a large number of the format takes its place")
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return str(int(number))


def broadcast(shapes: Sequence[Tuple[int, ...]]) -> Tuple[int, ...]:
    rank = max((len(shape) for shape in shapes), default=0)
    out = []
    for d in range(rank):
        extents = {shape[len(shape) - rank + d] for shape in shapes if len(shape) - rank + d >= 0}
        if len(extents - {1}) > 1:
            raise Unsayable("shapes " + " and ".join(str(list(shape)) for shape in shapes) + " side by side")
        out.append(max(extents - {1}, default=1) if extents != {0} else 0)
    return tuple(out)


def _within(text: str, level: int, needed: Optional[str]) -> str:
    return f"({text})" if needed and level < int(needed[1:]) else text


_ASSIGNED = re.compile(r"\s*(?:self\.)?([A-Za-z_][A-Za-z0-9_]*)\s*(?::[^=]+)?=[^=]")


class _Printer:
    """Which values become statements, under which names, and the text of it all."""

    def __init__(self, words: Words, outputs: Sequence[Value], updates: Mapping[Value, Value]) -> None:
        self.words, self.outputs, self.updates = words, list(outputs), dict(updates)
        self.uses: Dict[Value, int] = {}
        self.texts: Dict[Value, Tuple[str, int]] = {}
        self.reads: Dict[Value, set] = {}  # states that the text of a value reads
        self.taken = set(_TAKEN) | set(words.names)
        roots = set(self.outputs) | set(self.updates.values())
        self.live = set(roots)
        for value in reversed(words.values):
            if value in self.live:
                self.live.update(value.operands)
        for value in words.values:
            if value not in self.live:
                continue
            for i, operand in enumerate(value.operands):
                times = len(re.findall(r"\{%d[:}]" % i, value.template))
                self.uses[operand] = self.uses.get(operand, 0) + times
        for value in roots:
            self.uses[value] = self.uses.get(value, 0) + self.outputs.count(value) + list(self.updates.values()).count(value)
        self.wanted = self._wanted()

    def _wanted(self) -> Dict[Value, str]:
        """Names that the user gave: the last value that a line `name = ...` makes."""
        import linecache
        last: Dict[Tuple[str, int], Value] = {}
        for value in self.words.values:
            if value in self.live and value.place and not value.leaf and value.number is None:
                last[value.place] = value
        found = {}
        for (file, line), value in last.items():
            match = _ASSIGNED.match(linecache.getline(file, line))
            if match:
                found[value] = match[1]
        return found

    def _name(self, wish: str) -> str:
        wish = re.sub(r"\W", "_", wish)[:48]
        wish = wish if re.match(r"[A-Za-z_]", wish) else "v" + wish
        name, n = wish, 1
        while name in self.taken or name + "_" in self.taken:
            n += 1
            name = f"{wish}{n}" if not wish[-1].isdigit() else f"{wish}_{n}"
        self.taken.add(name)
        return name

    def _expression(self, value: Value) -> Tuple[str, int]:
        def put(match: "re.Match[str]") -> str:
            text, level = self.texts[value.operands[int(match[1])]]
            return _within(text, level, match[2])
        return re.sub(r"\{(\d)(:\d)?\}", put, value.template), value.level

    def _hint(self, value: Value) -> str:
        if value in self.wanted and not value.moves:
            return self.wanted[value]
        if value.moves and value.operands:
            text = self.texts[value.operands[1 if value.template.startswith("grad") else 0]][0]
            if value.template.startswith("grad"):
                return f"g_{text}"
            known = [one for one in re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\()", text) if one not in _TAKEN and one not in BYTES]
            return f"{known[-1] if known else 't'}_{value.hint}"
        word = re.match(r"[a-z_0-9]+(?=\()", value.template)
        return word[0] + "1" if word else "t1"

    def text(self, name: str) -> str:
        lines, shown = [], None
        for leaf in self.words.inputs:
            if leaf in self.live or leaf in self.updates:
                kind = "state" if leaf in self.updates else "in"
                self.texts[leaf] = (self._name(leaf.template), _ATOM)
                lines.append(f"\t{kind} {self.texts[leaf][0]} : {self._type(leaf)}")
        for value in self.words.values:
            if value not in self.live or value.leaf or value.number is not None:
                continue
            text, level = self._expression(value)
            reads = set().union(*(self.reads.get(one, {one} if one in self.updates else set()) for one in value.operands), set())
            named = value.moves or value in self.wanted or self.uses[value] > 1 or len(text) > _LINE
            if named:
                own = self._name(self._hint(value))
                comment = ""
                if value.place and value.place != shown:
                    shown = value.place
                    comment = f"  # {value.place[0].rpartition('/')[2]}:{value.place[1]}"
                lines.append(f"\t{own} = {text}{comment}")
                text, level, reads = own, _ATOM, set()
            self.texts[value], self.reads[value] = (text, level), reads
        lines += self._ends()
        axes = ", ".join(self.words.names)
        return f"program {name}(mesh {axes}) {{\n" + "\n".join(lines) + "\n}\n"

    def _ends(self) -> List[str]:
        """Outputs read old states: they come first. So does what a later update reads of an earlier one's."""
        lines = [f"\tout {self.texts[value][0]}" for value in self.outputs]
        changed: set = set()
        late = []
        for state, value in self.updates.items():
            text, level = self.texts[value]
            reads = self.reads.get(value, {value} if value in self.updates else set())
            if reads & changed:
                own = self._name(self._hint(value) if not value.leaf else self.texts[value][0] + "_old")
                lines.append(f"\t{own} = {text if not value.leaf else f'copy({text})'}")
                text = own
            late.append(f"\t{self.texts[state][0]} <- {text}")
            changed.add(state)
        return lines + late

    def _type(self, value: Value) -> str:
        shape = "[" + ",".join(map(str, value.shape)) + "]" if value.shape else ""
        return f"{value.dtype}{shape}{layout_text(value.layout, self.words.names)}"


def layout_text(layout: Layout, axes: Sequence[str]) -> str:
    parts = [f"S({one},{axis})" if isinstance(one, int) else f"P({one},{axis})" for one, axis in zip(layout, axes) if one != "R"]
    return " @ " + " ".join(parts) if parts else ""


def read_layout(text: str, axes: Sequence[str], rank: int, where: str) -> Layout:
    """A layout as the language writes it, "S(1,tp) P(sum,dp)": one of each axis."""
    found: Dict[str, object] = {}
    rest = re.sub(r"\s*(R\(\s*(\w+)\s*\)|S\(\s*(\d+)\s*,\s*(\w+)\s*\)|P\(\s*(sum|max|min)\s*,\s*(\w+)\s*\))\s*",
                  lambda m: found.update({m[2] or m[4] or m[6]: "R" if m[2] else int(m[3]) if m[4] else m[5]}) or "", text)
    if rest:
        raise InputError(where, f'"{rest}" is no layout', "write S(DIM,AXIS), R(AXIS) or P(sum,AXIS), as in \"S(0,dp)\"")
    for axis, one in found.items():
        if axis not in axes:
            raise InputError(where, f"the mesh has no axis {axis}", f"its axes are {', '.join(axes)}")
        if isinstance(one, int) and one >= rank:
            raise InputError(where, f"there is no dim {one}: the tensor has {rank}", "dims count from 0")
    return tuple(found.get(axis, "R") for axis in axes)
