"""From the arguments of the functions to words, from replies to answers. The functions themselves are written by
python/generate.py from the library's option tables."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from . import _library, _words, answers
from ._build import build
from ._errors import InputError
from .graph import Graph

Options = Mapping[str, Mapping[str, Any]]

# Parameters that are no options.
_OUTSIDE = ("launch", "threads")


def _answer(kind: type, reply: _library.Reply, **more: Any) -> Any:
    data = json.loads(reply.json() or "{}")
    if data.get("checked") is False:
        warnings.warn(f"internal check of lockstep failed: {data['failed_check']}; use this answer with caution, and report this message",
                      stacklevel=4)
    # What a file is may decide who answers: a log, what a run left, a run beside its job, two runs.
    kind = _BY_SCHEMA.get(data.get("schema", "").rpartition("/")[0], kind)
    return kind(data) if kind is answers.Document else build(kind, data, **more)


_BY_SCHEMA = {"lockstep/predict": answers.Prediction, "lockstep/log": answers.Document, "lockstep/postmortem": answers.Document,
              "lockstep/diff": answers.Document, "lockstep/table": answers.Document}


def _with_request(request: Any, values: Dict[str, Any]) -> Dict[str, Any]:
    """Keywords beside a request win."""
    if request is None:
        return values
    if not dataclasses.is_dataclass(request) or isinstance(request, type) or type(request).__name__ != "PredictRequest":
        raise InputError("request", f"a value of type {type(request).__name__} is no PredictRequest",
                         "give a PredictRequest, or keywords")
    return {**vars(request), **{key: value for key, value in values.items() if value is not None}}


def _predict_words(table: Options, values: Mapping[str, Any]) -> List[str]:
    options = {key: value for key, value in values.items() if key not in _OUTSIDE}
    return _words.line(table, options) + _words.launch_words(values.get("launch"))


def predict(table: Options, request: Any, values: Dict[str, Any]) -> answers.Prediction:
    values = _with_request(request, values)
    return _answer(answers.Prediction, _library.ask("predict", _predict_words(table, values)))


def _thread_count(threads: Any) -> int:
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise InputError("threads", f"{threads!r} is no number of threads", "give one from 1 to 1024, or leave it out")
    return threads


def sweep(table: Options, requests: Any, values: Dict[str, Any], threads: Any) -> answers.Sweep:
    count = _thread_count(threads)
    if requests is None:
        requests = [None]
    elif not isinstance(requests, Iterable) or isinstance(requests, (str, bytes, Mapping)):
        raise InputError("requests", f"a value of type {type(requests).__name__} is no list of requests",
                         "give a list of PredictRequest, or lists as keywords")
    all_values = [_with_request(request, values) for request in requests]
    lines = [_predict_words(table, one) for one in all_values]
    return answers.Sweep(_library.sweep(lines, count))


def plan(table: Options, values: Dict[str, Any]) -> answers.Plan:
    reply = _library.ask("plan", _predict_words(table, values))
    return _answer(answers.Plan, reply, launch=reply.text())


def about(kind: type, verb: str, table: Options, operands: Sequence[str], values: Dict[str, Any]) -> Any:
    """Verbs whose words are options and operands."""
    words = _words.line(table, values) + list(operands)
    return _answer(kind, _library.ask(verb, words))


def operands(where: str, values: Any) -> List[str]:
    """One path or several."""
    if isinstance(values, (str, os.PathLike)) or not isinstance(values, Iterable):
        values = [values]
    return [_words.operand(where, value) for value in values]


def simulate(table: Options, graph: Any, values: Dict[str, Any]) -> answers.Simulation:
    if not isinstance(graph, Graph):
        words = _words.line(table, values) + operands("graph", graph)
        reply = _library.ask("simulate", words)
    else:
        text, places = graph._text()
        try:
            reply = _library.ask("simulate", _words.line(table, values), text.encode())
        except InputError as error:
            raise _placed(error, places) from None
    return _answer(answers.Simulation, reply, spans=answers.spans_of(reply))


def _placed(error: InputError, places: Mapping[int, str]) -> InputError:
    """The line of the text that nobody sees, as the operation or call that stands there."""
    line = re.match(r"graph:(\d+):\d+$", error.where)
    place = places.get(int(line.group(1))) if line else None
    if place is None:
        return error
    return InputError(place, error.what, error.remedy)


def listed(verb: str, name: Optional[str]) -> List[Dict[str, Any]]:
    """Devices or models whose name holds `name`."""
    if name is not None and (not isinstance(name, str) or not name):
        raise InputError("name", f"{name!r} is no name", "give a part of a name, or nothing")
    return json.loads(_library.ask(verb, [] if name is None else ["--", name]).json())["rows"]
