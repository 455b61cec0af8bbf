"""What the functions answer: the dataclasses of _answers.py, which have the keys of the program's JSON, and what can be done with
them. Times are seconds, sizes bytes, shares 0 to 1; None is what was not asked or does not apply."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from . import _answers
from ._answers import (Accuracy, Action, Change, CriticalPart, Fix, Generation, Layout, PhaseSpan, PlanChoice, PlanCount, PlanSync,
                       PlanTree, PlanTreeLevel, ProgramTimes, Quantiles, RentChoice, RentFunction, Seeds, Sensitivity, StageMemory,
                       Stall, TimePart)
from ._build import build
from ._columns import Table, numbers, texts, truths
from ._frame import Framed
from ._html import bars, escape, gib, page, percent, seconds, table


# ---- predict ----


@dataclass(frozen=True)
class Prediction(_answers.Prediction, Framed):
    __doc__ = _answers.Prediction.__doc__

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


class Document:
    """An answer without a class of its own, as what is left of a run that died, or its log: the keys of its JSON are attributes."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.__dict__.update({key: _document(value) for key, value in data.items()})

    def __repr__(self) -> str:
        return f"Document({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


def _document(value: Any) -> Any:
    if isinstance(value, dict):
        return Document(value)
    return [_document(one) for one in value] if isinstance(value, list) else value


# ---- plan ----


@dataclass(frozen=True)
class Plan(_answers.Plan, Framed):
    __doc__ = _answers.Plan.__doc__
    _rows_of = "_choices"

    version: str
    launch: Optional[str] = field(default=None, metadata={"json": False})  # with emit=..., the launch line of the best
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
class Validation(_answers.Validation, Framed):
    __doc__ = _answers.Validation.__doc__
    _rows_of = "rows"

    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        def line(a: Accuracy) -> List[Any]:
            return [a.by or "all", a.name or "all", a.scored, percent(a.geomean_error), percent(a.mape), percent(a.bias)]

        return page(self.command, table(["by", "name", "scored", "error", "MAPE", "bias"], [line(a) for a in [self.summary, *self.groups]]))


# ---- explain ----


@dataclass(frozen=True)
class Explanation(_answers.Explanation, Framed):
    __doc__ = _answers.Explanation.__doc__
    _rows_of = "stalls"

    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        stalls = [[s.rank_of_stall, s.what, seconds(s.lost_s), seconds(s.gain_s), s.evidence or "", s.remedy or ""] for s in self.stalls]
        return page(f"{self.step_count} steps of {seconds(self.step_s)} on {self.ranks} ranks",
                    table(["", "stall", "costs", "worth", "evidence", "remedy"], stalls), *map(escape, self.warnings))


# ---- shard ----


@dataclass(frozen=True)
class Sharding(_answers.Sharding, Framed):
    __doc__ = _answers.Sharding.__doc__
    _rows_of = "pieces"

    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        strip = (f"{self.sharder}: step {seconds(self.step_s)}, at most {percent(self.gap)} from the best" if self.fits
                 else self.reason or "does not fit")
        return page(f"{self.tables} tables on {self.cluster}", f"<b>{escape(strip)}</b>", self.ranks._repr_html_(), self.pieces._repr_html_())


# ---- rent ----


@dataclass(frozen=True)
class Rent(_answers.Rent, Framed):
    __doc__ = _answers.Rent.__doc__
    _rows_of = "choices"

    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        rows = [[c.provider, c.instance, c.machines, c.gpus, c.layout or "", f"{c.hours:,.1f} h", f"${c.cost_usd:,.0f}", c.stall or "",
                 " ".join(word for word, there in (("cheapest", i == self.cheapest), ("fastest", i == self.fastest), ("most", i == self.most)) if there)]
                for i, c in enumerate(self.choices)]
        return page(self.model, table(["provider", "instance", "machines", "GPUs", "layout", "time", "cost", "stall", ""], rows),
                    escape(self.nothing) if self.nothing else "")


# ---- whatif ----


@dataclass(frozen=True)
class WhatIf(_answers.WhatIf, Framed):
    __doc__ = _answers.WhatIf.__doc__
    _rows_of = "changes"

    failed_check: Optional[str] = None  # of its own consistency; None: all hold

    def _repr_html_(self) -> str:
        rows = [[c.change, seconds(c.step_time_s), percent(c.vs_base), c.refused or ""] for c in self.changes]
        return page(self.source, table(["change", "step", "against base", ""], rows))


# ---- simulate ----


@dataclass(frozen=True)
class Simulation(_answers.Simulation, Framed):
    __doc__ = _answers.Simulation.__doc__
    _rows_of = "programs"

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


__all__ = [*_answers.__all__, "Sweep", "Table"]
