"""PyTorch's operations as words: a row an operation, by the name that torch's functions, tensors' methods and ATen share.

Rows take the program (words.Words) and the operation's own arguments, tensors as values of the program. They know shapes and
formats alone, so that a traced call, a node of an exported graph and a backward pass of ATen end in the same rows."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .words import LOWEST, Number, Unsayable, Value, Words, broadcast, is_float, promote

Operand = Union[Value, Number]


# ---- elementwise: a template, and how tightly it binds ----

UNARY = {
    "exp": "exp({0})", "log": "log({0})", "sqrt": "sqrt({0})", "tanh": "tanh({0})", "erf": "erf({0})", "relu": "relu({0})",
    "sigmoid": "sigmoid({0})", "sin": "sin({0})", "cos": "cos({0})", "exp2": "exp2({0})", "round": "round({0})",
    "rsqrt": ("1/sqrt({0})", 3), "reciprocal": ("1/{0:4}", 3), "silu": ("{0:3}*sigmoid({0})", 3), "square": ("{0:6}^2", 5),
    "log1p": "log(1 + {0:3})", "expm1": ("exp({0}) - 1", 2), "log2": ("log({0})/%r" % math.log(2), 3),
    "relu6": "minimum(relu({0}), 6)", "hardtanh_default": "minimum(maximum({0}, -1), 1)",
}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def unary(template: str, level: int = 6) -> Callable[..., Value]:
    return lambda w, x, **_: w.map(template, [x if is_float(x.dtype) else w.cast(x, "f32")], x.dtype if is_float(x.dtype) else "f32", level)


def add(w: Words, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    (a, b), dtype = w.alike([a, mul(w, b, alpha) if alpha != 1 else b])
    return w.map("{0:2} + {1:3}", [a, b], dtype, 2, linear=[(0, 1)])


def sub(w: Words, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    (a, b), dtype = w.alike([a, mul(w, b, alpha) if alpha != 1 else b])
    return w.map("{0:2} - {1:3}", [a, b], dtype, 2, linear=[(0, 1)])


def mul(w: Words, a: Operand, b: Operand) -> Value:
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a * b  # type: ignore[return-value]
    (a, b), dtype = w.alike([a, b])
    if dtype == "bool":
        return logical(w, a, b, "{0:3}*{1:4}")
    return w.map("{0:3}*{1:4}", [a, b], dtype, 3, linear=[(0,), (1,)])


def div(w: Words, a: Operand, b: Operand, rounding_mode: Optional[str] = None) -> Value:
    dtype = promote([a, b])
    if rounding_mode is not None and is_float(dtype):
        raise Unsayable(f"a real quotient rounded by {rounding_mode}", "divide whole numbers, or leave the rounding out")
    if rounding_mode == "floor" and dtype != "u8":
        raise Unsayable("a quotient rounded to minus infinity", 'the language rounds to zero: rounding_mode="trunc"')
    (a, b), dtype = w.alike([a, b], dtype if is_float(dtype) or rounding_mode else "f32")
    return w.map("{0:3}/{1:4}", [a, b], dtype, 3, linear=[(0,)])


def power(w: Words, a: Operand, b: Operand) -> Value:
    (a, b), dtype = w.alike([a, b])
    if b == 0.5:
        return w.map("sqrt({0})", [a], dtype)
    if b == -0.5:
        return w.map("1/sqrt({0})", [a], dtype, 3)
    return w.map("{0:6}^{1:5}", [a, b], dtype, 5)


def negate(w: Words, x: Value) -> Value:
    return w.map("-{0:5}", [x], x.dtype, 4, linear=[(0,)])


def compare(sign: str) -> Callable[..., Value]:
    def row(w: Words, a: Operand, b: Operand) -> Value:
        operands, dtype = w.alike([a, b], "i32" if promote([a, b]) == "bool" else None)
        return w.map(f"{{0:2}} {sign} {{1:2}}", operands, "bool", 1)
    return row


def logical(w: Words, a: Value, b: Value, template: str) -> Value:
    both = w.map(template, [w.cast(w.cast(one, "bool"), "i32") for one in (a, b)], "i32", 3)
    return w.map("{0:2} != 0", [both], "bool", 1)


def logical_not(w: Words, x: Value) -> Value:
    return w.map("{0:2} == 0", [w.cast(x, "i32") if x.dtype == "bool" else x], "bool", 1)


def larger(word: str) -> Callable[..., Value]:
    def row(w: Words, a: Operand, b: Operand) -> Value:
        operands, dtype = w.alike([a, b])
        return w.map(f"{word}({{0}}, {{1}})", operands, dtype)
    return row


def clamp(w: Words, x: Value, min: Optional[Operand] = None, max: Optional[Operand] = None) -> Value:
    if min is not None:
        x = larger("maximum")(w, x, min)
    return larger("minimum")(w, x, max) if max is not None else x


def finite(w: Words, x: Operand, dtype: str) -> Operand:
    """-inf as the lowest number of the format: what a mask adds is either."""
    number = x.number if isinstance(x, Value) else x
    if isinstance(number, float) and math.isinf(number):
        number = math.copysign(LOWEST[dtype], number)
        return w.full(x.shape, number, dtype) if isinstance(x, Value) else number
    return x


def where(w: Words, condition: Value, a: Operand, b: Operand) -> Value:
    dtype = promote([a, b])
    a, b = finite(w, a, dtype), finite(w, b, dtype)
    (a, b), dtype = w.alike([a, b])
    if not any(isinstance(one, Value) and one.number is None for one in (a, b)):
        kind = w.cast(condition, dtype)  # numbers alone have no format
        return add(w, mul(w, kind, (a.number if isinstance(a, Value) else a) - (b.number if isinstance(b, Value) else b)),
                   b.number if isinstance(b, Value) else b)
    return w.map("select({0}, {1}, {2})", [w.cast(condition, "bool"), a, b], dtype, linear=[(1, 2)])


def masked_fill(w: Words, x: Value, mask: Value, value: Operand) -> Value:
    return where(w, mask, value, x)


def gelu(w: Words, x: Value, approximate: str = "none") -> Value:
    if approximate == "none":
        return w.map("gelu({0})", [x], x.dtype)
    return w.map("0.5*{0:4}*(1 + tanh(%r*({0:2} + 0.044715*{0:6}^3)))" % math.sqrt(2 / math.pi), [x], x.dtype, 3)


def softplus(w: Words, x: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    if beta != 1:
        return div(w, softplus(w, mul(w, x, beta)), beta)
    return w.map("relu({0}) + log(1 + exp(-abs({0})))", [x], x.dtype, 2)


def leaky_relu(w: Words, x: Value, negative_slope: Number = 0.01, inplace: bool = False) -> Value:
    return w.map("maximum({0}, 0) + {1:4}*minimum({0}, 0)", [x, negative_slope], x.dtype, 2)


# ---- products ----

def matmul(w: Words, a: Value, b: Value) -> Value:
    ta, tb = len(a.shape) == 1, len(b.shape) == 1
    a, b = w.spread(a, 0, 1) if ta else a, w.spread(b, 1, 1) if tb else b
    made = w.matmul(a, b)
    made = w.drop(made, len(made.shape) - 2) if ta else made
    return w.drop(made, len(made.shape) - 1) if tb else made


def linear(w: Words, x: Value, weight: Value, bias: Optional[Value] = None) -> Value:
    made = w.matmul(x if len(x.shape) > 1 else w.spread(x, 0, 1), weight, tb=True)
    made = made if len(x.shape) > 1 else w.drop(made, 0)
    return made if bias is None else add(w, made, bias)


def addmm(w: Words, bias: Value, a: Value, b: Value, beta: Number = 1, alpha: Number = 1) -> Value:
    return add(w, mul(w, bias, beta) if beta != 1 else bias, w.matmul(a, b), alpha)


def outer(w: Words, a: Value, b: Value) -> Value:
    return mul(w, w.spread(a, 1, 1), b)


def einsum(w: Words, equation: str, *operands: Any) -> Value:
    values = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        out = "".join(sorted(c for c in set(left) if c != "," and left.count(c) == 1))
    if "." in equation or any(len(set(term)) != len(term) for term in terms) or len(terms) != len(values):
        raise Unsayable(f'the sum of products "{equation}"', "name every dim, each once in an operand")
    while len(values) > 1:  # two at a time, from the left
        rest = set("".join(terms[2:])) | set(out)
        made = out if len(values) == 2 else "".join(dict.fromkeys(c for c in terms[0] + terms[1] if c in rest))
        values[:2], terms[:2] = [pair(w, values[0], terms[0], values[1], terms[1], made)], [made]
    return w.permute(without(w, values[0], terms[0], out), [kept(terms[0], out).index(c) for c in out])


def kept(term: str, out: str) -> str:
    return "".join(c for c in term if c in out)


def without(w: Words, x: Value, term: str, wanted: str) -> Value:
    gone = [d for d, c in enumerate(term) if c not in wanted]
    return w.reduce("sum", x, gone, False) if gone else x


def pair(w: Words, a: Value, ta: str, b: Value, tb: str, out: str) -> Value:
    """Two operands: batch dims that all have, dims of one of them, dims that are summed over. A dim of b that a lacks becomes a
    column; those of a stay dims of their own, so that they keep their layouts."""
    a, b = without(w, a, ta, tb + out), without(w, b, tb, ta + out)
    ta, tb = kept(ta, tb + out), kept(tb, ta + out)
    batch = [c for c in ta if c in tb and c in out]
    rows, columns = [c for c in ta if c not in tb], [c for c in tb if c not in ta]
    summed = [c for c in ta if c in tb and c not in out]
    if not summed:  # a product of elements
        order = batch + rows + columns
        a = w.permute(a, [ta.index(c) for c in batch + rows])
        b = w.permute(b, [tb.index(c) for c in batch + columns])
        for _ in columns:
            a = w.spread(a, len(a.shape), 1)
        for d in range(len(rows)):
            b = w.spread(b, len(batch) + d, 1)
        return w.permute(mul(w, a, b), [order.index(c) for c in out])
    if len(columns) > 1 and len(rows) < 2:
        return pair(w, b, tb, a, ta, out)
    a = w.permute(a, [ta.index(c) for c in batch + rows + summed])
    b = w.permute(b, [tb.index(c) for c in batch + summed + columns])
    extents = dict(zip(batch + rows + summed, a.shape))
    extents.update(zip(batch + summed + columns, b.shape))
    for _ in summed[1:]:
        a, b = w.join(a, len(batch) + len(rows)), w.join(b, len(batch))
    for _ in columns[1:]:
        b = w.join(b, len(batch) + 1)
    a = a if rows else w.spread(a, len(batch), 1)
    b = b if columns else w.spread(b, len(batch) + 1, 1)
    for _ in rows[1:] if batch else []:
        b = w.spread(b, len(batch), 1)
    made = w.matmul(a, b)
    at = len(batch) + max(len(rows), 1)
    for d, c in enumerate(columns[:-1]):
        made = w.parts(made, at + d, extents[c])
    made = made if columns else w.drop(made, at)
    made = made if rows else w.drop(made, len(batch))
    order = batch + rows + columns
    return w.permute(made, [order.index(c) for c in out])


def conv2d(w: Words, x: Value, weight: Value, bias: Optional[Value] = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Value:
    steps, pads, holes = (list(one) if isinstance(one, (list, tuple)) else [one] * 2 for one in (stride, padding, dilation))
    if groups != 1 or set(holes) != {1} or len(set(steps)) > 1 or len(set(pads)) > 1 or isinstance(pads[0], str):
        raise Unsayable("a convolution with groups, holes, or unequal steps", "one group, one stride and one padding can be said")
    if x.shape[2:] and weight.shape[2] == weight.shape[3] == steps[0] and pads[0] == 0 and x.shape[2] % steps[0] == x.shape[3] % steps[0] == 0:
        made = patches(w, x, weight, steps[0])
    else:
        made = w.conv2d(x, weight, steps[0], pads[0])
    return made if bias is None else add(w, made, w.spread(w.spread(bias, 1, 1), 2, 1))


def patches(w: Words, x: Value, weight: Value, size: int) -> Value:
    """A convolution whose windows do not overlap: a product of patches, whose places may be sliced."""
    n, c, height, width = x.shape
    x = w.parts(w.parts(x, 2, height // size), 4, width // size)  # n, c, h, p, w, p
    x = w.permute(x, [0, 2, 4, 1, 3, 5])
    x = w.join(w.join(x, 3), 3)
    flat = w.join(w.join(weight, 1), 1)
    return w.permute(w.matmul(x, flat, tb=True), [0, 3, 1, 2])


def attention(w: Words, q: Value, k: Value, v: Value, attn_mask: Optional[Value] = None, dropout_p: float = 0.0, is_causal: bool = False,
              scale: Optional[float] = None, enable_gqa: bool = False) -> Value:
    group = q.shape[-3] // k.shape[-3] if enable_gqa else 1
    if group > 1:
        k, v = (repeat_interleave(w, one, group, len(one.shape) - 3) for one in (k, v))
    score = mul(w, w.matmul(q, k, tb=True), scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        score = where(w, triangle(w, q.shape[-2], k.shape[-2], ">="), score, float("-inf"))
    if attn_mask is not None:
        score = where(w, attn_mask, score, float("-inf")) if attn_mask.dtype == "bool" else add(w, score, attn_mask)
    weights = w.along("softmax", score, len(score.shape) - 1)
    return w.matmul(w.dropout(weights, dropout_p) if dropout_p else weights, v)


# ---- views ----

def at(x: Value, d: int, more: int = 0) -> int:
    """A dim as torch counts it."""
    rank = len(x.shape) + more
    if not -rank <= d < max(rank, 1):
        raise Unsayable(f"dim {d} of a tensor with {rank}")
    return d % rank if rank else 0


def many(first: Any, rest: Sequence[Any]) -> List[Any]:
    return list(first) if isinstance(first, (list, tuple)) else [first, *rest]


def view(w: Words, x: Value, *shape: Any) -> Value:
    wanted = many(shape[0], shape[1:])
    if any(isinstance(one, str) for one in wanted):
        return w.cast(x, wanted[0])
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = math.prod(x.shape) // max(known, 1)
    return w.reshape(x, wanted)


def flatten(w: Words, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    first, last = at(x, start_dim), at(x, end_dim)
    return w.reshape(x, x.shape[:first] + (math.prod(x.shape[first:last + 1]),) + x.shape[last + 1:])


def unflatten(w: Words, x: Value, dim: int, sizes: Sequence[int]) -> Value:
    d = at(x, dim)
    return view(w, x, list(x.shape[:d]) + [n if n != -1 else x.shape[d] // -math.prod(sizes) for n in sizes] + list(x.shape[d + 1:]))


def transpose(w: Words, x: Value, dim0: int, dim1: int) -> Value:
    return w.transpose(x, at(x, dim0), at(x, dim1))


def turn(w: Words, x: Value) -> Value:
    return w.transpose(x, 0, 1) if len(x.shape) == 2 else x


def expand(w: Words, x: Value, *sizes: Any, implicit: bool = False) -> Value:
    sizes = many(sizes[0], sizes[1:])
    while len(x.shape) < len(sizes):
        x = w.spread(x, 0, 1)
    for d, n in enumerate(sizes):
        if n not in (-1, x.shape[d]):
            x = w.spread(w.drop(x, d), d, n)
    return x


def repeat_interleave(w: Words, x: Value, repeats: int, dim: Optional[int] = None, output_size: Optional[int] = None) -> Value:
    if dim is None or not isinstance(repeats, int):
        raise Unsayable("repeat_interleave without a dim, or with a number for each element", "give one number and a dim")
    d = at(x, dim)
    return w.join(w.spread(x, d + 1, repeats), d)


def repeat(w: Words, x: Value, *times: Any) -> Value:
    times = many(times[0], times[1:])
    while len(x.shape) < len(times):
        x = w.spread(x, 0, 1)
    for d, n in enumerate(times):
        x = w.join(w.spread(x, d, n), d) if n != 1 else x
    return x


def squeeze(w: Words, x: Value, dim: Any = None) -> Value:
    dims = range(len(x.shape)) if dim is None else [at(x, d) for d in many(dim, [])]
    for d in sorted(dims, reverse=True):
        x = w.drop(x, d) if x.shape[d] == 1 else x
    return x


def unsqueeze(w: Words, x: Value, dim: int) -> Value:
    return w.spread(x, at(x, dim, 1), 1)


def select(w: Words, x: Value, dim: int, index: int) -> Value:
    d = at(x, dim)
    return w.drop(w.narrow(x, d, index % x.shape[d], 1), d)


def slice_(w: Words, x: Value, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None, step: int = 1) -> Value:
    d = at(x, dim)
    first, last, by = slice(start, end, step).indices(x.shape[d])
    if by == 1:
        return x if (first, last) == (0, x.shape[d]) else w.narrow(x, d, first, max(last - first, 0))
    if x.shape[d] % by or (last - first + by - 1) // by != x.shape[d] // by:
        raise Unsayable(f"every {by}th element of a part", "take every nth of a dim that n divides")
    return select(w, w.parts(x, d, x.shape[d] // by), d + 1, first)


def getitem(w: Words, x: Value, index: Any) -> Value:
    index = list(index) if isinstance(index, tuple) else [index]
    used = sum(one is not None and one is not Ellipsis for one in index)
    if Ellipsis in [one for one in index if not isinstance(one, Value)]:
        place = next(i for i, one in enumerate(index) if one is Ellipsis)
        index[place:place + 1] = [slice(None)] * (len(x.shape) - used)
    d = 0
    for one in index:
        if one is None:
            x, d = w.spread(x, d, 1), d + 1
        elif isinstance(one, slice):
            x, d = slice_(w, x, d, one.start, one.stop, one.step or 1), d + 1
        elif isinstance(one, int) and not isinstance(one, bool):
            x = select(w, x, d, one)
        elif isinstance(one, Value) and one.dtype != "bool" and d == 0 and len(index) == 1:
            return rows(w, x, one)
        else:
            raise Unsayable("an index that is a mask, or a tensor beside others", "use where, gather or index_select")
    return x


def rows(w: Words, x: Value, index: Value) -> Value:
    if len(x.shape) == 2:
        return w.gather_rows(x, index)
    flat = w.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
    return w.reshape(w.gather_rows(flat, index), index.shape + x.shape[1:])


def index_select(w: Words, x: Value, dim: int, index: Value) -> Value:
    d = at(x, dim)
    return w.transpose(rows(w, w.transpose(x, 0, d), index), 0, d)


def pieces(w: Words, x: Value, dim: int, sizes: Sequence[int]) -> List[Value]:
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return [w.narrow(x, at(x, dim), begin, n) for begin, n in zip(begins, sizes)]


def split(w: Words, x: Value, split_size_or_sections: Any, dim: int = 0) -> List[Value]:
    n, sizes = x.shape[at(x, dim)], split_size_or_sections
    if isinstance(sizes, int):
        sizes = [min(sizes, n - begin) for begin in range(0, n, sizes)]
    return pieces(w, x, dim, list(sizes))


def chunk(w: Words, x: Value, chunks: int, dim: int = 0) -> List[Value]:
    return split(w, x, -(-x.shape[at(x, dim)] // chunks), dim)


def unbind(w: Words, x: Value, dim: int = 0) -> List[Value]:
    return [select(w, x, dim, i) for i in range(x.shape[at(x, dim)])]


def cat(w: Words, tensors: Sequence[Value], dim: int = 0) -> Value:
    tensors, _ = w.alike([one for one in tensors])
    return w.concat(tensors, at(tensors[0], dim))


def stack(w: Words, tensors: Sequence[Value], dim: int = 0) -> Value:
    d = at(tensors[0], dim, 1)
    return cat(w, [w.spread(one, d, 1) for one in tensors], d)


def pad(w: Words, x: Value, pad: Sequence[int], mode: str = "constant", value: Optional[Number] = None) -> Value:
    if mode != "constant" or value not in (None, 0) or min(pad) < 0:
        raise Unsayable(f"padding by {mode} {value}", "pad with zeros")
    for i in range(0, len(pad), 2):
        if pad[i] or pad[i + 1]:
            x = w.pad(x, len(x.shape) - 1 - i // 2, pad[i], pad[i + 1])
    return x


def triangle(w: Words, rows: int, columns: int, sign: str, diagonal: int = 0) -> Value:
    """[rows, columns]: whether row + diagonal >= column (or <=)."""
    row = w.spread(w.iota(rows, "i32"), 1, 1)
    return compare(sign)(w, add(w, row, diagonal) if diagonal else row, w.iota(columns, "i32"))


def tril(w: Words, x: Value, diagonal: int = 0) -> Value:
    seen = triangle(w, x.shape[-2], x.shape[-1], ">=", diagonal)
    return seen if x.dtype == "bool" and x.number else where(w, seen, x, 0)


def triu(w: Words, x: Value, diagonal: int = 0) -> Value:
    seen = triangle(w, x.shape[-2], x.shape[-1], "<=", diagonal)
    return seen if x.dtype == "bool" and x.number else where(w, seen, x, 0)


# ---- reductions ----

def dims_of(x: Value, dim: Any) -> List[int]:
    return [] if dim is None or dim == () or dim == [] else [at(x, d) for d in many(dim, [])]


def reduction(word: str) -> Callable[..., Value]:
    def row(w: Words, x: Value, dim: Any = None, keepdim: bool = False, dtype: Optional[str] = None) -> Value:
        if dtype or not is_float(x.dtype):
            x = w.cast(x, dtype or ("f32" if word == "mean" else "i64" if word == "sum" else x.dtype))
        return w.reduce(word, x, dims_of(x, dim), keepdim)
    return row


def extreme(word: str) -> Callable[..., Any]:
    """max and min: of two tensors, of all elements, or along a dim with the places."""
    def row(w: Words, x: Value, dim: Any = None, keepdim: bool = False, other: Optional[Value] = None) -> Any:
        if other is not None or isinstance(dim, Value):
            return larger(word + "imum")(w, x, dim if other is None else other)
        if dim is None:
            return w.reduce(word, x, [], False)
        return w.reduce(word, x, [at(x, dim)], keepdim), place_of("arg" + word)(w, x, dim, keepdim)
    return row


def place_of(word: str) -> Callable[..., Value]:
    def row(w: Words, x: Value, dim: Optional[int] = None, keepdim: bool = False) -> Value:
        if dim is None:
            x, dim = w.reshape(x, (math.prod(x.shape),)), 0
        d = at(x, dim)
        made = w.cast(w.index_of(word, x, d), "i64")
        return w.spread(made, d, 1) if keepdim else made
    return row


def norm(w: Words, x: Value, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Optional[str] = None) -> Value:
    if p not in (2, 2.0, "fro", None):
        raise Unsayable(f"the norm of order {p}", "norms are roots of sums of squares")
    return w.map("sqrt({0})", [w.reduce("sum", w.map("{0:6}^2", [x], x.dtype, 5), dims_of(x, dim), keepdim)], x.dtype)


def vector_norm(w: Words, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Optional[str] = None) -> Value:
    return norm(w, x, ord, dim, keepdim)


def var(w: Words, x: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: Optional[int] = None) -> Value:
    dims = dims_of(x, dim) or list(range(len(x.shape)))
    count = math.prod(x.shape[d] for d in dims)
    away = sub(w, x, w.reduce("mean", x, dims, True))
    less = correction if correction is not None else int(unbiased)
    return div(w, w.reduce("sum", w.map("{0:6}^2", [away], x.dtype, 5), dims, keepdim), count - less)


def softmax(word: str) -> Callable[..., Value]:
    def row(w: Words, x: Value, dim: Optional[int] = None, half_to_float: bool = False, dtype: Optional[str] = None, _stacklevel: int = 3) -> Value:
        if dim is None:
            raise Unsayable("softmax without a dim", "name the dim")
        return w.along(word, w.cast(x, dtype) if dtype else x, at(x, dim))
    return row


def layer_norm(w: Words, x: Value, normalized_shape: Sequence[int], weight: Optional[Value] = None, bias: Optional[Value] = None,
               eps: float = 1e-5, cudnn_enable: bool = False) -> Value:
    dims = list(range(len(x.shape) - len(many(normalized_shape, [])), len(x.shape)))
    away = sub(w, x, w.reduce("mean", x, dims, True))
    spread = w.reduce("mean", w.map("{0:6}^2", [away], x.dtype, 5), dims, True)
    made = div(w, away, w.map("sqrt({0:2} + {1})", [spread, eps], x.dtype))
    made = mul(w, made, weight) if weight is not None else made
    return add(w, made, bias) if bias is not None else made


def rms_norm(w: Words, x: Value, normalized_shape: Sequence[int], weight: Optional[Value] = None, eps: Optional[float] = None) -> Value:
    dims = list(range(len(x.shape) - len(normalized_shape), len(x.shape)))
    square = w.reduce("mean", w.map("{0:6}^2", [x], x.dtype, 5), dims, True)
    made = div(w, x, w.map("sqrt({0:2} + {1})", [square, eps if eps is not None else 2.0**-23], x.dtype))
    return mul(w, made, weight) if weight is not None else made


def cumsum(w: Words, x: Value, dim: int, dtype: Optional[str] = None) -> Value:
    x = w.cast(x, dtype or ("i64" if not is_float(x.dtype) else x.dtype))
    return w.cumsum(x, at(x, dim))


def topk(w: Words, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> List[Value]:
    d = at(x, dim)
    index = w.index_of("topk_index", x if largest else negate(w, x), d, k)
    return [w.gather(x, index, d), w.cast(index, "i64")]


# ---- rows of tables ----

def gather(w: Words, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    d = at(x, dim)
    lead = [n if e == d else index.shape[e] for e, n in enumerate(x.shape)]
    for e, n in enumerate(lead):
        x = w.narrow(x, e, 0, n) if n != x.shape[e] else x
    return w.gather(x, index, d)


def scatter_add(w: Words, x: Value, dim: int, index: Value, src: Value) -> Value:
    d = at(x, dim)
    return add(w, x, w.scatter_add(src, index, d, x.shape[d]))


def index_add(w: Words, x: Value, dim: int, index: Value, source: Value, alpha: Number = 1) -> Value:
    if at(x, dim) != 0 or len(x.shape) != 2:
        raise Unsayable("index_add along another dim than the first of two", "transpose first")
    return add(w, x, w.add_rows(source, index, x.shape[0]), alpha)


def embedding(w: Words, a: Value, b: Value, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Value:
    """F.embedding(index, table); ATen has the table first."""
    index, table = (a, b) if not is_float(a.dtype) else (b, a)
    if max_norm is not None or scale_grad_by_freq:
        raise Unsayable("an embedding that changes its table", "leave max_norm and scale_grad_by_freq out")
    return w.gather_rows(table, index)


def embedding_bag(w: Words, a: Value, b: Value, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Optional[Value] = None,
                  include_last_offset: bool = False, padding_idx: Any = None) -> Value:
    index, table = (a, b) if not is_float(a.dtype) else (b, a)
    if offsets is not None or mode not in ("sum", "mean") or len(index.shape) != 2 or max_norm is not None or padding_idx is not None:
        raise Unsayable("bags of unequal lengths, or their maxima", "give indices [bags, length] and mode sum or mean")
    found = w.gather_rows(table, index)
    if per_sample_weights is not None:
        found = mul(w, found, w.spread(per_sample_weights, 2, 1))
    return w.reduce(mode, found, [1], False)


def one_hot(w: Words, index: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise Unsayable("one_hot with as many classes as the data has", "give num_classes")
    return w.onehot(index, num_classes, "i64")


# ---- losses ----

def reduced(w: Words, x: Value, how: Union[str, int]) -> Value:
    how = ("none", "mean", "sum")[how] if isinstance(how, int) else how
    return x if how == "none" else w.reduce(how, x, [], False)


def mse_loss(w: Words, x: Value, target: Value, size_average: Any = None, reduce: Any = None, reduction: Any = "mean") -> Value:
    return reduced(w, w.map("({0:2} - {1:3})^2", [x, target], x.dtype, 5), reduction)


def nll_loss(w: Words, logs: Value, target: Value, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
             reduce: Any = None, reduction: Any = "mean") -> Value:
    if weight is not None or len(logs.shape) != 2:
        raise Unsayable("a likelihood with weights, or of more than a dim of classes", "give logits [samples, classes]")
    own = w.reduce("sum", mul(w, w.onehot(target, logs.shape[1], logs.dtype), logs), [1], False)
    return reduced(w, negate(w, own), reduction)


def cross_entropy(w: Words, x: Value, target: Value, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                  reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Value:
    if label_smoothing or is_float(target.dtype):
        raise Unsayable("cross entropy against probabilities", "give the class of each sample")
    return nll_loss(w, w.along("log_softmax", x, 1), target, weight, reduction=reduction)


def bce_logits(w: Words, x: Value, target: Value, weight: Any = None, size_average: Any = None, reduce: Any = None,
               reduction: Any = "mean", pos_weight: Any = None) -> Value:
    if weight is not None or pos_weight is not None:
        raise Unsayable("binary cross entropy with weights", "multiply the losses")
    return reduced(w, w.map("relu({0}) - {0:3}*{1:4} + log(1 + exp(-abs({0})))", [x, target], x.dtype, 2), reduction)


# ---- formats, and what makes tensors ----

def to(w: Words, x: Value, *args: Any, dtype: Optional[str] = None, **_: Any) -> Value:
    for one in args:
        dtype = one.dtype if isinstance(one, Value) else one if isinstance(one, str) and one in _FORMATS else dtype
    return w.cast(x, dtype) if dtype else x


_FORMATS = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")


def same(w: Words, x: Value, *_: Any, **__: Any) -> Value:
    return x


def cast_to(dtype: str) -> Callable[..., Value]:
    return lambda w, x, **_: w.cast(x, dtype)


def type_as(w: Words, x: Value, other: Value) -> Value:
    return w.cast(x, other.dtype)


def detach(w: Words, x: Value) -> Value:
    return w.stop(x) if is_float(x.dtype) and not x.leaf and not x.fixed else x


def dropout(w: Words, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    return w.dropout(x, p) if training and p else x


def filled(number: Number) -> Callable[..., Value]:
    def row(w: Words, *size: Any, dtype: Optional[str] = None, **_: Any) -> Value:
        return w.full(many(size[0], size[1:]), number, dtype or "f32")
    return row


def full(w: Words, size: Sequence[int], fill_value: Number, dtype: Optional[str] = None, **_: Any) -> Value:
    kind = "bool" if isinstance(fill_value, bool) else "i64" if isinstance(fill_value, int) else "f32"
    return w.full(size, fill_value, dtype or kind)


def like(number: Number) -> Callable[..., Value]:
    return lambda w, x, dtype=None, **_: w.full(x.shape, number, dtype or x.dtype)


def full_like(w: Words, x: Value, fill_value: Number, dtype: Optional[str] = None, **_: Any) -> Value:
    return w.full(x.shape, fill_value, dtype or x.dtype)


def new_filled(number: Number) -> Callable[..., Value]:
    return lambda w, x, *size, dtype=None, **_: w.full(many(size[0], size[1:]), number, dtype or x.dtype)


def arange(w: Words, *bounds: Number, dtype: Optional[str] = None, start: Number = 0, end: Optional[Number] = None, step: Number = 1, **_: Any) -> Value:
    if len(bounds) == 1:
        end = bounds[0]
    elif bounds:
        start, end, step = (*bounds, step)[:3]
    real = any(isinstance(one, float) for one in (start, end, step))
    dtype = dtype or ("f32" if real else "i64")
    made = w.iota(max(0, math.ceil((end - start) / step)), dtype)
    made = mul(w, made, step) if step != 1 else made
    return add(w, made, start) if start else made


# ---- ATen's backward passes, where a graph has them ----

def threshold_backward(w: Words, grad: Value, x: Value, threshold: Number = 0) -> Value:
    return w.map("select({1:2} > %s, {0}, 0)" % threshold, [grad, x], grad.dtype, linear=[])


def tanh_backward(w: Words, grad: Value, y: Value) -> Value:
    return w.map("{0:3}*(1 - {1:6}^2)", [grad, y], grad.dtype, 3, linear=[(0,)])


def sigmoid_backward(w: Words, grad: Value, y: Value) -> Value:
    return w.map("{0:3}*{1:4}*(1 - {1:3})", [grad, y], grad.dtype, 3, linear=[(0,)])


def softmax_backward(w: Words, grad: Value, y: Value, dim: int, input_dtype: Any = None) -> Value:
    inner = w.reduce("sum", mul(w, grad, y), [at(y, dim)], True)
    return w.map("({0:2} - {1:3})*{2:4}", [grad, inner, y], y.dtype, 3)


# ---- the table: torch's function, the tensor's method, ATen's operation; in place: with "_" behind ----

ROWS: Dict[str, Callable[..., Any]] = {
    **{name: unary(*([row] if isinstance(row, str) else row)) for name, row in UNARY.items()},
    **{name: compare(sign) for name, sign in COMPARED.items()},
    "abs": lambda w, x: w.map("abs({0})", [x], x.dtype), "neg": negate, "negative": negate, "add": add, "sub": sub, "subtract": sub,
    "rsub": lambda w, a, b, alpha=1: sub(w, b, a, alpha), "mul": mul, "multiply": mul, "rmul": mul, "radd": add, "div": div, "truediv": div, "divide": div,
    "true_divide": div, "rdiv": lambda w, a, b: div(w, b, a), "rtruediv": lambda w, a, b: div(w, b, a), "pow": power,
    "rpow": lambda w, a, b: w.map("exp({0:4}*%r)" % math.log(b), [a], promote([a, b])), "iadd": add, "isub": sub, "imul": mul, "itruediv": div,
    "logical_and": lambda w, a, b: logical(w, a, b, "{0:3}*{1:4}"), "and": lambda w, a, b: logical(w, a, b, "{0:3}*{1:4}"),
    "bitwise_and": lambda w, a, b: logical(w, a, b, "{0:3}*{1:4}"), "logical_or": lambda w, a, b: logical(w, a, b, "{0:2} + {1:3}"),
    "or": lambda w, a, b: logical(w, a, b, "{0:2} + {1:3}"), "bitwise_or": lambda w, a, b: logical(w, a, b, "{0:2} + {1:3}"),
    "logical_not": logical_not, "invert": logical_not, "bitwise_not": logical_not,
    "maximum": larger("maximum"), "minimum": larger("minimum"), "clamp": clamp, "clip": clamp,
    "clamp_min": lambda w, x, min: clamp(w, x, min), "clamp_max": lambda w, x, max: clamp(w, x, None, max),
    "where": where, "masked_fill": masked_fill, "gelu": gelu, "softplus": softplus, "leaky_relu": leaky_relu,
    "addcmul": lambda w, x, a, b, value=1: add(w, x, mul(w, a, b), value),
    "addcdiv": lambda w, x, a, b, value=1: add(w, x, div(w, a, b), value),
    "lerp": lambda w, x, end, weight: add(w, x, mul(w, sub(w, end, x), weight)),
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "linear": linear, "addmm": addmm, "baddbmm": addmm,
    "outer": outer, "einsum": einsum, "conv2d": conv2d, "scaled_dot_product_attention": attention,
    "rmatmul": lambda w, a, b: matmul(w, b, a),
    "convolution": lambda w, x, weight, bias, stride, padding, dilation, transposed, out, groups: conv2d(w, x, weight, bias, stride, padding, dilation, groups),
    "view": view, "reshape": view, "unsafe_view": view, "flatten": flatten, "unflatten": unflatten, "transpose": transpose,
    "swapaxes": transpose, "t": turn, "numpy_T": turn, ".T": turn, ".mT": lambda w, x: transpose(w, x, -2, -1),
    "permute": lambda w, x, *dims: w.permute(x, [at(x, d) for d in many(dims[0], dims[1:])]),
    "expand": expand, "expand_as": lambda w, x, y: expand(w, x, list(y.shape)), "broadcast_to": expand, "repeat": repeat,
    "repeat_interleave": repeat_interleave, "squeeze": squeeze, "unsqueeze": unsqueeze, "select": select, "slice": slice_,
    "narrow": lambda w, x, dim, start, length: w.narrow(x, at(x, dim), start, length), "getitem": getitem,
    "index_select": index_select, "split": split, "split_with_sizes": split, "chunk": chunk, "unbind": unbind, "cat": cat, "concat": cat,
    "stack": stack, "pad": pad, "constant_pad_nd": lambda w, x, by, value=0: pad(w, x, by, "constant", value), "tril": tril, "triu": triu,
    "sum": reduction("sum"), "mean": reduction("mean"), "amax": reduction("max"), "amin": reduction("min"),
    "max": extreme("max"), "min": extreme("min"), "argmax": place_of("argmax"), "argmin": place_of("argmin"),
    "norm": norm, "linalg_vector_norm": vector_norm, "linalg_norm": vector_norm, "var": var,
    "std": lambda w, x, *a, **k: w.map("sqrt({0})", [var(w, x, *a, **k)], x.dtype),
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"), "layer_norm": layer_norm, "rms_norm": rms_norm,
    "logsumexp": lambda w, x, dim, keepdim=False: logsumexp(w, x, dim, keepdim),
    "native_layer_norm": lambda w, *a: [layer_norm(w, *a)], "cumsum": cumsum, "topk": topk,
    "gather": gather, "scatter_add": scatter_add, "index_add": index_add, "embedding": embedding, "embedding_bag": embedding_bag,
    "one_hot": one_hot, "mse_loss": mse_loss, "nll_loss": nll_loss, "cross_entropy": cross_entropy,
    "binary_cross_entropy_with_logits": bce_logits,
    "to": to, "to_copy": to, "type": to, "float": cast_to("f32"), "double": cast_to("f64"), "half": cast_to("f16"),
    "bfloat16": cast_to("bf16"), "int": cast_to("i32"), "long": cast_to("i64"), "bool": cast_to("bool"), "type_as": type_as,
    "contiguous": same, "clone": same, "alias": same, "lift_fresh": same, "requires_grad_": same, "view_as": lambda w, x, y: w.reshape(x, y.shape),
    "reshape_as": lambda w, x, y: w.reshape(x, y.shape), "detach": detach, ".data": detach, "dropout": dropout,
    "copy": lambda w, x, src, *_, **__: expand(w, w.cast(src, x.dtype), list(x.shape)), "zero": like(0), "fill": full_like,
    "zeros": filled(0), "ones": filled(1), "full": full, "zeros_like": like(0), "ones_like": like(1), "full_like": full_like,
    "new_zeros": new_filled(0), "new_ones": new_filled(1), "arange": arange,
    "threshold_backward": threshold_backward, "tanh_backward": tanh_backward, "sigmoid_backward": sigmoid_backward,
    "softmax_backward_data": softmax_backward,
}


def logsumexp(w: Words, x: Value, dim: Any, keepdim: bool = False) -> Value:
    dims = dims_of(x, dim)
    top = w.reduce("max", x, dims, True)
    made = w.map("log({0}) + {1:3}", [w.reduce("sum", w.map("exp({0:2} - {1:3})", [x, top], x.dtype), dims, True), top], x.dtype, 2)
    return made if keepdim else squeeze(w, made, dims)


def row_of(name: str) -> Optional[Callable[..., Any]]:
    """The row of a function's name: "add", "aten::add.Tensor", "__add__", "_softmax", "add_" (in place)."""
    if name in ROWS:
        return ROWS[name]
    bare = name.rpartition("::")[2]
    bare = bare if bare.startswith(".") else bare.split(".")[0]
    if bare in ROWS:
        return ROWS[bare]
    return ROWS.get(bare.strip("_")) if bare.strip("_") not in ("", "data") else None


def in_place(name: str) -> bool:
    bare = name.rpartition("::")[2].split(".")[0]
    return (bare.endswith("_") and not bare.endswith("__") and bare != "requires_grad_") or bare in ("__iadd__", "__isub__", "__imul__", "__itruediv__")
