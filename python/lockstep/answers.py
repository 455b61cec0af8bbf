"""What the functions answer: dataclasses with the keys of the program's JSON. Times are seconds, sizes bytes, shares 0 to 1;
None is what was not asked or does not apply."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from ._build import build
from ._columns import Table, numbers, texts, truths
from ._frame import Framed
from ._html import bars, escape, gib, page, percent, seconds, table



# ---- predict ----


@dataclass(frozen=True)
class TimePart:
    """A part of the step: what shows, and what ran behind computation."""

    label: str
    exposed_s: float
    hidden_s: float


@dataclass(frozen=True)
class Quantiles:
    """Of a time, or of a share, over the seeds."""

    label: str
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Seeds:
    """How far the step and its parts spread over seeds of the jitter; keys as in breakdown, step and straggler_share."""

    count: int
    quantiles: Dict[str, Quantiles]


@dataclass(frozen=True)
class StageMemory:
    """Memory of one rank of a pipeline stage at its fullest moment."""

    stage: int
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    logits_bytes: float
    workspace_bytes: float
    buffers_bytes: float
    allocated_bytes: float
    allocated_low_bytes: Optional[float]
    allocated_high_bytes: Optional[float]
    reserved_bytes: float
    context_bytes: float
    nccl_bytes: float
    total_bytes: float
    moment: str


@dataclass(frozen=True)
class Layout:
    """The layout in numbers."""

    text: str
    gpus: int
    tp: int
    pp: int
    vp: int
    cp: int
    ep: int
    dp: int
    mbs: int
    gbs: int
    seq: int
    microbatches: int
    recompute: Optional[str]
    dtype: Optional[str]
    schedule: Optional[str]


@dataclass(frozen=True)
class Fix:
    """A change that would make the job fit."""

    change: str
    peak_bytes: float
    step_time_s: float
    time_ratio: float


@dataclass(frozen=True)
class Generation:
    """What generation answers beyond a step: figures of one engine where nothing else is said."""

    sequences: int
    engines: int
    engine_gpus: int
    tokens: float
    tokens_per_s: float
    token_time_s: float
    longest_tokens: float
    cache_bytes: float
    token_bytes: float
    cache_tokens: float
    batch_room: float
    batch_most: float
    tail_s: float
    preempted: float
    fixed_s: Optional[float]
    exponential_s: Optional[float]


@dataclass(frozen=True)
class PhaseSpan:
    """When a phase of a step of reinforcement learning runs, on the GPUs that train ("training") or on engines of their own."""

    gpus: str
    phase: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Prediction(Framed):
    """One training step: does it fit, how long is it, where does the time go."""

    fits: bool
    peak_bytes: float
    usable_bytes: float
    fullest_stage: int
    step_time_s: float
    step_time_low_s: Optional[float]
    step_time_high_s: Optional[float]
    basis: Optional[str]
    tokens_per_s_per_gpu: Optional[float]
    samples_per_s: float
    unit: str
    model_tflops_per_gpu: float
    mfu: Optional[float]
    hfu: Optional[float]
    peak_flops: Optional[float]
    peak: Optional[str]
    days: Optional[float]
    gpu_hours: Optional[float]
    goodput: Optional[float]
    gpu_watts: Optional[float]
    site_watts: Optional[float]
    pue: Optional[float]
    step_kwh: Optional[float]
    training_kwh: Optional[float]
    carbon_kg: Optional[float]
    power_usd: Optional[float]
    breakdown: Dict[str, TimePart]
    seeds: Optional[Seeds]
    generation: Optional[Generation]
    phases: Optional[List[PhaseSpan]]
    memory: List[StageMemory]
    layout: Layout
    assumptions: List[str]
    understood: List[str]
    ignored: List[str]
    fixes: List[Fix]
    operations: int
    layer_operations: int
    ranks_simulated: int
    ranks: int
    searched: Optional[str]
    warning: Optional[str]
    reproduce: str
    model: str
    cluster: str
    version: str
    data_date: str
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        strip = (f"{verdict}: {gib(self.peak_bytes)} of {gib(self.usable_bytes)} · step {seconds(self.step_time_s)}"
                 f" ({seconds(self.step_time_low_s)} to {seconds(self.step_time_high_s)})"
                 + (f" · {self.tokens_per_s_per_gpu:,.0f} tokens/s/GPU" if self.tokens_per_s_per_gpu else "")
                 + (f" · MFU {percent(self.mfu)}" if self.mfu else "") + (f" · {self.days:.1f} days" if self.days else ""))
        parts = [(part.label, part.exposed_s, part.hidden_s) for part in self.breakdown.values()]
        stages = [[m.stage, gib(m.weights_bytes), gib(m.gradients_bytes), gib(m.optimizer_bytes), gib(m.activations_bytes),
                   gib(m.total_bytes), m.moment] for m in self.memory]
        fixes = [[f.change, gib(f.peak_bytes), seconds(f.step_time_s)] for f in self.fixes]
        return page(self.model, escape(self.layout.text), escape(self.cluster), f"<b>{escape(strip)}</b>",
                    bars(parts, self.step_time_s),
                    table(["stage", "weights", "gradients", "optimizer", "activations", "total", "fullest while"], stages),
                    "<b>would fit</b>" + table(["change", "peak", "step"], fixes) if fixes else "",
                    escape(self.warning) if self.warning else "", f"<code>{escape(self.reproduce)}</code>")


def _makers_of(reply: Any) -> Dict[str, Any]:
    """For every column of a reply a function that makes it. The columns borrow from the reply, which the functions keep."""
    makers: Dict[str, Any] = {}
    for key, column in reply.columns():
        make = numbers if column._type_ is ctypes.c_double else texts
        makers[key] = lambda make=make, column=column, reply=reply: make(column)
    return makers


class Sweep(Table):
    """Every combination as a row of columns, those of `lockstep predict -o csv`: sweep["step_time_s"]. sweep.prediction(i) is
    row i as a Prediction, None where it was refused (sweep["refused"] says why)."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply
        super().__init__(_makers_of(reply), reply.rows(), "sweep")

    @property
    def fits(self) -> Any:
        """Which rows fit: an array of bool."""
        return truths([verdict == "fits" for verdict in self["verdict"]])

    @property
    def best(self) -> Optional[int]:
        """The row that fits with most tokens (or samples) per second and GPU; None where nothing fits."""
        return next((i for i, one in enumerate(self["best"]) if one == 1), None)

    def prediction(self, number: int) -> Optional[Prediction]:
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        data = json.loads(self._reply.row(number % len(self)))
        return None if data["fits"] is None else build(Prediction, data)

    def _repr_html_(self) -> str:
        keys = ["verdict", "gpus", "tp", "pp", "vp", "cp", "ep", "dp", "mbs", "gbs", "seq", "recompute"]
        order = sorted(range(len(self)), key=lambda i: (self["verdict"][i] != "fits", -(self.row(i)["tokens_per_s_per_gpu"] or 0)))
        rows = []
        for i in order[:20]:
            row = self.row(i)
            rows.append([int(row[k]) if isinstance(row[k], float) else row[k] for k in keys]
                        + [gib(row["peak_bytes"]), seconds(row["step_time_s"]), row["tokens_per_s_per_gpu"], percent(row["mfu"])])
        more = f"{len(self) - 20} more rows" if len(self) > 20 else ""
        return page(f"{len(self)} combinations, the fastest first", table(keys + ["peak", "step", "tokens/s/GPU", "MFU"], rows), more)


# ---- plan ----


@dataclass(frozen=True)
class PlanChoice:
    """A layout that the search found."""

    layout: str
    gpus: int
    tp: int
    pp: int
    vp: int
    cp: int
    ep: int
    etp: int
    dp: int
    mbs: int
    microbatches: int
    zero: int
    schedule: Optional[str]
    recompute: Optional[str]
    stack: Optional[str]
    sequence_parallel: bool
    tp_overlap: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    offload: bool
    bucket_bytes: float
    step_time_s: float
    step_time_low_s: Optional[float]
    step_time_high_s: Optional[float]
    exact_s: Optional[float]
    peak_bytes: float
    usable_bytes: float
    tokens_per_s_per_gpu: Optional[float]
    mfu: Optional[float]
    days: Optional[float]
    gpu_hours: Optional[float]
    gpu_watts: Optional[float]
    site_watts: Optional[float]
    pue: Optional[float]
    step_kwh: Optional[float]
    training_kwh: Optional[float]
    carbon_kg: Optional[float]
    power_usd: Optional[float]
    breakdown: Dict[str, float]
    tight: bool
    why_not: Optional[str]
    reproduce: str
    pareto: bool


@dataclass(frozen=True)
class Sensitivity:
    """The step if a rate were another."""

    cost: str
    factor: float
    step_time_s: float
    best: int


@dataclass(frozen=True)
class PlanCount:
    """What was found for one number of GPUs, the fastest first; nothing: why there is none."""

    gpus: int
    layouts: int
    bounded: int
    too_large: int
    too_slow: int
    schedules_walked: int
    simulated: int
    cut_short: int
    found_too_large: int
    untried: int
    nothing: Optional[str]
    in_fp8: Optional[str]
    choices: List[PlanChoice]
    sensitivity: List[Sensitivity]


@dataclass(frozen=True)
class PlanSync:
    """Sites that train with the best choice and synchronise now and then, at one precision."""

    bits: int
    every: float
    bytes: float
    sync_s: float
    stall_s: float
    utilisation: float
    tokens_per_s: float


@dataclass(frozen=True)
class PlanTreeLevel:
    """Nodes of a tree that are equally far from its root and aggregate."""

    nodes: int
    children: int
    every: int
    rounds: int
    bytes: float


@dataclass(frozen=True)
class PlanTree:
    """How to aggregate over a tree: the way with the least drift that keeps to what is asked."""

    keeps: bool
    misses: Optional[str]
    bits: float
    step_s: float
    utilisation: float
    tokens_per_s: float
    bytes: float
    drift: float
    hours: Optional[float]
    total_bytes: Optional[float]
    clients: int
    left_out: List[str]
    levels: List[PlanTreeLevel]


@dataclass(frozen=True)
class Plan(Framed):
    """The fastest layouts that fit. launch: with emit=..., the launch line of the best."""

    _rows_of = "_choices"

    model: str
    cluster: str
    gbs: int
    unit: str
    seq: Optional[int]
    tokens: Optional[float]
    reproduce: str
    warning: Optional[str]
    cut_off: Optional[str]
    assumptions: List[str]
    not_searched: List[str]
    syncs: List[PlanSync]
    tree: Optional[PlanTree]
    counts: List[PlanCount]
    version: str
    launch: Optional[str] = field(default=None, metadata={"json": False})
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    @property
    def _choices(self) -> List[PlanChoice]:
        return [choice for count in self.counts for choice in count.choices]

    @property
    def best(self) -> Optional[PlanChoice]:
        """Of all numbers of GPUs the choice with the shortest step; None where nothing fits."""
        firsts = [count.choices[0] for count in self.counts if count.choices]
        return min(firsts, key=lambda choice: choice.step_time_s) if firsts else None

    def _repr_html_(self) -> str:
        parts = []
        for count in self.counts:
            rows = [[c.layout, seconds(c.step_time_s), gib(c.peak_bytes), percent(c.mfu), c.why_not or ""] for c in count.choices]
            parts.append(f"<b>{count.gpus} GPUs</b>")
            parts.append(table(["layout", "step", "peak", "MFU", "why not"], rows) if rows else escape(count.nothing or ""))
        return page(f"{self.model} on {self.cluster}", escape(self.warning) if self.warning else "", *parts)


# ---- validate ----


@dataclass(frozen=True)
class Accuracy:
    """How well a set of rows was predicted; errors are shares."""

    rows: int
    predicted: int
    skipped: int
    suspect: int
    scored: int
    geomean_error: Optional[float]
    macro_geomean_error: Optional[float]
    mape: Optional[float]
    median_error: Optional[float]
    p90_error: Optional[float]
    bias: Optional[float]
    kendall_tau: Optional[float]
    mean_top1_regret: Optional[float]
    coverage: Optional[float]
    rank_groups: int
    within_5: Optional[float]
    weighted_error: Optional[float]
    half_width: Optional[float]
    scaling_error: Optional[float]
    series: int
    parameters: int
    by: Optional[str] = None
    name: Optional[str] = None


@dataclass(frozen=True)
class Validation(Framed):
    """Predictions against measurements."""

    _rows_of = "rows"

    summary: Accuracy
    groups: List[Accuracy]
    baselines: List[Accuracy]
    folds: str
    rows: Table
    command: str
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        def line(a: Accuracy) -> List[Any]:
            return [a.by or "all", a.name or "all", a.scored, percent(a.geomean_error), percent(a.mape), percent(a.bias)]

        return page(self.command, table(["by", "name", "scored", "error", "MAPE", "bias"], [line(a) for a in [self.summary, *self.groups]]))


# ---- explain ----


@dataclass(frozen=True)
class Stall:
    """What costs a step its time, with the figures that show it and the remedy. gain_s: simulated with the change of
    whatif; None: that cannot be simulated, and most_s bounds it."""

    rank_of_stall: int
    kind: str
    what: str
    lost_s: float
    lost_pctg: Optional[float]
    gain_s: Optional[float]
    most_s: float
    change: Optional[str]
    evidence: Optional[str]
    remedy: Optional[str]


@dataclass(frozen=True)
class CriticalPart:
    """A share of the chain of work that the step's time hangs on."""

    kind: str
    seconds: float


@dataclass(frozen=True)
class Action:
    """Something to do about a stall: what it gains a step in the simulation with the change of whatif (None: that
    cannot be simulated, and it gains most_s at most), and how."""

    stall: str
    what: str
    lost_s: float
    gain_s: Optional[float]
    most_s: float
    change: str
    how: str


@dataclass(frozen=True)
class Explanation(Framed):
    """Why a run is as slow as it is. The tables have the columns of `lockstep explain -o csv`."""

    _rows_of = "stalls"

    ranks: int
    world_size: Optional[int]
    step_count: int
    steps_annotated: bool
    step_s: Optional[float]
    step_deviation_s: Optional[float]
    lost_steps: int
    kernel_count: int
    clock_anchors: int
    clock_residual_max_s: Optional[float]
    gpu_watts: Optional[float]
    site_watts: Optional[float]
    pue: Optional[float]
    step_kwh: Optional[float]
    training_kwh: Optional[float]
    carbon_kg: Optional[float]
    power_usd: Optional[float]
    stalls: List[Stall]
    breakdown: Table
    steps: Table
    overlap: Table
    communication: Table
    stragglers: Table
    stretches: Table
    idle: Table
    kernels: Table
    queue: Table
    launches: Table
    roofline: Table
    critical_path: List[CriticalPart]
    critical_step: Optional[int]
    critical_step_s: Optional[float]
    diagnosis: str
    actions: List[Action]
    caveat_count: int
    warnings: List[str]
    reproduce: str
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        stalls = [[s.rank_of_stall, s.what, seconds(s.lost_s), seconds(s.gain_s), s.evidence or "", s.remedy or ""] for s in self.stalls]
        return page(f"{self.step_count} steps of {seconds(self.step_s)} on {self.ranks} ranks",
                    table(["", "stall", "costs", "worth", "evidence", "remedy"], stalls), *map(escape, self.warnings))


# ---- shard ----


@dataclass(frozen=True)
class Sharding(Framed):
    """Which embedding table goes on which GPU. Tables: ranks, pieces, sharders."""

    _rows_of = "pieces"

    fits: bool
    reason: Optional[str]
    sharder: Optional[str]
    cut_off: Optional[str]
    step_s: Optional[float]
    placed_s: Optional[float]
    bound_s: Optional[float]
    gap: Optional[float]
    imbalance: Optional[float]
    index_s: Optional[float]
    forward_s: Optional[float]
    exchange_s: Optional[float]
    dense_s: Optional[float]
    backward_s: Optional[float]
    reduce_s: Optional[float]
    batch: float
    tables: int
    table_bytes: float
    capacity_bytes: float
    host_capacity_bytes: float
    ranks: Table
    pieces: Table
    sharders: Table
    model: Optional[str]
    cluster: str
    basis: Optional[str]
    reproduce: str
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        strip = (f"{self.sharder}: step {seconds(self.step_s)}, at most {percent(self.gap)} from the best" if self.fits
                 else self.reason or "does not fit")
        return page(f"{self.tables} tables on {self.cluster}", f"<b>{escape(strip)}</b>", self.ranks._repr_html_(), self.pieces._repr_html_())


# ---- rent ----


@dataclass(frozen=True)
class RentChoice:
    """Machines of one kind, with the layout that is fastest there. Costs are US dollars."""

    provider: str
    instance: str
    region: Optional[str]
    gpu: str
    machines: int
    gpus: int
    batch: int
    layout: Optional[str]
    step_time_s: float
    samples: float
    samples_low: Optional[float]
    samples_high: Optional[float]
    tokens: Optional[float]
    hours: float
    hours_low: Optional[float]
    hours_high: Optional[float]
    price_usd_h: float
    cost_usd: float
    cost_low_usd: Optional[float]
    cost_high_usd: Optional[float]
    price_date: Optional[str]
    price_source: Optional[str]
    stall: Optional[str]
    stall_share: Optional[float]
    goodput: Optional[float]
    kwh: Optional[float]
    carbon_kg: Optional[float]
    power_usd: Optional[float]
    pareto: bool
    in_time: bool
    in_budget: bool
    chance: Optional[float]
    gpus_searched: int
    search_end: Optional[str]
    reproduce: Optional[str]


@dataclass(frozen=True)
class RentFunction:
    """Functions of one size that a cloud runs on demand, at one level of scaling."""

    platform: str
    level: str
    memory_mib: int
    calls: float
    call_s: float
    instances: float
    seconds: float
    gib_s: float
    cost_usd: float
    pareto: bool
    in_time: bool
    in_budget: bool


@dataclass(frozen=True)
class Rent(Framed):
    """Which machines to rent; cheapest, fastest, most and ties are places in choices. A training without a length (samples
    is None then) goes on as long as deadline and budget allow: most is the choice that trains most."""

    _rows_of = "choices"

    model: str
    warning: Optional[str]
    samples: Optional[float]
    unit: Optional[str]
    deadline_h: Optional[float]
    budget_usd: Optional[float]
    considered: int
    within_limits: int
    gpus_searched: int
    cut_off: Optional[str]
    search_complete: bool
    searched: str
    choices: List[RentChoice]
    functions: List[RentFunction]
    cheapest: Optional[int]
    fastest: Optional[int]
    most: Optional[int]
    ties: List[int]
    settle: Optional[str]
    nothing: Optional[str]
    reproduce: str
    notes: List[str]
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        rows = [[c.provider, c.instance, c.machines, c.gpus, c.layout or "", f"{c.hours:,.1f} h", f"${c.cost_usd:,.0f}", c.stall or "",
                 " ".join(word for word, there in (("cheapest", i == self.cheapest), ("fastest", i == self.fastest), ("most", i == self.most)) if there)]
                for i, c in enumerate(self.choices)]
        return page(self.model, table(["provider", "instance", "machines", "GPUs", "layout", "time", "cost", "stall", ""], rows),
                    escape(self.nothing) if self.nothing else "")


# ---- whatif ----


@dataclass(frozen=True)
class Change:
    """The base, one change, or several together."""

    change: str
    sets: List[str]
    refused: Optional[str]
    gpus: Optional[int]
    batch: Optional[int]
    step_time_s: Optional[float]
    vs_base: Optional[float]
    scaling_efficiency: Optional[float]
    uncertainty: Optional[float]
    compute_s: Optional[float]
    exposed_s: Optional[float]
    hidden_s: Optional[float]
    other_s: Optional[float]
    samples_per_s: Optional[float]
    cluster: Optional[str]
    notes: List[str]


@dataclass(frozen=True)
class WhatIf(Framed):
    """What a step would take with changes; changes[0] is the base."""

    _rows_of = "changes"

    source: str
    traced: bool
    changes: List[Change]
    notes: List[str]
    reproduce: str
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        rows = [[c.change, seconds(c.step_time_s), percent(c.vs_base), c.refused or ""] for c in self.changes]
        return page(self.source, table(["change", "step", "against base", ""], rows))


# ---- simulate ----


@dataclass(frozen=True)
class ProgramTimes:
    """A program, as the first of its ranks ran it."""

    name: str
    rank: int
    finish_s: float
    peak_bytes: float
    compute_s: float
    exposed_s: float
    hidden_s: float


@dataclass(frozen=True)
class Simulation(Framed):
    """A step graph, simulated. spans: a row for each operation that ran on the first rank of each program, and on ranks that
    were named: rank, call, repetition, ready_s, start_s, end_s, block, name, kind, stream."""

    _rows_of = "programs"

    step_time_s: float
    ranks: int
    ranks_simulated: int
    operations_run: int
    cluster: Optional[str]
    programs: List[ProgramTimes]
    spans: Table = field(metadata={"json": False})
    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        rows = [[p.name, p.rank, seconds(p.finish_s), seconds(p.compute_s), seconds(p.exposed_s), seconds(p.hidden_s), gib(p.peak_bytes)]
                for p in self.programs]
        return page(f"step of {seconds(self.step_time_s)} on {self.ranks} ranks",
                    table(["program", "rank", "ends", "computing", "communication", "hidden", "memory"], rows), self.spans._repr_html_())


def spans_of(reply: Any) -> Table:
    """The columns of a simulation."""
    return Table(_makers_of(reply), reply.rows(), "spans")


__all__ = ["Accuracy", "Action", "Change", "CriticalPart", "Explanation", "Fix", "Layout", "Plan", "PlanChoice", "PlanCount", "PlanSync", "PlanTree", "PlanTreeLevel", "PhaseSpan", "Prediction",
           "ProgramTimes", "Rent", "RentChoice", "RentFunction", "Sensitivity", "Sharding", "Simulation", "StageMemory", "Stall", "Sweep", "Table",
           "TimePart", "Validation", "WhatIf"]
