"""lockstep: step time and memory of distributed training, predicted without a GPU.

    import lockstep
    answer = lockstep.predict(model="llama3.1-8b", gpu="h100-sxm", gpus=8, tp=2, gbs=64, seq=8192)
    answer.fits, answer.step_time_s

docs/guide/python.md shows every function."""

from __future__ import annotations

from ._errors import FileError, InputError, InternalError, LockstepError, OutOfMemory, Stopped
from ._library import data_date, version
from ._marks import mark, mark_begin, mark_end
from ._verbs import PredictRequest, devices, explain, models, plan, predict, rent, shard, simulate, sweep, validate, whatif
from .answers import (Accuracy, Action, Change, CriticalPart, Explanation, Fix, Layout, Plan, PlanChoice, PlanCount, PlanSync, PlanTree, PlanTreeLevel, PhaseSpan, Prediction,
                      ProgramTimes, Rent, RentChoice, RentFunction, Sensitivity, Sharding, Simulation, StageMemory, Stall, Sweep, Table, TimePart,
                      Validation, WhatIf)
from .graph import Block, Call, Graph, Operation, Program, Team

__version__ = version()
__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "answers", "graph")]
