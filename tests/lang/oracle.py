#!/usr/bin/env python3
"""An oracle for `lockstep compile run`: what the shipped programs mean, written down a second time.

Each program of examples/lang, and those of tests/lang/conformance whose formulas are of their own, is evaluated here by
hand, on whole tensors, without mesh, layouts or collectives, and in double precision; only inputs, and intermediate
values that the program keeps in a narrow format, are rounded. The interpreter is given the same seed and must agree,
on every mesh and for every schedule, to within what the formats' roundings allow.

Nothing is shared with the interpreter: the generator of inputs is written from its definition (Philox 4x32-10,
Salmon et al., SC 2011), formats are rounded by struct.

    tests/lang/oracle.py build/release/lockstep [PROGRAM...]
"""
import itertools
import json
import math
import os
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEED = 7

# ---- formats: unit roundoff, and rounding to nearest, ties to even ----

ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def rounded(form, x):
    if form == "f64" or x == 0 or not math.isfinite(x):
        return x
    if form == "bf16":
        mantissa, exponent = math.frexp(x)
        return math.ldexp(round(math.ldexp(mantissa, 8)), exponent - 8)
    try:
        return struct.unpack("<" + "fe"[form == "f16"], struct.pack("<" + "fe"[form == "f16"], x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


# ---- inputs ----

MASK = 0xFFFFFFFF


def philox(counter, key):
    a, b, c, d = counter
    k, l = key & MASK, key >> 32
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (y >> 32) ^ b ^ k, y & MASK, (x >> 32) ^ d ^ l, x & MASK
        k, l = (k + 0x9E3779B9) & MASK, (l + 0xBB67AE85) & MASK
    return a


def name_key(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


class Draws:
    """Inputs as rows of numbers; shapes are for the caller to know. `item`: which tensor of a list."""

    def __init__(self, seed):
        self.seed = seed

    def word(self, name, index, rank, item):
        return philox((index & MASK, index >> 32, rank, item), self.seed ^ name_key(name))

    def input(self, name, form, count, item=0, rank=0):
        return [rounded(form, (self.word(name, i, rank, item) + 0.5) / 2.0**31 - 1) for i in range(count)]

    def parts(self, name, form, count, ranks, item=0):
        """A partial input: what each rank holds."""
        return [self.input(name, form, count, item, r + 1) for r in range(ranks)]

    def state(self, name, form, count, item=0, rank=0):
        return [rounded(form, (self.word(name, i, rank, item) + 0.5) / 2.0**32 * 15 / 16 + 1 / 16) for i in range(count)]

    def indices(self, name, count, rows):
        return [self.word(name, i, 0, 0) % rows for i in range(count)]

    def scalar(self, name, form="f32"):
        return self.state(name, form, 1)[0]


def keeps(key, index, p):
    return (philox((index & MASK, index >> 32, 0, 0), key) + 0.5) / 2.0**32 >= p


# ---- small mathematics ----

def matmul(a, b, m, k, n):
    return [sum(a[i * k + x] * b[x * n + j] for x in range(k)) for i in range(m) for j in range(n)]


def transposed(a, m, n):
    return [a[i * n + j] for j in range(n) for i in range(m)]


def gelu(x):
    return x / 2 * (1 + math.erf(x / math.sqrt(2)))


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def dropped(a, p, key):
    return [x / (1 - p) if keeps(key, i, p) else 0.0 for i, x in enumerate(a)]


def summed(parts, form):
    """Over ranks, in their order, each sum rounded: what a reduction in a narrow format gives."""
    total = parts[0]
    for part in parts[1:]:
        total = [rounded(form, x + y) for x, y in zip(total, part)]
    return total


def norm(a):
    return math.sqrt(math.fsum(x * x for x in a))


# ---- programs: size(name) is an extent, ranks(axis) a number of ranks; each yields (format, values) per result:
#      outputs in order, then states ----

PROGRAMS = {}


def program(path, slack, sizes):
    """`slack`: roundings, in units of the result's format, that may add up."""
    def keep(function):
        PROGRAMS[path + ":" + function.__name__] = (function, slack, sizes)
        return function
    return keep


ONE_AXIS = ["dp=1,N=5", "dp=2,N=6", "dp=3,N=10", "dp=4,N=7", "dp=8,N=21"]


@program("examples/lang/sgd.lk", slack=4, sizes=ONE_AXIS)
def sgd(d, n):
    g = [x / n["dp"] for x in summed(d.parts("g", "f16", n["N"], n["dp"]), "f16")]
    w, lr = d.state("w", "f32", n["N"]), d.scalar("lr")
    new = [x - lr * rounded("f16", y) for x, y in zip(w, g)]
    return [("f16", new), ("f32", new)]


def moments(d, n, g, item=0, count=None):
    count = count or n["N"]
    b1, b2 = d.scalar("b1"), d.scalar("b2")
    m = [b1 * x + (1 - b1) * y for x, y in zip(d.state("m", "f32", count, item), g)]
    v = [b2 * x + (1 - b2) * y * y for x, y in zip(d.state("v", "f32", count, item), g)]
    return m, v


def direction(d, m, v):
    b1, b2, t, eps = d.scalar("b1"), d.scalar("b2"), d.scalar("t"), d.scalar("eps")
    return [x / (1 - b1**t) / (math.sqrt(y / (1 - b2**t)) + eps) for x, y in zip(m, v)]


def mean_gradient(d, n, item=0, count=None):
    total = summed(d.parts("g", "f16", count or n["N"], n["dp"], item), "f16")
    return [rounded("f16", x / n["dp"]) for x in total]


@program("examples/lang/adam.lk", slack=40, sizes=ONE_AXIS)
def adam(d, n):
    m, v = moments(d, n, mean_gradient(d, n))
    w = [x - d.scalar("lr") * s for x, s in zip(d.state("w", "f32", n["N"]), direction(d, m, v))]
    return [("f16", w), ("f32", w), ("f32", m), ("f32", v)]


@program("examples/lang/adamw.lk", slack=40, sizes=ONE_AXIS)
def adamw(d, n):
    g = [x / n["dp"] for x in summed(d.parts("g", "bf16", n["N"], n["dp"]), "bf16")]
    lr, wd = d.scalar("lr"), d.scalar("wd")
    m, v = moments(d, n, g)
    w = [x * (1 - lr * wd) - lr * s for x, s in zip(d.state("w", "f32", n["N"]), direction(d, m, v))]
    return [("bf16", w), ("f32", w), ("f32", m), ("f32", v)]


@program("examples/lang/adam_mixed.lk", slack=40, sizes=ONE_AXIS)
def adam_mixed(d, n):
    scale = d.scalar("scale")
    g = [x / (scale * n["dp"]) for x in summed(d.parts("g", "f16", n["N"], n["dp"]), "f16")]
    fine = max(abs(x) for x in g) < 65504
    assert fine
    m, v = moments(d, n, g)
    w = [x - d.scalar("lr") * s for x, s in zip(d.state("w", "f32", n["N"]), direction(d, m, v))]
    return [("f16", w), ("bool", [1.0]), ("f32", w), ("f32", m), ("f32", v)]


LISTS = ["dp=1,params.N=4:1:9", "dp=2,params.N=5:8", "dp=3,params.N=7:3:10", "dp=4,params.N=2:9:16:1"]


def each(n, function):
    """A program over a list: the tensors' results, result by result."""
    return [result for results in zip(*[function(i, count) for i, count in enumerate(n["params.N"])]) for result in results]


def lamb_tensor(d, n, g, item, count):
    m, v = moments(d, n, g, item, count)
    w, wd, lr = d.state("w", "f32", count, item), d.scalar("wd"), d.scalar("lr")
    u = [s + wd * x for s, x in zip(direction(d, m, v), w)]
    ratio = norm(w) / norm(u) if norm(w) > 0 and norm(u) > 0 else 1.0
    new = [x - lr * ratio * y for x, y in zip(w, u)]
    return [("f16", new), ("f32", new), ("f32", m), ("f32", v)]


@program("examples/lang/lamb.lk", slack=16, sizes=LISTS)
def lamb(d, n):
    return each(n, lambda i, count: lamb_tensor(d, n, mean_gradient(d, n, i, count), i, count))


@program("examples/lang/lamb_zero.lk", slack=16, sizes=LISTS)
def lamb_zero(d, n):
    def tensor(i, count):
        g = [x / n["dp"] for x in summed(d.parts("g", "f16", count, n["dp"], i), "f16")]
        return lamb_tensor(d, n, g, i, count)
    return each(n, tensor)


@program("examples/lang/bert_adam.lk", slack=40, sizes=LISTS)
def bert_adam(d, n):
    def tensor(i, count):
        m, v = moments(d, n, mean_gradient(d, n, i, count), i, count)
        w, lr, wd = d.state("w", "f32", count, i), d.scalar("lr"), d.scalar("wd")
        new = [x - lr * (s + wd * x) for x, s in zip(w, direction(d, m, v))]
        return [("f16", new), ("f32", new), ("f32", m), ("f32", v)]
    return each(n, tensor)


def projection(d, n, form, x, k, o, w, b, r, key):
    """dropout(x w + b) + r, where x w is reduced over slices of k in the program's format."""
    rows = n["B"] * n["S"]
    y = [rounded(form, s) for s in matmul(x, w, rows, k, o)]
    biased = [rounded(form, s + b[i % o]) for i, s in enumerate(y)]
    return add(dropped(biased, 0.1, key), r)


@program("examples/lang/tp_out.lk", slack=8,
         sizes=["tp=1,B=2,S=3,H=4", "tp=2,B=1,S=3,H=6", "tp=3,B=2,S=2,H=7", "tp=4,B=5,S=3,H=9"])
def tp_out(d, n):
    B, S, H = n["B"], n["S"], n["H"]
    x, w, b, r = (d.input(name, "f16", count) for name, count in zip("xwbr", (B * S * H, H * H, H, B * S * H)))
    return [("f16", projection(d, n, "f16", x, H, H, w, b, r, 7))]


@program("examples/lang/pp_edge.lk", slack=8,
         sizes=["pp=2,tp=1,B=2,S=3,H=4", "pp=2,tp=2,B=1,S=3,H=6", "pp=3,tp=2,B=3,S=2,H=5,k=1"])
def pp_edge(d, n):
    return tp_out(d, n)


@program("examples/lang/mlp.lk", slack=8,
         sizes=["dp=1,tp=1,B=2,S=3,H=4,F=5", "dp=2,tp=2,B=3,S=2,H=4,F=6", "dp=1,tp=8,B=2,S=2,H=3,F=17"])
def mlp(d, n):
    B, S, H, F = n["B"], n["S"], n["H"], n["F"]
    x, w1, b1 = d.input("x", "bf16", B * S * H), d.input("w1", "bf16", H * F), d.input("b1", "bf16", F)
    w2, b2 = d.input("w2", "bf16", F * H), d.input("b2", "bf16", H)
    z = [rounded("bf16", s) for s in matmul(x, w1, B * S, H, F)]
    h = [rounded("bf16", gelu(rounded("bf16", s + b1[i % F]))) for i, s in enumerate(z)]
    return [("bf16", projection(d, n, "bf16", h, F, H, w2, b2, x, 11))]


@program("examples/lang/moe.lk", slack=4,
         sizes=["ep=1,E=2,C=3,H=4,F=5", "ep=2,E=4,C=3,H=4,F=3", "ep=3,E=4,C=5,H=3,F=2"])
def moe(d, n):
    E, C, H, F = n["E"], n["C"], n["H"], n["F"]
    x, gate = d.input("x", "bf16", E * C * H), d.input("gate", "bf16", E * C)
    w1, w2 = d.input("w1", "bf16", E * H * F), d.input("w2", "bf16", E * F * H)
    out = []
    for e in range(E):
        z = [rounded("bf16", s) for s in matmul(x[e * C * H:(e + 1) * C * H], w1[e * H * F:(e + 1) * H * F], C, H, F)]
        h = [rounded("bf16", gelu(s)) for s in z]
        y = matmul(h, w2[e * F * H:(e + 1) * F * H], C, F, H)
        out += [gate[e * C + i // H] * rounded("bf16", s) for i, s in enumerate(y)]
    return [("bf16", out)]


@program("examples/lang/ring_attention.lk", slack=8, sizes=["cp=4,B=2,T=8,D=3", "cp=4,B=1,T=12,D=5"])
def ring_attention(d, n):
    B, T, D = n["B"], n["T"], n["D"]
    q, k, v = (d.input(name, "f32", B * T * D) for name in "qkv")
    scale, out = d.scalar("scale"), []
    for b in range(B):
        for t in range(T):
            query = q[(b * T + t) * D:(b * T + t + 1) * D]
            scores = [scale * sum(query[x] * k[(b * T + s) * D + x] for x in range(D)) for s in range(T)]
            weights = [math.exp(s - max(scores)) for s in scores]
            out += [sum(weights[s] * v[(b * T + s) * D + x] for s in range(T)) / sum(weights) for x in range(D)]
    return [("f32", out)]


@program("examples/lang/attention.lk", slack=8,
         sizes=["tp=1,B=2,S=3,H=5,K=2,G=1,D=1", "tp=2,B=1,S=5,H=4,K=2,G=3,D=2", "tp=3,B=2,S=7,H=3,K=3,G=2,D=1"])
def attention(d, n):
    B, S, H, K, G, D = (n[x] for x in ("B", "S", "H", "K", "G", "D"))
    x, rate = d.input("x", "f32", B * S * H), d.input("rate", "f32", D)
    q, k, v = (matmul(x, d.input(name, "f32", H * heads * 2 * D), B * S, H, heads * 2 * D)
               for name, heads in (("wq", K * G), ("wk", K), ("wv", K)))

    def turned(rows, heads, b, t, head):
        at = ((b * S + t) * heads + head) * 2 * D
        pairs = [complex(rows[at + i], rows[at + D + i]) * complex(math.cos(t * rate[i]), math.sin(t * rate[i])) for i in range(D)]
        return [z.real for z in pairs] + [z.imag for z in pairs]

    out = list(x)
    wo = d.input("wo", "f32", K * G * 2 * D * H)
    for b in range(B):
        for t in range(S):
            row = []
            for head in range(K * G):
                query = turned(q, K * G, b, t, head)
                scores = [sum(a * c for a, c in zip(query, turned(k, K, b, s, head // G))) / math.sqrt(2 * D) for s in range(t + 1)]
                weights = [math.exp(s) for s in scores]
                row += [sum(weights[s] * v[((b * S + s) * K + head // G) * 2 * D + i] for s in range(t + 1)) / sum(weights)
                        for i in range(2 * D)]
            for h in range(H):
                out[(b * S + t) * H + h] += sum(a * wo[i * H + h] for i, a in enumerate(row))
    return [("f32", out)]


@program("examples/lang/routing.lk", slack=8,
         sizes=["ep=1,T=7,H=3,E=4,C=3,F=2", "ep=2,T=8,H=3,E=5,C=1,F=4", "ep=3,T=9,H=2,E=4,C=2,F=3"])
def routing(d, n):
    T, H, E, C, F, ranks = (n[x] for x in ("T", "H", "E", "C", "F", "ep"))
    x, router = d.input("x", "f32", T * H), d.input("router", "f32", H * E)
    w1, w2 = d.input("w1", "f32", E * H * F), d.input("w2", "f32", E * F * H)
    logits, out = matmul(x, router, T, H, E), []
    for rank in range(ranks):
        mine = range(rank * T // ranks, (rank + 1) * T // ranks)
        order = {t: sorted(range(E), key=lambda e, t=t: (-logits[t * E + e], e)) for t in mine}
        taken, kept = [0] * E, {t: [] for t in mine}
        for choice in range(2):
            for t in mine:
                expert = order[t][choice]
                if taken[expert] < C:
                    kept[t].append(expert)
                taken[expert] += 1
        for t in mine:
            row, total = [0.0] * H, sum(math.exp(z) for z in logits[t * E:(t + 1) * E])
            for e in kept[t]:
                inner = [max(0.0, z) for z in matmul(x[t * H:(t + 1) * H], w1[e * H * F:(e + 1) * H * F], 1, H, F)]
                for h, y in enumerate(matmul(inner, w2[e * F * H:(e + 1) * F * H], 1, F, H)):
                    row[h] += math.exp(logits[t * E + e]) / total * y
            out += row
    return [("f32", out)]


@program("examples/lang/ag_gemm.lk", slack=4, sizes=["tp=1,M=3,K=4,N=5", "tp=2,M=5,K=3,N=4", "tp=4,M=9,K=5,N=6"])
def ag_gemm(d, n):
    M, K, N = n["M"], n["K"], n["N"]
    b = d.input("b", "bf16", N)
    y = matmul(d.input("x", "bf16", M * K), d.input("w", "bf16", K * N), M, K, N)
    return [("bf16", [gelu(rounded("bf16", rounded("bf16", s) + b[i % N])) for i, s in enumerate(y)])]


@program("examples/lang/gemm_rs.lk", slack=8, sizes=["tp=1,M=3,K=4,N=5", "tp=2,M=5,K=3,N=4", "tp=4,M=9,K=6,N=3"])
def gemm_rs(d, n):
    M, K, N = n["M"], n["K"], n["N"]
    b, r = d.input("b", "bf16", N), d.input("r", "bf16", M * N)
    y = matmul(d.input("x", "bf16", M * K), d.input("w", "bf16", K * N), M, K, N)
    biased = [rounded("bf16", rounded("bf16", s) + b[i % N]) for i, s in enumerate(y)]
    return [("bf16", add(dropped(biased, 0.1, 5), r))]


@program("examples/lang/fsdp.lk", slack=8,
         sizes=["dp=1,B=3,I=4,H=5,O=2", "dp=2,B=4,I=3,H=5,O=3", "dp=3,B=7,I=4,H=6,O=5"])
def fsdp(d, n):
    B, I, H, O = n["B"], n["I"], n["H"], n["O"]
    x, target, lr = d.input("x", "f32", B * I), d.input("target", "f32", B * O), d.scalar("lr")
    w1, w2 = d.state("w1", "f32", I * H), d.state("w2", "f32", H * O)
    z = matmul(x, w1, B, I, H)
    h = [max(s, 0.0) for s in z]
    off = [a - b for a, b in zip(matmul(h, w2, B, H, O), target)]
    # Gradients by the chain rule, example by example.
    g1, g2 = [0.0] * (I * H), [0.0] * (H * O)
    for e in range(B):
        for o in range(O):
            for j in range(H):
                g2[j * O + o] += h[e * H + j] * off[e * O + o] / B
                if z[e * H + j] > 0:
                    for i in range(I):
                        g1[i * H + j] += x[e * I + i] * w2[j * O + o] * off[e * O + o] / B
    loss = sum(s * s for s in off) / (2 * B)
    return [("f32", [loss]), ("f32", [a - lr * b for a, b in zip(w1, g1)]), ("f32", [a - lr * b for a, b in zip(w2, g2)])]


@program("examples/lang/vocab_parallel.lk", slack=4,
         sizes=["tp=1,T=3,V=5,H=4", "tp=2,T=4,V=7,H=3", "tp=4,T=5,V=11,H=6"])
def vocab_parallel(d, n):
    T, V, H = n["T"], n["V"], n["H"]
    h, table, label = d.input("h", "f32", T * H), d.input("table", "f32", V * H), d.indices("label", T, V)
    logits = matmul(h, transposed(table, V, H), T, H, V)
    chance = [math.exp(logits[t * V + label[t]]) / sum(math.exp(z) for z in logits[t * V:(t + 1) * V]) for t in range(T)]
    return [("f32", [-sum(math.log(c) for c in chance) / T])]


def softmax(row):
    weights = [math.exp(x - max(row)) for x in row]
    return [x / sum(weights) for x in weights]


@program("examples/lang/ulysses.lk", slack=8, sizes=["sp=1,B=2,S=3,A=2,D=2", "sp=2,B=1,S=5,A=3,D=2", "sp=3,B=2,S=4,A=2,D=1"])
def ulysses(d, n):
    B, S, A, D = (n[x] for x in "BSAD")
    H = A * D
    x, out = d.input("x", "f32", B * S * H), []
    q, k, v = (matmul(x, d.input(name, "f32", H * H), B * S, H, H) for name in ("wq", "wk", "wv"))
    for b in range(B):
        for t in range(S):
            row = []
            for a in range(A):
                at = [(b * S + s) * H + a * D for s in range(S)]
                p = softmax([sum(q[at[t] + i] * k[at[s] + i] for i in range(D)) / math.sqrt(D) for s in range(t + 1)])
                row += [sum(p[s] * v[at[s] + i] for s in range(t + 1)) for i in range(D)]
            out += add(x[(b * S + t) * H:(b * S + t + 1) * H], matmul(row, d.input("wo", "f32", H * H), 1, H, H))
    return [("f32", out)]


def scaled(a, factor):
    return [factor * x for x in a]


@program("examples/lang/muon.lk", slack=60, sizes=["dp=1,M=2,N=3", "dp=2,M=3,N=5", "dp=3,M=2,N=7"])
def muon(d, n):
    M, N = n["M"], n["N"]
    g = [x / n["dp"] for x in summed(d.parts("g", "f32", M * N, n["dp"]), "f32")]
    mu, w = d.scalar("mu"), d.state("w", "f32", M * N)
    b = add(scaled(d.state("b", "f32", M * N), mu), g)
    u = add(g, scaled(b, mu))
    x = scaled(u, 1 / (norm(u) + 1e-7))
    for _ in range(5):
        a = matmul(x, transposed(x, M, N), M, N, M)
        p = add(scaled(matmul(a, a, M, M, M), 2.0315), scaled(a, -4.775))
        x = add(scaled(x, 3.4445), matmul(p, x, M, M, N))
    new = add(w, scaled(x, -d.scalar("lr")))
    return [("f32", new), ("f32", new), ("f32", b)]


def fourth_root_inverse(a, damp, size):
    """(a + damp |a| I)^(-1/4) but for a factor, and that factor."""
    one = [float(i == j) for i in range(size) for j in range(size)]
    z = (1 + damp) * norm(a)
    a, x = scaled(add(a, scaled(one, damp * norm(a))), 1 / z), one
    for _ in range(10):
        t = add(scaled(one, 1.25), scaled(a, -0.25))
        x, t2 = matmul(x, t, size, size, size), matmul(t, t, size, size, size)
        a = matmul(matmul(t2, t2, size, size, size), a, size, size, size)
    return x, z


@program("examples/lang/shampoo.lk", slack=40, sizes=["dp=1,M=2,N=3", "dp=2,M=3,N=2", "dp=3,M=4,N=3"])
def shampoo(d, n):
    M, N = n["M"], n["N"]
    g = [x / n["dp"] for x in summed(d.parts("g", "f32", M * N, n["dp"]), "f32")]
    l = add(d.state("l", "f32", M * M), matmul(g, transposed(g, M, N), M, N, M))
    r = add(d.state("r", "f32", N * N), matmul(transposed(g, M, N), g, N, M, N))
    (xl, zl), (xr, zr) = fourth_root_inverse(l, d.scalar("damp"), M), fourth_root_inverse(r, d.scalar("damp"), N)
    u = scaled(matmul(matmul(xl, g, M, M, N), xr, M, N, N), (zl * zr) ** -0.25)
    return [("f32", [norm(xl)]), ("f32", add(d.state("w", "f32", M * N), scaled(u, -d.scalar("lr")))), ("f32", l), ("f32", r)]


@program("examples/lang/interleaved.lk", slack=8, sizes=["pp=2,tp=1,B=2,H=3,F=4", "pp=2,tp=2,B=3,H=2,F=5"])
def interleaved(d, n):
    B, H, F, out = n["B"], n["H"], n["F"], []
    for name in ("x0", "x1"):
        x = d.input(name, "f32", B * H)
        for layer in "0123":
            inner = [max(0.0, z) for z in matmul(x, d.input("u" + layer, "f32", H * F), B, H, F)]
            x = matmul(inner, d.input("d" + layer, "f32", F * H), B, F, H)
        out.append(("f32", x))
    return out


@program("examples/lang/hsdp.lk", slack=40, sizes=["shard=1,rep=1,B=2,I=3,O=2", "shard=2,rep=2,B=5,I=3,O=4", "shard=1,rep=3,B=4,I=5,O=3"])
def hsdp(d, n):
    B, I, O = n["B"], n["I"], n["O"]
    x, dy, w = d.input("x", "bf16", B * I), d.input("dy", "bf16", B * O), d.state("w", "bf16", I * O)
    ranks, total = n["shard"] * n["rep"], None
    # Each rank's product is rounded to bf16, and so is each sum: first in the group, then between groups.
    def rows(rank):
        base, more = B // n["shard"], B % n["shard"]
        s, r = rank // n["rep"], rank % n["rep"]
        begin, count = s * base + min(s, more), base + (s < more)
        inner, rest = count // n["rep"], count % n["rep"]
        return range(begin + r * inner + min(r, rest), begin + (r + 1) * inner + min(r + 1, rest))
    part = [[rounded("bf16", sum(x[e * I + i] * dy[e * O + o] for e in rows(rank))) for i in range(I) for o in range(O)]
            for rank in range(ranks)]
    groups = [summed([part[s * n["rep"] + r] for s in range(n["shard"])], "bf16") for r in range(n["rep"])]
    total = summed(groups, "bf16")
    g = [s / B for s in total]
    m, v = moments(d, n, g, 0, I * O)
    master = [a - d.scalar("lr") * s for a, s in zip(d.state("master", "f32", I * O), direction(d, m, v))]
    return [("bf16", matmul(x, w, B, I, O)), ("bf16", [rounded("bf16", a) for a in master]), ("f32", master), ("f32", m), ("f32", v)]


@program("examples/lang/allreduce_int8.lk", slack=8, sizes=["node=1,gpu=1,K=2,C=3", "node=2,gpu=2,K=3,C=4", "node=3,gpu=2,K=2,C=6"])
def allreduce_int8(d, n):
    K, C, nodes, gpus = n["K"], n["C"], n["node"], n["gpu"]
    held = d.parts("g", "f32", K * C, nodes * gpus)
    own = [summed(held[node * gpus:(node + 1) * gpus], "f32") for node in range(nodes)]
    size, out = C // nodes, []

    def coded(piece):
        step = max(max(abs(x) for x in piece) / 127, 1e-12)
        return [round(x / step) * step for x in piece]
    for at in range(0, K * C, size):
        out += coded([sum(x) for x in zip(*[coded(own[node][at:at + size]) for node in range(nodes)])])
    return [("f32", out)]


@program("examples/lang/moe_dropless.lk", slack=8, sizes=["ep=1,T=4,H=3,E=3,F=2", "ep=2,T=3,H=2,E=2,F=3", "ep=3,T=2,H=3,E=1,F=2"])
def moe_dropless(d, n):
    T, H, E, F = n["T"] * n["ep"], n["H"], n["E"] * n["ep"], n["F"]
    x, router, out = d.input("x", "f32", T * H), d.input("router", "f32", H * E), []
    w1, w2 = d.input("w1", "f32", E * H * F), d.input("w2", "f32", E * F * H)
    for t in range(T):
        token = x[t * H:(t + 1) * H]
        p, row = softmax(matmul(token, router, 1, H, E)), [0.0] * H
        for e in sorted(range(E), key=lambda e: (-p[e], e))[:2]:
            inner = [max(0.0, z) for z in matmul(token, w1[e * H * F:(e + 1) * H * F], 1, H, F)]
            row = add(row, scaled(matmul(inner, w2[e * F * H:(e + 1) * F * H], 1, F, H), p[e]))
        out += row
    return [("f32", out)]


# The artifact's Adam, to the letter, and its LAMB.

def artifact_moments(d, n):
    g = summed(d.parts("g", "f32", n["N"], n["dp"]), "f32")
    b1, b2 = d.scalar("beta1"), d.scalar("beta2")
    m = [b1 * x + (1 - b1) * y for x, y in zip(d.state("m", "f32", n["N"]), g)]
    v = [b2 * x + (1 - b2) * y * y for x, y in zip(d.state("v", "f32", n["N"]), g)]
    return m, v, b1, b2


@program("tests/lang/conformance/adam.lk", slack=8, sizes=ONE_AXIS)
def adam(d, n):
    m, v, b1, b2 = artifact_moments(d, n)
    w = [x - (a / b1) / (b / b2) for x, a, b in zip(d.state("w", "f32", n["N"]), m, v)]
    return [("f32", w), ("f32", w), ("f32", m), ("f32", v)]


@program("tests/lang/conformance/lamb.lk", slack=16, sizes=ONE_AXIS)
def lamb(d, n):
    m, v, b1, b2 = artifact_moments(d, n)
    w, lr, decay = d.state("w", "f32", n["N"]), d.scalar("lr"), d.scalar("lambda")
    r = [a / (1 - b1) / math.sqrt(b / (1 - b2)) + decay * x for a, b, x in zip(m, v, w)]
    new = [x - lr * norm(w) / norm(r) * y for x, y in zip(w, r)]
    return [("f32", new), ("f32", new), ("f32", m), ("f32", v)]


# ---- comparing ----

def read_sizes(text):
    found = {}
    for pair in text.split(","):
        name, value = pair.split("=")
        found[name] = [int(x) for x in value.split(":")] if ":" in value or "." in name else int(value)
    return found


def lockstep(executable, *words):
    ran = subprocess.run([executable, "compile", *words], capture_output=True, text=True, cwd=ROOT, timeout=300)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}")
    return ran.stdout


def schedules(executable, path, name):
    for found in json.loads(lockstep(executable, "check", "-o", "json", path))["programs"]:
        if found["name"] == name:
            return ["plain"] + [s["name"] for s in found["schedules"]]
    raise RuntimeError(f"{path} has no program {name}")


def worst_difference(want, got, form):
    """In units of the format's roundoff, of the largest element of the tensor."""
    if len(want) != len(got):
        raise RuntimeError(f"{len(got)} elements, where there should be {len(want)}")
    scale = max(max((abs(x) for x in want), default=0), 2.0**-14)
    unit = scale * ROUNDOFF[form] if form != "bool" else 2.0**-60
    return max((abs(x - y) / unit if y is not None else math.inf for x, y in zip(want, got)), default=0)


def compare(executable, path, name, schedule, sizes, function):
    """The largest difference over all results."""
    words = [path, "--program", name, "--schedule", schedule, "--sizes", sizes, "--seed", str(SEED), "--all", "-o", "json"]
    answer = json.loads(lockstep(executable, "run", *words))
    expected = function(Draws(SEED), read_sizes(sizes))
    # By result: of a list, its tensors one after the other.
    tensors = [(tensor, result["name"]) for result in answer["results"] for tensor in result["values"]]
    if len(tensors) != len(expected):
        raise RuntimeError(f"{len(tensors)} tensors, where there should be {len(expected)}")
    return max(worst_difference(want, got, form) for (form, want), (got, _) in zip(expected, tensors))


def main():
    executable, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:]
    passed = failed = skipped = 0
    for key, (function, slack, meshes) in PROGRAMS.items():
        path, name = key.split(":")
        if chosen and name not in chosen:
            continue
        worst = 0
        try:
            names = schedules(executable, path, name)
        except RuntimeError as error:
            print(f"{path} {name}: {error}")
            failed += 1
            continue
        for schedule, sizes in itertools.product(names, meshes):
            what = f"{path} {name}, schedule {schedule}, {sizes}"
            try:
                difference = compare(executable, path, name, schedule, sizes, function)
            except RuntimeError as error:
                no_groups = "do not make groups" in str(error)  # a hierarchical schedule on a mesh without groups
                print(f"{what}: {'skipped: ' if no_groups else ''}{error}")
                skipped += no_groups
                failed += not no_groups
                continue
            worst = max(worst, difference)
            failed += difference > slack
            passed += difference <= slack
            if difference > slack:
                print(f"{what}: differs by {difference:.4g} roundings, where {slack} may add up")
        print(f"{path} {name}: at most {worst:.3g} roundings apart, {slack} allowed")
    print(f"lang-oracle: {passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
