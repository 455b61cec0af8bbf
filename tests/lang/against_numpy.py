#!/usr/bin/env python3
"""What the programs of against_numpy.lk, against_numpy_steps.lk and against_numpy_words.lk mean, in NumPy: on whole tensors, in double precision, gradients
written down by hand or, where `slope` is called, by central differences.

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

from oracle import Draws, keeps, read_sizes, rounded

SEED = 11
PROGRAMS = {}


def program(function):
    assert function.__name__ not in PROGRAMS, f"two programs {function.__name__}"
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

    def state(self, name, *shape, rank=0):
        return np.array(self.draws.state(name, "f32", math.prod(shape), rank=rank)).reshape(shape)

    def scalar(self, name):
        return self.draws.scalar(name)

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


def slope(f, x, step=1e-5):
    """The gradient of the number f(x), by central differences."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        y = x.copy()
        y[i] += step
        up = f(y)
        y[i] -= 2 * step
        g[i] = (up - f(y)) / (2 * step)
    return g


def logsumexp(x, d):
    m = x.max(d, keepdims=True)
    return m + np.log(np.exp(x - m).sum(d, keepdims=True))


def orthonormal(z):
    """Gram and Schmidt: QR with a positive diagonal of R."""
    q, r = np.linalg.qr(z)
    return q * np.sign(np.diag(r))


def heads_of(x, w, n):
    y = x @ w
    return y.reshape(*y.shape[:2], n, -1).transpose(0, 2, 1, 3)


def merged(o):
    return o.transpose(0, 2, 1, 3).reshape(o.shape[0], o.shape[2], -1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


bf16 = np.vectorize(lambda x: rounded("bf16", x))


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


def at_group(place, part):
    """On one group of ranks along the first axis; the others hold nothing."""
    return lambda at: part(at) if at[0][0] == place else np.zeros(0)


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


# ---- steps of training: against_numpy_steps.lk ----

@program
def window_alibi(c):
    x, heads = c.x("x", c.B, c.S, c.H), c.K * c.G
    q = heads_of(x, c.x("wq", c.H, heads * c.D), heads)
    k, v = (np.repeat(heads_of(x, c.x(n, c.H, c.K * c.D), c.K), c.G, 1) for n in ("wk", "wv"))
    far = np.arange(c.S)[:, None] - np.arange(c.S)
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(c.D) - 2.0**-(1 + np.arange(heads))[:, None, None] * far
    s = np.where((far >= 0) & (far < 3), s, -10000)
    return [R(merged(softmax(s, 3) @ v) @ c.x("wo", heads * c.D, c.H))]


@program
def latent(c):
    x, wq, uk, uv, wo = c.x("x", c.B, c.S, c.H), c.state("wq", c.H, c.A * c.D), c.state("uk", c.R, c.A * c.D), c.state("uv", c.R, c.A * c.D), c.state("wo", c.A * c.D, c.H)

    def loss(down):
        z = x @ down
        z = z / np.sqrt((z * z).mean(2, keepdims=True) + 0.001)
        q, k, v = heads_of(x, wq, c.A), heads_of(z, uk, c.A), heads_of(z, uv, c.A)
        s = np.where(np.tril(np.ones((c.S, c.S))) > 0, q @ k.transpose(0, 1, 3, 2) / np.sqrt(c.D), -10000)
        return ((merged(softmax(s, 3) @ v) @ wo - x)**2).mean()
    down = c.state("down", c.H, c.R)
    g = slope(loss, down)
    return [R(loss(down)), R(g), R(down - c.scalar("lr") * g), S(wq, 1), S(uk, 1), S(uv, 1), S(wo, 0)]


@program
def scan(c):
    x, dt, b, k, a = c.x("x", c.B, c.S, c.D), c.x("dt", c.B, c.S, c.D), c.x("b", c.B, c.S, c.N), c.x("c", c.B, c.S, c.N), c.state("a", c.D, c.N)

    def y(dt, a):
        step, h, out = np.log(1 + np.exp(dt)), np.zeros((c.B, c.D, c.N)), []
        for s in range(c.S):
            h = h * np.exp(-step[:, s, :, None] * a) + (step[:, s] * x[:, s])[..., None] * b[:, s, None] if s else \
                (step[:, s] * x[:, s])[..., None] * b[:, s, None]
            out.append((h * k[:, s, None]).sum(2))
        return np.stack(out, 1)
    ga = slope(lambda a: (y(dt, a)**2).sum(), a)
    return [S(y(dt, a), 0), S(slope(lambda dt: (y(dt, a)**2).sum(), dt), 0), R(ga), R(a - 0.01 * ga)]


@program
def dropless(c):
    t, e = c.T * c.ep, c.E * c.ep
    x, router = c.x("x", t, c.H), c.x("router", c.H, e)
    w1, w2 = c.state("w1", e, c.H, c.F), c.state("w2", e, c.F, c.H)
    best = largest(softmax(x @ router, 1), 2)

    def o(x, router, w1, w2):
        p = softmax(x @ router, 1)
        return np.stack([sum(p[i, k] * np.tanh(x[i] @ w1[k]) @ w2[k] for k in best[i]) for i in range(t)])

    def loss(x, router, w1, w2):
        return ((o(x, router, w1, w2) - x)**2).sum()
    return [S(o(x, router, w1, w2), 0), R(slope(lambda r: loss(x, r, w1, w2), router)), S(slope(lambda y: loss(y, router, w1, w2), x), 0),
            S(w1 - 0.1 * slope(lambda w: loss(x, router, w, w2), w1), 0), S(w2 - 0.1 * slope(lambda w: loss(x, router, w1, w), w2), 0)]


@program
def clip(c):
    image, text, w = c.x("image", c.B, c.I), c.x("text", c.B, c.J), [c.state("wi", c.I, c.D), c.state("wt", c.J, c.D), c.state("scale", 1)]

    def loss(wi, wt, scale):
        i, t = image @ wi, text @ wt
        z = np.exp(scale) * (i / np.linalg.norm(i, axis=1, keepdims=True)) @ (t / np.linalg.norm(t, axis=1, keepdims=True)).T
        return (logsumexp(z, 1) + logsumexp(z.T, 1)).sum() / (2 * c.B) - np.trace(z) / c.B
    grads = [slope(lambda y: loss(*w[:k], y, *w[k + 1:]), w[k]) for k in range(3)]
    return [R(x) for x in [loss(*w), *grads, *w]]


@program
def dpo(c):
    hidden, w, ref = [c.x(n, c.B, c.S, c.H) for n in ("hw", "hl")], c.state("w", c.H, c.V), c.x("ref", c.H, c.V)
    labels = [c.i(n, c.B, c.S) % c.V for n in ("yw", "yl")]

    def gains(w):
        both = []
        for h, y in zip(hidden, labels):
            d = h @ w - logsumexp(h @ w, 2) - (h @ ref - logsumexp(h @ ref, 2))
            both.append(np.take_along_axis(d, y[..., None], 2).sum((1, 2)))
        return both

    def loss(w):
        up, down = gains(w)
        return np.log(1 + np.exp(c.scalar("beta") * (down - up))).sum() / c.B
    up, down = gains(w)
    return [R(loss(w)), R((up > down).sum()), R(w - 0.1 * slope(loss, w))]


@program
def smoothing(c):
    h, y, w = c.x("h", c.T, c.H), c.i("y", c.T), c.state("w", c.V, c.H)

    def loss(h, w):
        z = h @ w.T
        q = np.where(np.arange(c.V) == y[:, None], 0.9, 0) + 0.1 / c.V
        return (q * (logsumexp(z, 1) - z)).sum() / c.T
    return [R(loss(h, w)), R(slope(lambda x: loss(x, w), h)), S(w - 0.1 * slope(lambda x: loss(h, x), w), 0)]


@program
def row_embedding(c):
    ids, dy, table, place = c.i("ids", c.B, c.S, below=c.V), c.x("dy", c.B, c.S, c.H), c.state("table", c.V, c.H), c.state("place", c.S, c.H)
    g = np.zeros_like(table)
    np.add.at(g, ids, 2 * dy)
    return [S(2 * table[ids] + place, 0), S(g, None, 0), S(table - 0.1 * g, None, 0), R(place - 0.1 * dy.sum(0))]


@program
def topk_sampling(c):
    z = c.x("h", c.T, c.H) @ c.x("w", c.V, c.H).T
    k = largest(z, 4)
    top = np.take_along_axis(z, k, 1)
    gumbel = -np.log(-np.log(abs(c.x("u", c.T, 4)) * 0.99 + 0.005))
    return [R(np.take_along_axis(k, (top + gumbel).argmax(1)[:, None], 1)), R(k), R(softmax(top, 1))]


@program
def beam(c):
    score, logit, past = c.x("score", c.B, c.K), c.x("logit", c.B, c.K, c.V), c.i("past", c.B, c.K, c.S)
    flat = (logit - logsumexp(logit, 2) + score[..., None]).reshape(c.B, -1)
    k = largest(flat, 3)
    rows = np.take_along_axis(past, (k // c.V)[..., None], 1)
    return [S(np.concatenate([rows, (k % c.V)[..., None]], 2), 0), S(np.take_along_axis(flat, k, 1), 0), S(k // c.V, 0)]


@program
def kmeans(c):
    x, k = c.x("x", c.N, c.D), c.state("c", c.K, c.D)
    d = ((x[:, None] - k)**2).sum(2)
    near = d.argmin(1)
    n = np.bincount(near, minlength=c.K)
    means = [x[near == j].mean(0) if n[j] else k[j] for j in range(c.K)]
    return [S(near, 0), R(1.0 * n), R(d.min(1).sum()), R(np.stack(means))]


@program
def powersgd(c):
    d = [c.x("g", c.M, c.N, rank=r + 1) + np.array(c.draws.state("e", "f32", c.M * c.N, rank=r + 1)).reshape(c.M, c.N) for r in range(c.dp)]
    u = orthonormal(sum(d) @ c.state("q", c.N, 2))
    q = sum(x.T @ u for x in d) / c.dp
    low = u @ q.T
    return [R(low), L([x - low for x in d]), R(q), R(c.state("w", c.M, c.N) - 0.1 * low)]


@program
def majority(c):
    m = [0.9 * np.array(c.draws.state("m", "f32", c.N, rank=r + 1)) + 0.1 * c.x("g", c.N, rank=r + 1) for r in range(c.dp)]
    count = sum(np.where(x >= 0, 1, -1) for x in m)
    return [R(count), L(m), R(c.state("w", c.N) - 0.01 * np.sign(count))]


@program
def diloco(c):
    x, y, w, v = c.x("x", c.T, c.H), c.x("y", c.T, 1), c.state("w", c.H, 1), c.state("v", c.H, 1)
    delta = 0
    for a, b in zip(np.array_split(x, c.dp), np.array_split(y, c.dp)):
        own = w
        for _ in range(3):
            own = own - 0.05 * 2 * a.T @ (a @ own - b) / len(a)
        delta = delta + (w - own) / c.dp
    v = c.scalar("mu") * v + delta
    w = w - c.scalar("lr") * (delta + c.scalar("mu") * v)
    return [R(w), R(w), R(v)]


@program
def lion(c):
    a = sum(c.x("g", c.M, c.N, rank=r + 1) for r in range(c.dp)) / c.dp
    w, m = c.state("w", c.M, c.N), c.state("m", c.M, c.N)
    w = w - c.scalar("lr") * (np.sign(0.9 * m + 0.1 * a) + c.scalar("wd") * w)
    return [R(w), R(w), (S(0.99 * m + 0.01 * a, 0) if c.schedule == "zero" else R(0.99 * m + 0.01 * a))]


@program
def soap(c):
    g = sum(c.x("g", 3, c.N, rank=r + 1) for r in range(c.dp)) / c.dp
    l = 0.9 * c.state("l", 3, 3) + 0.1 * g @ g.T
    q = orthonormal((l + np.eye(3)) @ (c.state("q", 3, 3) - 0.5)) # damped: l alone is nearly singular
    m = 0.9 * c.state("m", 3, c.N) + 0.1 * g
    v = 0.9 * c.state("v", 3, c.N) + 0.1 * (q.T @ g)**2
    w = c.state("w", 3, c.N) - 0.1 * q @ (q.T @ m / (np.sqrt(v) + 0.001))
    return [R(q), S(w, 0), R(l), R(q), S(m, 1), S(v, 1)]


@program
def accumulation(c):
    x, y, w, b = c.x("x", 3, c.B, c.I), c.x("y", 3, c.B, c.O), c.state("w", c.I, c.O), c.state("b", c.O)

    def loss(w, b):
        return ((np.tanh(x @ w + b) - y)**2).sum() / (3 * c.B)
    return [R(loss(w, b)), R(w - 0.1 * slope(lambda v: loss(v, b), w)), R(b - 0.1 * slope(lambda v: loss(w, v), b))]


@program
def advantages(c):
    r, v, old, new = c.x("r", c.B, c.S), c.x("v", c.B, c.S + 1), c.x("old", c.B, c.S), c.x("new", c.B, c.S)
    gamma, lam = c.scalar("gamma"), c.scalar("lam")
    a, last = np.zeros((c.B, c.S)), 0
    for s in reversed(range(c.S)):
        last = a[:, s] = r[:, s] + gamma * v[:, s + 1] - v[:, s] + gamma * lam * last
    n = (a - a.mean()) / (a.std() + 0.001)

    def loss(new):
        ratio = np.exp(new - old)
        return -np.minimum(ratio * n, np.clip(ratio, 0.8, 1.2) * n).mean()
    return [S(a, 0), R(loss(new)), S(slope(loss, new), 0)]


@program
def product_25d(c):
    a, b = c.x("a", c.M, c.K), c.x("b", c.K, c.N)
    return [S(a @ b, 0, 1)]


@program
def handover(c):
    x, w = c.x("x", 2, c.B, c.H), [c.x(f"w{i}", c.H, c.H) for i in range(4)]
    for v in w:
        x = np.tanh(x @ v)
    return [at_group(1, S(x, None, 1))]


@program
def halo(c):
    x, k = c.x("x", c.B, c.W, c.C), c.x("k", 3 * c.C, c.O)

    def y(x, k):
        return np.concatenate([np.roll(x, 1, 1), x, np.roll(x, -1, 1)], 2) @ k
    return [S(y(x, k), 1), S(slope(lambda x: np.sin(y(x, k)).sum(), x), 1), R(slope(lambda k: np.sin(y(x, k)).sum(), k))]


@program
def fsdp_layers(c):
    x, y, w = c.x("x", c.B, c.H), c.x("y", c.B, c.H), [c.state(f"w{i}", c.H, c.H) for i in range(3)]

    def loss(*w):
        h = x
        for v in w:
            h = h + np.maximum(h @ v, 0)
        return ((h - y)**2).sum() / c.B
    return [R(loss(*w))] + [S(w[k] - 0.1 * slope(lambda v: loss(*w[:k], v, *w[k + 1:]), w[k]), 0) for k in range(3)]


@program
def batch_norm(c):
    x, t, a, b = c.x("x", c.N, c.C), c.x("t", c.N, c.C), c.x("a", c.C), c.x("b", c.C)

    def y(x, a):
        return (x - x.mean(0)) / np.sqrt(x.var(0) + 0.01) * a + b
    return [S(y(x, a), 0), S(slope(lambda x: (y(x, a) * t).sum(), x), 0), R(slope(lambda a: (y(x, a) * t).sum(), a)),
            R(0.9 * c.state("mean_", c.C) + 0.1 * x.mean(0))]


@program
def linear_attention(c):
    q, k, v = (c.x(n, c.B, c.S, c.D) for n in "qkv")
    fq, fk = (np.where(x > 0, x + 1, np.exp(x)) for x in (q, k))
    return [S(np.where(np.tril(np.ones((c.S, c.S))) > 0, fq @ fk.transpose(0, 2, 1), 0) @ v, 1)]


@program
def topk_compress(c):
    sent, e = 0, []
    for r in range(c.dp):
        v = c.x("g", c.N, rank=r + 1) + np.array(c.draws.state("e", "f32", c.N, rank=r + 1))
        kept = np.zeros_like(v)
        k = largest(abs(v), 3)
        kept[k] = v[k]
        sent, e = sent + kept, e + [v - kept]
    return [R(sent / c.dp), L(e), R(c.state("w", c.N) - 0.1 * sent / c.dp)]


@program
def ring_backward(c):
    q, k, v, dy = (c.x(n, c.B, c.T, c.D) for n in ("q", "k", "v", "dy"))
    p = softmax(q @ k.transpose(0, 2, 1), 2)
    dv, dp = p.transpose(0, 2, 1) @ dy, dy @ v.transpose(0, 2, 1)
    ds = p * (dp - (dp * p).sum(2, keepdims=True))
    return [S(x, 1) for x in (p @ v, ds @ k, ds.transpose(0, 2, 1) @ q, dv)]


@program
def gru(c):
    x, y, w = c.x("x", 4, c.B, c.I), c.x("y", c.B, c.H), [c.state(n, c.I + c.H, c.H) for n in ("wz", "wr", "wh")]

    def loss(wz, wr, wh):
        h = np.zeros((c.B, c.H))
        for one in x:
            u = np.concatenate([one, h], 1)
            z, r = sigmoid(u @ wz), sigmoid(u @ wr)
            h = (1 - z) * np.tanh(np.concatenate([one, r * h], 1) @ wh) + z * h
        return ((h - y)**2).sum()
    return [R(loss(*w))] + [R(w[k] - 0.1 * slope(lambda v: loss(*w[:k], v, *w[k + 1:]), w[k])) for k in range(3)]


@program
def crf(c):
    emit, tag, trans = c.x("emit", 4, c.B, c.K), c.i("tag", 4, c.B) % c.K, c.x("trans", c.K, c.K)

    def loss(emit, trans):
        a, own = emit[0], sum(emit[i, np.arange(c.B), tag[i]] for i in range(4))
        for i in range(1, 4):
            a = logsumexp(a[:, :, None] + trans, 1)[:, 0] + emit[i]
            own = own + trans[tag[i - 1], tag[i]]
        return (logsumexp(a, 1)[:, 0] - own).sum()
    return [R(loss(emit, trans)), R(slope(lambda t: loss(emit, t), trans)), S(slope(lambda e: loss(e, trans), emit), 1)]


@program
def capacity(c):
    x, router, w = c.x("x", c.T, c.H), c.x("router", c.H, c.E), c.x("w", c.E, c.H, c.F)
    p = softmax(x @ router, 1)
    e = p.argmax(1)
    kept = [np.count_nonzero(e[:t] == e[t]) < 2 for t in range(c.T)]

    def o(w):
        return np.stack([np.tanh(x[t] @ w[e[t]]) * p[t, e[t]] * kept[t] for t in range(c.T)])
    balance = c.E * (np.bincount(e, minlength=c.E) / c.T * p.mean(0)).sum()
    return [R(o(w)), R(balance), S(slope(lambda w: (o(w)**2).sum(), w), 0)]


@program
def stages_grad(c):
    x, y, w0, w1 = c.x("x", c.B, c.H), c.x("y", c.B, c.H), c.state("w0", c.H, c.H), c.state("w1", c.H, c.H)

    def loss(w0, w1):
        return ((np.tanh(x @ w0) @ w1 - y)**2).sum()
    return [at_group(1, R(loss(w0, w1))), at_group(0, R(w0 - 0.1 * slope(lambda w: loss(w, w1), w0))),
            at_group(1, R(w1 - 0.1 * slope(lambda w: loss(w0, w), w1)))]


@program
def dropout_mlp(c):
    x, u, v = c.x("x", c.B, c.H), c.state("u", c.H, c.F), c.state("v", c.F, c.H)
    phi = np.vectorize(lambda t: (1 + math.erf(t / math.sqrt(2))) / 2)
    kept = np.array([keeps(3, i, 0.25) for i in range(c.B * c.F)]).reshape(c.B, c.F)

    def loss(u):
        z = x @ u
        return ((z * phi(z) * kept / 0.75 @ v)**2).mean()
    return [R(loss(u)), S(slope(loss, u), 1), S(u, 1), S(v, 0)]


@program
def ulysses_grad(c):
    q, k, v, dy = (c.x(n, c.B, c.S, c.A, c.D).transpose(0, 2, 1, 3) for n in ("q", "k", "v", "dy"))
    p = softmax(np.where(np.tril(np.ones((c.S, c.S))) > 0, q @ k.transpose(0, 1, 3, 2), -1000), 3)
    dv, dp = p.transpose(0, 1, 3, 2) @ dy, dy @ v.transpose(0, 1, 3, 2)
    ds = p * (dp - (dp * p).sum(3, keepdims=True))
    return [S(x.transpose(0, 2, 1, 3), 1) for x in (p @ v, ds @ k, ds.transpose(0, 1, 3, 2) @ q, dv)]


@program
def vq(c):
    x, t, code, w = c.x("x", c.N, c.D), c.x("t", c.N, c.D), c.state("c", c.K, c.D), c.state("w", c.D, c.D)
    z = x @ w
    i = ((z[:, None] - code)**2).sum(2).argmin(1)
    q, gc = code[i], np.zeros_like(code)
    np.add.at(gc, i, 2 * (q - z))
    loss = ((q - t)**2).sum() + 1.25 * ((z - q)**2).sum()
    return [R(loss), R(x.T @ (2 * (q - t) + 0.5 * (z - q))), R(gc), R(code), R(w)]


@program
def grpo(c):
    logit, token = c.x("logit", c.B, c.G, c.S, c.V), c.i("token", c.B, c.G, c.S) % c.V
    reward, ref = c.x("reward", c.B, c.G), c.x("ref", c.B, c.G, c.S)
    a = (reward - reward.mean(1, keepdims=True)) / (reward.std(1, keepdims=True) + 0.0001)

    def policy(logit):
        return np.take_along_axis(logit - logsumexp(logit, 3), token[..., None], 3)[..., 0]
    old = policy(logit)

    def loss(logit):
        lp = policy(logit)
        return -(np.exp(lp - old) * a[..., None] - 0.04 * (np.exp(ref - lp) - (ref - lp) - 1)).mean()
    return [R(loss(logit)), S(slope(loss, logit), 0)]


@program
def hsdp_lamb(c):
    g = sum(c.x("g", c.M, c.N, rank=r + 1) for r in range(c.dp * c.tp)) / (c.dp * c.tp)
    w, m = c.state("w", c.M, c.N), 0.9 * c.state("m", c.M, c.N) + 0.1 * g
    u = m / (abs(m) + 0.01)
    w = w - c.scalar("lr") * np.linalg.norm(w) / np.linalg.norm(u) * u
    return [R(bf16(w)), S(w, None, 0), S(m, None, 0)]


@program
def int8_ring(c):
    g, parts = [c.x("g", 4, c.C, rank=r + 1) for r in range(4)], []
    for r in range(4):
        parts.append(g[r][(r - 1) % 4])
    for i in range(3):
        s = [abs(p).max() / 127 for p in parts]
        sent = [np.rint(p / t) * t for p, t in zip(parts, s)]
        parts = [sent[(r - 1) % 4] + g[r][(r - 2 - i) % 4] for r in range(4)]
    return [L(parts)]


@program
def bert_mask(c):
    h = np.array(c.draws.input("h", "bf16", c.B * c.S * c.H)).reshape(c.B, c.S, c.H)
    w = np.array(c.draws.input("w", "bf16", c.H * c.V)).reshape(c.H, c.V)
    z, label = bf16(h @ w), c.i("label", c.B, c.S)
    l, mask = logsumexp(z, 2) - z, label < 5
    loss = (np.take_along_axis(l, np.where(mask, label, 0)[..., None], 2)[..., 0] * mask).sum() / mask.sum()
    return [R(1.0 * mask.sum()), R(loss)]


@program
def spectral(c):
    w, v = c.x("w", c.M, c.N), c.x("v", c.N, 1)
    for _ in range(4):
        u = w @ v / np.linalg.norm(w @ v)
        v = w.T @ u / np.linalg.norm(w.T @ u)
    sigma = (u * (w @ v)).sum()
    return [R(sigma), S(w / sigma, 0), S(u @ v.T, 0)]


@program
def conv_net(c):
    x, w, b = c.x("x", c.N, c.C, 6, 6), c.x("w", c.O, c.C, 3, 3), c.x("b", c.O, 1, 1)
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = sum(np.einsum("nchw,oc->nohw", p[:, :, i:i + 6, j:j + 6], w[:, :, i, j]) for i in range(3) for j in range(3))
    y = np.maximum(y + b, 0).reshape(c.N, c.O, 3, 2, 3, 2).max((3, 5))
    return [S(y, 0), R(y.sum(0))]


@program
def conv_step(c):
    x, w = c.x("x", c.N, c.C, 7, 5), c.state("w", c.O, c.C, 3, 3)

    def loss(x, w):
        p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        return np.sin(sum(np.einsum("nchw,oc->nohw", p[:, :, i:i + 7:2, j:j + 5:2], w[:, :, i, j])
                          for i in range(3) for j in range(3))).sum()
    return [R(loss(x, w)), S(slope(lambda x: loss(x, w), x), 0), R(w - 0.1 * slope(lambda w: loss(x, w), w))]


@program
def zero_mlp(c):
    x, y, u, v = c.x("x", c.B, c.I), c.x("y", c.B, c.I), c.state("u", c.I, c.F), c.state("v", c.F, c.I)
    phi = np.vectorize(lambda t: (1 + math.erf(t / math.sqrt(2))) / 2)

    def loss(u, v):
        z = x @ u
        return ((z * phi(z) @ v - y)**2).sum() / c.B
    gu, gv = slope(lambda w: loss(w, v), u), slope(lambda w: loss(u, w), v)
    n = np.sqrt((gu * gu).sum() + (gv * gv).sum())
    mu, mv = 0.9 * c.state("mu", c.I, c.F) + min(1, 1 / n) * gu, 0.9 * c.state("mv", c.F, c.I) + min(1, 1 / n) * gv
    kept = (lambda m: S(m, 0)) if c.schedule.startswith("zero") else R
    return [R(loss(u, v)), R(n), R(u - c.scalar("lr") * mu), R(v - c.scalar("lr") * mv), kept(mu), kept(mv)]


# ---- attention, sorting, factoring, conditions, shifts by place ----

def seen(queries, keys, causal=True, window=None):
    i, j = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None, :]
    mask = j <= i if causal else np.ones((queries, keys), bool)
    return mask & (abs(i - j) < window) if window else mask


def attended(q, k, v, dy=None, dl=None, scale=None, **mask):
    """y and lse; with adjoints of both their gradients by q, k and v as well. Heads of k and v serve several of q."""
    shared = q.shape[1] // k.shape[1]
    scale = scale or 1 / math.sqrt(q.shape[-1])
    kk, vv = (np.repeat(x, shared, axis=1) for x in (k, v))
    s = np.where(seen(q.shape[2], k.shape[2], **mask), scale * q @ kk.swapaxes(2, 3), -np.inf)
    lse = logsumexp(s, 3)[..., 0]
    p = np.exp(s - lse[..., None])
    y = p @ vv
    if dy is None:
        return y, lse
    ds = p * (dy @ vv.swapaxes(2, 3) - (dy * y).sum(3, keepdims=True) + (0 if dl is None else dl[..., None]))
    joined = lambda x: x.reshape(x.shape[0], k.shape[1], shared, *x.shape[2:]).sum(2)
    return y, lse, scale * ds @ kk, joined(scale * ds.swapaxes(2, 3) @ q), joined(p.swapaxes(2, 3) @ dy)


@program
def attends(c):
    q, k = 3 * c.x("x", c.B, c.K * c.G, c.S, c.D), c.x("k", c.B, c.K, c.S, c.D)
    v, t = c.x("v", c.B, c.K, c.S, 2 * c.D), c.x("t", c.B, c.K * c.G, c.S, 2 * c.D)
    lse = attended(q, k, v, window=4)[1]
    y, lse, dq, dk, dv = attended(q, k, v, t, lse / 4, window=4)
    return [S(x, 2) for x in (y, lse, 3 * dq, dk, dv)]


@program
def attends_ring(c):
    q, k, v, t = (c.x(n, c.B, c.H, c.S, c.D) for n in "xkvt")
    y = attended(q, k, v, scale=0.75)[0]
    return [S(x, 2) for x in (y, *attended(q, k, v, 2 * y * t, scale=0.75)[2:])]


@program
def llama_ring(c):
    h = c.K * c.G * c.D
    x, t = c.x("x", c.B, c.S, h), c.x("t", c.B, c.S, h)
    shapes = {"w2": (c.F, h), "wo": (h, h), "wv": (h, c.K * c.D), "wk": (h, c.K * c.D), "wq": (h, h), "w1": (h, c.F), "w3": (h, c.F)}
    w = {n: c.state(n, *shape) for n, shape in shapes.items()}

    def block(w):
        normed = lambda x: x / np.sqrt((x * x).mean(2, keepdims=True) + 1e-5)
        n = normed(x)
        o, _ = attended(heads_of(n, w["wq"], c.K * c.G), heads_of(n, w["wk"], c.K), heads_of(n, w["wv"], c.K))
        z = x + merged(o) @ w["wo"]
        a = normed(z) @ w["w1"]
        return z + (a * sigmoid(a) * (normed(z) @ w["w3"])) @ w["w2"]
    loss = lambda w: ((block(w) - t)**2).sum() / (c.S * c.B)
    slopes = [slope(lambda u, n=n: loss({**w, n: u}), w[n]) for n in ("w2", "wo", "wv", "wk", "wq")]
    return [S(block(w), 1), *map(R, slopes), *(R(w[n]) for n in ("wq", "wk", "wv", "wo", "w1", "w3", "w2"))]


@program
def sorting(c):
    x, y, i = c.x("x", c.N, c.E), c.x("y", c.N, c.E), c.i("i", c.N, c.E)
    order = np.argsort(x, axis=1, kind="stable")
    place = np.argsort(order, axis=1)
    down = np.argsort(-x, axis=1, kind="stable")
    return [S(np.sort(x), 0), S(-np.sort(-x).T, 1), S(down, 0), S(np.argsort(i, axis=1, kind="stable"), 0), S(-np.sort(-i), 0),
            S(down[:, :c.E // 8], 0), S(-np.sort(-x)[:, :70], 0), S(2 * x * np.take_along_axis(y, place, 1), 0)]


@program
def factoring(c):
    x = c.x("x", c.B, c.N + c.M, c.N)
    g = x.swapaxes(1, 2) @ x + 0.5 * np.eye(c.N)
    q, r = np.linalg.qr(x)
    sign = np.sign(np.einsum("bii->bi", r))
    values, u = np.linalg.eigh(g)
    u = u * np.sign(np.take_along_axis(u, abs(u).argmax(1)[:, None, :], 1))
    return [S(y, 0) for y in (np.linalg.cholesky(g), q * sign[:, None, :], r * sign[:, :, None], values, u,
                              u @ (u.swapaxes(1, 2) @ g).swapaxes(1, 2))]


@program
def diloco_if(c):
    n, lr, mu = c.N, c.scalar("lr"), c.scalar("mu")

    def whole(at):
        ranks = at[0][1]
        w = [c.state("w", n, rank=r + 1) - lr * c.x("g", n, rank=r + 1) for r in range(ranks)]
        outer = c.state("outer", n)
        d = sum(outer - u for u in w) / ranks
        m = mu * c.state("m", n) + d
        return np.linalg.norm(m), outer - lr * (mu * m + d), m, c.state("never", n)
    return [lambda at: whole(at)[0], lambda at: whole(at)[1], *(lambda at, k=k: whole(at)[k] for k in (1, 2, 3))]


@program
def soap_full(c):
    lr, b = c.scalar("lr"), c.scalar("b")

    def stepped(at):
        ranks = at[0][1]
        a = sum(c.x("g", c.M, c.N, rank=r + 1) for r in range(ranks)) / ranks
        left = b * c.state("l", c.M, c.M) + (1 - b) * a @ a.T + 0.1 * np.eye(c.M)
        right = b * c.state("r", c.N, c.N) + (1 - b) * a.T @ a + 0.1 * np.eye(c.N)
        ql, qr = orthonormal(left @ c.state("ql", c.M, c.M)), np.linalg.eigh((right + right.T) / 2)[1]
        qr = qr * np.sign(qr[abs(qr).argmax(0), range(c.N)])
        turned = ql.T @ a @ qr
        v = b * c.state("v", c.M, c.N) + (1 - b) * turned**2
        return c.state("w", c.M, c.N) - lr * ql @ (turned / np.sqrt(v)) @ qr.T, left, right, ql, qr, v
    return [lambda at, k=k: stepped(at)[k] for k in range(6)]


@program
def sorted_router(c):
    x = c.x("x", c.T, c.H)
    p = softmax(x @ c.x("router", c.H, c.E), 1)
    best = np.argsort(-p, axis=1, kind="stable")
    gate = np.take_along_axis(p, best[:, :2], 1)

    def rows(at):
        own, of = S(best[:, 0], 0)(at), S(x, 0)(at)
        return of[np.argsort(own, kind="stable")]
    return [S(best[:, :2], 0), S(gate / gate.sum(1, keepdims=True), 0), rows]


@program
def cannon(c):
    return [S(c.x("x", c.N, c.N) @ c.x("y", c.N, c.N), 0, 1)]


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
        axes, dims = file.read().split()
    sizes, mesh = read_sizes(axes + "," + dims), list(read_sizes(axes).values())
    schedules = sorted(f[:-2] for f in os.listdir(folder) if f.endswith(".0"))
    if not schedules:
        return "nothing was dumped"
    worst = 0
    for schedule in schedules:
        found = compare_schedule(folder, name, int(ranks), mesh, sizes, schedule)
        if isinstance(found, str):
            return found
        worst = max(worst, found)
    return worst


def compare_schedule(folder, name, ranks, axes, sizes, schedule):
    worst = 0
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
