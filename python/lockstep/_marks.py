"""Marks: parts of a program's work that it names itself, which `lockstep stalls` reports as parts of the step. They are the
recorder's, where `lockstep record` or `lockstep stalls` has loaded it; otherwise they do nothing."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any


def _function(name: str, *arguments: Any) -> Any:
    """A function of the recorder, called with the interpreter's lock held, as it takes less than letting go; None: not recorded."""
    function = getattr(ctypes.PyDLL(None), name, None)
    if function:
        function.argtypes, function.restype = arguments, None
    return function


_begin, _end = _function("lockstep_probe_mark_begin", ctypes.c_char_p), _function("lockstep_probe_mark_end")


def mark_begin(name: str) -> None:
    """From here on the calling thread works on `name`. Marks nest; time belongs to the innermost."""
    if _begin:
        _begin(name.encode("utf-8", "replace"))


def mark_end() -> None:
    """The mark that the calling thread began last ends."""
    if _end:
        _end()


class mark(contextlib.ContextDecorator):
    """A mark for a block, or for a function: `with lockstep.mark("compress"): ...`, `@lockstep.mark("compress")`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "mark":
        mark_begin(self.name)
        return self

    def __exit__(self, *error: Any) -> None:
        mark_end()
