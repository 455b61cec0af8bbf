"""Dataclasses from JSON, by their type hints."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Callable, Dict, Mapping

from ._columns import Table

Maker = Callable[[Any], Any]
_makers: Dict[type, Dict[str, Maker | None]] = {}


def _maker(hint: Any) -> Maker | None:
    """How a value of JSON becomes one of a type; None: as it is."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Table:
        return Table.of_rows
    if dataclasses.is_dataclass(hint):
        return lambda value: None if value is None else build(hint, value)
    if origin is list:
        inner = _maker(arguments[0])
        return (lambda values: [inner(value) for value in values]) if inner else None
    if origin is dict:
        inner = _maker(arguments[1])
        return (lambda values: {key: inner(value) for key, value in values.items()}) if inner else None
    if origin is typing.Union:
        some = next((maker for maker in map(_maker, arguments) if maker), None)
        return (lambda value: None if value is None else some(value)) if some else None
    return None


def makers(kind: type) -> Dict[str, Maker | None]:
    """For every field that JSON fills."""
    if kind not in _makers:
        hints = typing.get_type_hints(kind)
        _makers[kind] = {f.name: _maker(hints[f.name]) for f in dataclasses.fields(kind) if f.metadata.get("json", True)}
    return _makers[kind]


def build(kind: type, data: Mapping[str, Any], **more: Any) -> Any:
    """An object of `kind`: keys that it does not know are left out, those that are missing take its defaults."""
    values = dict(more)
    for name, maker in makers(kind).items():
        if name in data and name not in values:
            values[name] = maker(data[name]) if maker else data[name]
    return kind(**values)
