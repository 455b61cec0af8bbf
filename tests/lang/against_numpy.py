#!/usr/bin/env python3
"""What the programs of against_numpy.lk mean, in NumPy: on whole tensors, in double precision, gradients written down by hand.

    tests/lang/against_numpy.py DUMP...

Each DUMP is a folder that an emitted program filled, NAME.RANKS, with its sizes in the file `sizes`. What each rank
holds must be its slice of the whole, within 1e-5 of the largest element; whole numbers must be equal. A line for each folder:
pass, or FAIL and where; at the end the largest difference.
"""
import math
import os
import struct
import sys

import numpy as np

from oracle import Draws, read_sizes

SEED = 11
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


class Case:
    """Sizes as attributes; inputs and states by name and shape; L: of each rank its own, P: the sum of what ranks draw."""

    def __init__(self, sizes, schedule):
        self.sizes, self.schedule, self.draws = sizes, schedule, Draws(SEED)

    def __getattr__(self, name):
        return self.sizes[name]

    def x(self, name, *shape, rank=0):
        return np.array(self.draws.input(name, "f32", math.prod(shape), rank=rank)).reshape(shape)

    def state(self, name, *shape):
        return np.array(self.draws.state(name, "f32", math.prod(shape))).reshape(shape)

    def i(self, name, *shape, below=8, rank=0):
        return np.array([self.draws.word(name, i, rank, 0) % below for i in range(math.prod(shape))]).reshape(shape)


def softmax(x, d):
    e = np.exp(x - x.max(d, keepdims=True))
    return e / e.sum(d, keepdims=True)


def largest(x, k):
    return np.argsort(-x, axis=-1, kind="stable")[..., :k]


def added(i, x, n, d):
    """x[.., j, ..] at place i[.., j, ..] along d."""
    out = np.zeros(x.shape[:d] + (n,) + x.shape[d + 1:])
    for at, value in np.ndenumerate(x):
        out[at[:d] + (i[at],) + at[d + 1:]] += value
    return out


# ---- layouts: what a rank of the mesh `at` = (place, ranks) per axis holds of a whole ----

def R(x):
    return lambda at: x


def S(x, *dims):
    """Over axis a sliced along dims[a], or not where that is None."""
    def part(at):
        y = np.asarray(x)
        for (place, ranks), d in zip(at, dims):
            if d is not None:
                y = np.array_split(y, ranks, axis=d)[place]
        return y
    return part


def L(parts):
    return lambda at: parts[at[0][0]]


# ---- the programs ----

@program
def heads(c):
    q, k, v = (c.x(n, c.B, c.S, 8, 4).transpose(0, 2, 1, 3) for n in "qkv")
    s = np.where(np.tril(np.ones((c.S, c.S))) > 0, q @ k.transpose(0, 1, 3, 2) / 2, -1000)
    return [S((softmax(s, 3) @ v).transpose(0, 2, 1, 3).reshape(c.B, c.S, 32), 2)]


@program
def rotary(c):
    x = c.x("x", c.B, c.S, 2 * c.H)
    angle = np.arange(c.S)[:, None] * 2.0**-np.arange(c.H)
    turned = (x[..., :c.H] + 1j * x[..., c.H:]) * np.exp(1j * angle)
    return [S(np.concatenate([turned.real, turned.imag], 2), 0)]


@program
def router(c):
    l = c.x("x", c.T, c.H) @ c.x("w", c.H, 6)
    k = largest(l, 2)
    p = softmax(np.take_along_axis(l, k, 1), 1)
    return [S(k, 0), S(p, 0), S(added(k, p, 6, 1), 0), R(np.bincount(k.ravel(), minlength=6))]


@program
def dispatch(c):
    x, e = c.x("x", c.T, c.H), c.i("e", c.T)
    place = np.array([np.count_nonzero(e[:t] == e[t]) for t in range(c.T)])
    rows, back = np.zeros((16, c.H)), x.copy()
    for t in np.flatnonzero(place < 2):
        rows[e[t] * 2 + place[t]] += x[t]
        back[t] = 2 * x[t]
    return [S(rows, 1), S(back, 1), R(place)]


@program
def exchange(c):
    ranks = range(c.ep)
    x = [c.x("x", c.ep, c.C, c.H, rank=r + 1) for r in ranks]
    n = [c.i("n", c.ep, rank=r + 1) for r in ranks]

    def moved(less):
        to = np.zeros((c.ep, c.ep, c.C, c.H))
        for r in ranks:
            for p in ranks:
                count = min(max(n[r][p] - less, 0), c.C)
                to[p, r, :count] = x[r][p, :count]
        return to
    return [L(moved(0)), L(moved(3))]


@program
def embedding(c):
    i, y, w = c.i("i", c.T, below=c.V), c.x("y", c.T, c.H), c.state("w", c.V, c.H)
    e = w[i] - y
    g = np.zeros_like(w)
    np.add.at(g, i, 2 * e)
    return [R((e * e).sum()), R(w - 0.1 * g)]


@program
def regression(c):
    x, y, w = c.x("x", c.T, c.H), c.x("y", c.T, 1), c.state("w", c.H, 1)
    g = 2 * x.T @ (x @ w - y)
    n = np.linalg.norm(g)
    return [R(n), R(w - 0.05 * g / max(n, 1))]


@program
def perceptron(c):
    x, y, u, v = c.x("x", c.T, c.H), c.x("y", c.T, c.H), c.state("u", c.H, c.F), c.state("v", c.F, c.H)
    z = x @ u
    phi = np.vectorize(lambda t: (1 + math.erf(t / math.sqrt(2))) / 2)(z)
    o = (z * phi) @ v
    d = 2 * (o - y) / o.size
    dz = d @ v.T * (phi + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi))
    return [R(((o - y)**2).mean()), S(u - x.T @ dz, 1), S(v - (z * phi).T @ d, 0)]


@program
def layernorm(c):
    x, t, a, b = c.x("x", c.T, c.H), c.x("t", c.T, c.H), c.x("a", c.H), c.x("b", c.H)
    e = x - x.mean(1, keepdims=True)
    s = np.sqrt((e * e).mean(1, keepdims=True) + 0.01)
    n = e / s
    y = n * a + b
    dy = t * (1 - np.tanh(y)**2)
    dn = dy * a
    dx = (dn - dn.mean(1, keepdims=True) - n * (dn * n).mean(1, keepdims=True)) / s
    return [S(y, 0), S(dx, 0), R((dy * n).sum(0)), R(dy.sum(0))]


@program
def entropy(c):
    l, t = c.x("l", c.T, c.V), c.i("t", c.T)
    p, hit = softmax(l, 1), np.arange(c.V) == t[:, None]
    return [R(-np.log(p[hit]).mean()), S((p - hit) / c.T, 1)]


@program
def histogram(c):
    i, x = c.i("i", c.N), c.x("x", c.N)
    h, n = np.bincount(i, x, 8), np.bincount(i, minlength=8)
    return [R(h[:, None]), R(n), R(np.cumsum(n)), R(np.cumsum(h[::-1])[::-1][:, None]), R(np.argmax(n))]


@program
def windows(c):
    x, w = c.x("x", c.B, c.N), c.x("w", 3)
    mean = np.array([[r[max(0, j - 2):j + 1].sum() / 3 for j in range(c.N)] for r in x])
    return [S(mean, 0), S(np.array([np.convolve(r, w[::-1], "same") for r in x]), 0)]


@program
def neighbours(c):
    x, y = c.x("x", c.N, c.D), c.x("y", c.M, c.D)
    d = ((x[:, None] - y)**2).sum(2)
    k = largest(-d, 3)
    near = [S(f, 0) for f in (d.argmin(1), d.argmax(1), k, np.take_along_axis(d, k, 1))]
    return near + [S(y[k].mean(1), 0)]


@program
def shapes(c):
    x, y = c.x("x", c.A, c.B, 2 * c.C), c.x("y", c.A, c.B, c.C)
    return [S(f, 0) for f in (
        x.reshape(c.A, -1), x.reshape(c.A, c.B * 2, c.C).transpose(0, 2, 1), np.concatenate([x, y], 2),
        np.concatenate([y.transpose(0, 2, 1), x[..., :c.C].reshape(c.A, c.C, c.B)], 1),
        np.pad(y, ((0, 0), (0, 0), (1, 2))), np.repeat(y[:, None], 2, 1) * np.arange(c.C), x[..., 1:1 + c.C].reshape(c.A, c.C, c.B))]


@program
def differences(c):
    x = np.concatenate([c.x("x", c.N, rank=r + 1) for r in range(c.cp)])
    return [S(np.roll(x, 1) - 2 * x + np.roll(x, -1), 0)]


@program
def turned(c):
    x = c.x("x", c.S, c.H)
    return [S(np.cumsum(x, 0), 0), S(np.cumsum(x[::-1], 0)[::-1], 1)]


@program
def products(c):
    x, w, y = c.x("x", c.M, c.K), c.x("w", c.K, c.N), c.x("y", c.M, c.N)
    d = 2 * (x @ w - y)
    return [S(x @ w, 0, 1), S(x.T @ d, None, 0), S(d @ w.T, 0, 1)]


@program
def quantised(c):
    x = c.x("x", c.dp, c.N)
    s = abs(x).max() / 127
    return [R(np.rint(x / s).sum(0) * s)]


@program
def factored(c):
    g = sum(c.x("g", c.R, c.C, rank=r + 1) for r in range(c.dp)) / c.dp
    r, k, w = c.state("r", c.R), c.state("c", c.C), c.state("w", c.R, c.C)
    r, k = 0.9 * r + 0.1 * (g * g).mean(1), 0.9 * k + 0.1 * (g * g).mean(0)
    u = g / np.sqrt(np.outer(r, k) / r.mean())
    return [R(r), R(k), R(w - 0.1 * u / max(1, np.sqrt((u * u).mean())))]


@program
def selected(c):
    x, w = c.x("x", c.T, c.E), c.x("w", c.T, c.E + 2)
    k = largest(x, 3)
    top = np.zeros_like(x)
    np.put_along_axis(top, k, np.take_along_axis(x, k, 1), 1)
    sums = np.cumsum(np.pad(x, ((0, 0), (2, 0))), 1)
    often = 1 + np.isin(np.arange(c.E), [2, 3, 4])
    return [R((top**2).sum() + (sums * w).sum()), S(2 * top + np.cumsum(w[:, ::-1], 1)[:, ::-1][:, 2:], 0), S(2 * x * often, 0)]


@program
def clipped(c):
    x, y = c.x("x", c.N), c.x("y", c.N)
    far, low = abs(x) > 0.5, np.maximum(x, -0.75)
    z = np.where(far, np.minimum(low, y), 2**x * np.rint(4 * y) / 4)
    dx = np.where(far, (low <= y) & (x >= -0.75), math.log(2) * 2**x * np.rint(4 * y) / 4)
    return [S(z, 0), R(z.max() - z.min()), S(1.0 * (far & (y < low)), 0), S(dx, 0)]


@program
def sampled(c):
    l, u = c.x("l", c.T, c.V), c.x("u", c.T, 1)
    p = softmax(3 * l, 1)
    k = np.minimum((np.cumsum(p, 1) < abs(u)).sum(1, keepdims=True), c.V - 1)
    chosen = np.take_along_axis(p, k, 1)
    return [S(k, 0), S(chosen, 0), S(added(k, np.log(chosen), c.V, 1), 0)]


@program
def momentum(c):
    g = sum(c.x("g", c.N, rank=r + 1) for r in range(c.dp)) / c.dp
    m = 0.9 * c.state("m", c.N) + g
    return [R(c.state("w", c.N) - 0.1 * m), S(m, 0) if c.schedule == "sharded" else R(m)]


@program
def lora(c):
    x, t, w = c.x("x", c.B, c.I), c.x("t", c.B, c.O), c.x("w", c.I, c.O)
    a, b = c.state("a", c.I, c.K), c.state("b", c.K, c.O)
    e = x @ w + 0.5 * x @ a @ b - t
    ga, gb = x.T @ e @ b.T, a.T @ x.T @ e
    n = np.sqrt((ga * ga).sum() + (gb * gb).sum())
    step = 0.1 * min(1, 2 / n)
    return [R((e * e).sum()), R(n), R(a - step * ga), R(b - step * gb)]


@program
def norm_sequence(c):
    x, dy, g, k = c.x("x", c.B, c.S, c.H), c.x("dy", c.B, c.S, c.H), c.state("g", c.H), c.state("c", c.H)
    inner = lambda a, b: (a * b).mean(2, keepdims=True)
    sigma = np.sqrt(x.var(2, keepdims=True) + 0.01)
    z = (x - x.mean(2, keepdims=True)) / sigma
    dx = (dy * g - inner(dy, g) - z * inner(dy * g, z)) / sigma
    dg, dc = np.einsum("bsh,bsh->h", dy, z), np.einsum("bsh->h", dy)
    return [S(dx, 1), S(dx, 1), R(dg), R(g - 0.1 * dg), R(k - 0.1 * dc)]


@program
def expert_choice(c):
    x, wr = c.x("x", c.T, c.H), c.x("wr", c.H, c.E)
    w1, w2 = c.x("w1", c.E, c.H, c.F), c.x("w2", c.E, c.F, c.H)
    p = softmax(x @ wr, 1).T
    i, o = largest(p, 3), np.zeros((c.T, c.H))
    for e in range(c.E):
        for t in i[e]:
            o[t] += p[e, t] * np.tanh(x[t] @ w1[e]) @ w2[e]
    return [S(o, 0), S(i, 0)]


@program
def feedback(c):
    v = [c.x("g", c.K, c.C, rank=r + 1) + np.array(c.draws.state("e", "f32", c.K * c.C, rank=r + 1)).reshape(c.K, c.C) for r in range(c.dp)]
    s = [abs(x).max(1, keepdims=True) / 7 for x in v]
    q = [np.rint(x / y) for x, y in zip(v, s)]
    w = c.state("w", c.K, c.C) - 0.1 * sum(a * b for a, b in zip(q, s)) / c.dp
    return [R(np.concatenate(q).astype(int)), L([x - a * b for x, a, b in zip(v, q, s)]), R(w)]


@program
def averaged(c):
    w = c.state("w", c.N) - 0.1 * sum(c.x("g", c.N, rank=r + 1) for r in range(c.dp)) / c.dp
    a = 0.9 * c.state("a", c.N) + 0.1 * w
    kept = (lambda x: S(x, 0)) if c.schedule == "zero" else R
    return [R(a / (1 - 0.9 ** 3)), kept(w), kept(a)]


# ---- comparing ----

def read_dump(path):
    """Tensors of one rank, one after the other: a count and that many doubles."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        count, = struct.unpack_from("<q", data, at)
        yield np.frombuffer(data, "<f8", count, at + 8)
        at += 8 + 8 * count


def compare(folder):
    """The largest difference of any schedule, in parts of the largest element; a text says what differs by more."""
    name, ranks = os.path.basename(os.path.normpath(folder)).split(".")[:2]
    with open(os.path.join(folder, "sizes"), encoding="ascii") as file:
        sizes = read_sizes(file.read().strip())
    schedules = sorted(f[:-2] for f in os.listdir(folder) if f.endswith(".0"))
    if not schedules:
        return "nothing was dumped"
    worst = 0
    for schedule in schedules:
        found = compare_schedule(folder, name, int(ranks), sizes, schedule)
        if isinstance(found, str):
            return found
        worst = max(worst, found)
    return worst


def compare_schedule(folder, name, ranks, sizes, schedule):
    worst = 0
    axes = list(sizes.values())[:2 if "tp" in sizes and "dp" in sizes else 1]
    wholes = PROGRAMS[name](Case(sizes, schedule))
    for rank in range(ranks):
        at = [(int(p), n) for p, n in zip(np.unravel_index(rank, axes), axes)]
        got = list(read_dump(os.path.join(folder, f"{schedule}.{rank}")))
        if len(got) != len(wholes):
            return f"{schedule}: {len(got)} results, where there should be {len(wholes)}"
        for number, (whole, have) in enumerate(zip(wholes, got)):
            want = np.asarray(whole(at))
            exact, want = want.dtype.kind in "biu", np.ravel(want).astype(float)
            if want.shape != have.shape:
                return f"{schedule}, result {number} on rank {rank}: {have.size} elements, where there should be {want.size}"
            apart = abs(want - have).max(initial=0) / max(abs(want).max(initial=0), 1e-3)
            if not apart <= (0 if exact else 1e-5):
                return f"{schedule}, result {number} on rank {rank}: {apart:.3g} of the largest element apart"
            worst = max(worst, apart)
    return worst


def main():
    worst, failed = 0, False
    for folder in sys.argv[1:]:
        found = compare(folder)
        if isinstance(found, str):
            failed = True
            print(f"FAIL {os.path.basename(os.path.normpath(folder))} against NumPy, {found}")
        else:
            worst = max(worst, found)
            print("pass")
    print(f"against NumPy: at most {worst:.2g} of the largest element apart")
    return failed


if __name__ == "__main__":
    sys.exit(main())
