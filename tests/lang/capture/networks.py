"""Six networks in plain PyTorch, without a collective: each a function, its example and where its inputs lie. NAME.lk has the same
by hand. NETWORKS has a mesh and sizes for each: small, in the proportions of use, where tokens are many and weights are large."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


# ---- a block of Llama: rotary positions, grouped queries, SwiGLU; tensor and sequence parallel ----

def rms(x, weight):
    return weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, groups, size, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, size
        self.norm1, self.norm2 = nn.Parameter(torch.rand(hidden)), nn.Parameter(torch.rand(hidden))
        self.wq, self.wo = nn.Linear(hidden, heads * size, bias=False), nn.Linear(heads * size, hidden, bias=False)
        self.wk, self.wv = nn.Linear(hidden, groups * size, bias=False), nn.Linear(hidden, groups * size, bias=False)
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        a = rms(x, self.norm1)
        q = self.wq(a).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.wk(a).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.wv(a).view(batch, length, self.groups, self.size).transpose(1, 2)
        rate = torch.pow(10000.0, -torch.arange(0, self.size // 2, device=x.device) * (2.0 / self.size))
        angle = torch.outer(torch.arange(length, device=x.device), rate)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        score = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        seen = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))
        score = score.masked_fill(~seen, float("-inf"))
        o = torch.softmax(score, dim=-1) @ v
        h = x + self.wo(o.transpose(1, 2).reshape(batch, length, -1))
        m = rms(h, self.norm2)
        return h + self.down(F.silu(self.gate(m)) * self.up(m))


def llama(B, S, H, A, K, D, F):
    place = {"x": "S(1,tp)", "w[qkv].weight": "S(0,tp)", "wo.weight": "S(1,tp)", "gate.weight": "S(0,tp)", "up.weight": "S(0,tp)",
             "down.weight": "S(1,tp)"}
    return LlamaBlock(H, A, K, 2 * D, F), (torch.randn(B, S, H),), place


# ---- a mixture of experts: groups of tokens, two experts a token, slots of an expert; experts on ranks ----

def moe(x, router, w1, w2):
    groups, tokens, _ = x.shape
    experts = router.shape[1]
    slots = 2 * tokens // experts
    gates = torch.softmax(x @ router, dim=-1)
    best, index = gates.topk(2, dim=-1)
    pick = F.one_hot(index, experts).to(x.dtype)            # group, token, choice, expert
    first, second = pick[:, :, 0], pick[:, :, 1]
    place1 = first.cumsum(1) - first
    place2 = second.cumsum(1) - second + first.sum(1, keepdim=True)
    slot = torch.arange(slots, device=x.device)
    to1 = first.unsqueeze(-1) * (place1.unsqueeze(-1) == slot).to(x.dtype)
    to2 = second.unsqueeze(-1) * (place2.unsqueeze(-1) == slot).to(x.dtype)
    sent = torch.einsum("gtec,gth->gech", to1 + to2, x)
    y = torch.einsum("gecf,efh->gech", torch.relu(torch.einsum("gech,ehf->gecf", sent, w1)), w2)
    gate = best[:, :, 0, None, None] * to1 + best[:, :, 1, None, None] * to2
    return torch.einsum("gtec,gech->gth", gate, y)


def moe_layer(G, T, H, E, C, F):
    example = (torch.randn(G, T, H), torch.randn(H, E), torch.randn(E, H, F), torch.randn(E, F, H))
    return moe, example, {"x": "S(0,ep)", "w[12]": "S(0,ep)"}


# ---- a training step under ZeRO: gradients by autograd, Adam on sliced weights and moments ----

def zero(x, target, w1, w2, m1, m2, v1, v2, step):
    loss = F.mse_loss(torch.relu(x @ w1) @ w2, target)
    gradients = torch.autograd.grad(loss, (w1, w2))
    with torch.no_grad():
        for w, m, v, g in zip((w1, w2), (m1, m2), (v1, v2), gradients):
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            w.sub_(0.01 * (m / (1 - 0.9**step)) / (torch.sqrt(v / (1 - 0.999**step)) + 1e-8))
    return loss


def zero_step(B, I, H, O):
    w1, w2 = torch.randn(I, H), torch.randn(H, O)
    moments = [torch.rand(I, H), torch.rand(H, O), torch.rand(I, H), torch.rand(H, O)]
    example = (torch.randn(B, I), torch.randn(B, O), w1.requires_grad_(), w2.requires_grad_(), *moments, torch.full((), 3.0))
    return zero, example, {"x": "S(0,dp)", "target": "S(0,dp)", "[wmv][12]": "S(0,dp)"}


# ---- a block of a vision transformer with its patches; batch and heads sliced ----

class VitBlock(nn.Module):
    def __init__(self, channels, patch, hidden, heads, inner):
        super().__init__()
        self.heads = heads
        self.patch = nn.Conv2d(channels, hidden, patch, stride=patch)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.k, self.v, self.proj = (nn.Linear(hidden, hidden) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        a = self.norm1(x)
        q, k, v = (one(a).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        weights = F.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        x = x + self.proj((weights @ v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


def vit(B, C, Y, X, H, A, F):
    place = {"image": "S(0,dp)", "[qkv].*": "S(0,tp)", "fc1.*": "S(0,tp)", "proj.weight": "S(1,tp)", "fc2.weight": "S(1,tp)"}
    return VitBlock(C, 2, H, A, F), (torch.randn(B, C, 2 * Y, 2 * X),), place


# ---- Mamba-2: a state-space layer in its dual form, chunk by chunk; heads sliced ----

def mamba(x, dt, a, b, c, d, w_in, w_out):
    """x [B,S,M]; w_in [M,H*P]; dt [B,S,H]; a, d [H]; b, c [B,S,N]; w_out [H*P,M]. Chunks of 4 positions."""
    batch, length, _ = x.shape
    heads, size = a.shape[0], 4
    u = (x @ w_in).view(batch, length // size, size, heads, -1)
    step = F.softplus(dt).view(batch, length // size, size, heads)
    decay = -(step * torch.exp(a)).permute(0, 3, 1, 2)                       # B,H,chunks,size
    b, c = b.view(batch, -1, size, b.shape[-1]), c.view(batch, -1, size, c.shape[-1])
    so_far = decay.cumsum(-1)
    within = so_far.unsqueeze(-1) - so_far.unsqueeze(-2)
    lower = torch.tril(torch.ones(size, size, dtype=torch.bool, device=x.device))
    kernel = torch.exp(torch.where(lower, within, -1e9))                     # B,H,chunks,size,size
    fed = u * step.unsqueeze(-1)                                             # B,chunks,size,H,P
    inside = torch.einsum("bkin,bkjn,bhkij,bkjhp->bkihp", c, b, kernel, fed)
    to_end = torch.exp(so_far[..., -1:] - so_far)
    states = torch.einsum("bkjn,bhkj,bkjhp->bkhpn", b, to_end, fed)
    total = F.pad(so_far[..., -1], (1, 0)).cumsum(-1)                        # B,H,chunks + 1
    between = total[..., :-1].unsqueeze(-1) - total[..., 1:].unsqueeze(-2)
    before = torch.tril(torch.ones(between.shape[-1], between.shape[-1], dtype=torch.bool, device=x.device), diagonal=-1)
    carried = torch.exp(torch.where(before, between, -1e9))
    entering = torch.einsum("bhkl,blhpn->bkhpn", carried, states)
    outside = torch.einsum("bkin,bkhpn,bhki->bkihp", c, entering, torch.exp(so_far))
    y = inside + outside + u * d.unsqueeze(-1)
    return x + y.flatten(3).reshape(batch, length, -1) @ w_out


def mamba_block(B, M, H, P, N):
    example = (torch.randn(B, 12, M), torch.randn(B, 12, H), torch.randn(H), torch.randn(B, 12, N), torch.randn(B, 12, N), torch.randn(H),
               torch.randn(M, H * P), torch.randn(H * P, M))
    return mamba, example, {"dt": "S(2,tp)", "a": "S(0,tp)", "d": "S(0,tp)", "w_in": "S(1,tp)", "w_out": "S(0,tp)"}


# ---- DLRM: tables sliced by rows over ranks, the rest data parallel; binary cross entropy ----

def recommender(dense, users, items, user_table, item_table, bottom, top, label):
    x = torch.relu(dense @ bottom)
    u = F.embedding_bag(users, user_table, mode="sum")
    i = F.embedding_bag(items, item_table, mode="sum")
    all_ = torch.stack([x, u, i], dim=1)
    pairs = torch.bmm(all_, all_.transpose(1, 2))
    crossed = torch.cat([x, pairs[:, 1, :1], pairs[:, 2, :2]], dim=1)
    score = (crossed @ top).squeeze(1)
    return F.binary_cross_entropy_with_logits(score, label)


def dlrm(B, N, U, I, D, R, T):
    example = (torch.randn(B, N), torch.randint(0, R, (B, U)), torch.randint(0, T, (B, I)), torch.randn(R, D), torch.randn(T, D),
               torch.randn(N, D), torch.randn(D + 3, 1), torch.rand(B))
    return recommender, example, {"dense": "S(0,dp)", "users": "S(0,dp)", "items": "S(0,dp)", "label": "S(0,dp)", "*_table": "S(0,dp)"}


NETWORKS = {
    llama: (dict(tp=2), dict(B=1, S=6, H=16, A=4, K=2, D=2, F=32)),
    moe_layer: (dict(ep=2), dict(G=2, T=8, H=8, E=4, C=4, F=64)),
    zero_step: (dict(dp=2), dict(B=64, I=6, H=10, O=4)),
    vit: (dict(dp=2, tp=2), dict(B=2, C=3, Y=2, X=2, H=8, A=2, F=16)),
    mamba_block: (dict(tp=2), dict(B=1, M=8, H=2, P=4, N=3)),
    dlrm: (dict(dp=2), dict(B=8, N=3, U=2, I=3, D=4, R=64, T=96)),
}
