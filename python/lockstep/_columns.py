"""Tables: columns as NumPy arrays where NumPy is there, else as array.array and lists."""

from __future__ import annotations

import array
import ctypes
import math
import operator
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence

from ._frame import Framed
from ._html import page, table

_SHOWN = 20


def _numpy() -> Any:
    """NumPy, or None. It is imported when the first array is made."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def numbers(values: Any) -> Any:
    """An array of doubles of a ctypes array or a list of numbers and None."""
    numpy = _numpy()
    if isinstance(values, ctypes.Array):
        return numpy.array(values, dtype=float) if numpy else array.array("d", bytes(values))
    listed = [math.nan if value is None else value for value in values]
    return numpy.array(listed, dtype=float) if numpy else array.array("d", listed)


def truths(values: Sequence[bool]) -> Any:
    """An array of truth values, or a list."""
    numpy = _numpy()
    return numpy.array(values, dtype=bool) if numpy else list(values)


def texts(values: Any) -> List[str | None]:
    """Texts of an array of C strings; the same text is made once."""
    known: Dict[bytes, str] = {}
    out: List[str | None] = []
    for value in values:
        if value is None:
            out.append(None)
            continue
        text = known.get(value)
        if text is None:
            text = known[value] = value.decode("utf-8", "replace")
        out.append(text)
    return out


class Table(Framed):
    """Rows and columns. `table["dur_ns"]` is a column: an array of doubles (NaN where there is no number) or a list of texts.
    `table[3]` is a row as a dict, and so is each of `for row in table`. `len(table)` counts rows, `table.keys()` names the columns,
    `dict(table)` is what pandas.DataFrame takes. Columns are made when they are looked at."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]], length: int, title: str = "") -> None:
        self._makers, self._made, self._length, self._title = dict(makers), {}, length, title

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], title: str = "") -> "Table":
        """Of objects that have the same keys."""
        keys = list(rows[0]) if rows else []

        def maker(key: str) -> Callable[[], Any]:
            def make() -> Any:
                values = [row.get(key) for row in rows]
                is_number = all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)
                return numbers(values) if is_number and any(value is not None for value in values) else values

            return make

        return cls({key: maker(key) for key in keys}, len(rows), title)

    def _frame(self) -> "Table":
        return self

    def keys(self) -> List[str]:
        return list(self._makers)

    def column(self, key: str) -> Any:
        if key not in self._made:
            if key not in self._makers:
                raise KeyError(f"{key!r}; the columns are {', '.join(self._makers)}")
            self._made[key] = self._makers[key]()
        return self._made[key]

    def row(self, number: int) -> Dict[str, Any]:
        if not -self._length <= number < self._length:
            raise IndexError(f"row {number} of {self._length}")
        return {key: _plain(self.column(key)[number]) for key in self._makers}

    def __getitem__(self, what: str | int) -> Any:
        return self.column(what) if isinstance(what, str) else self.row(operator.index(what))

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return (self.row(i) for i in range(self._length))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        title = f" {self._title}" if self._title else ""
        return f"<{type(self).__name__}{title}: {self._length} rows of {', '.join(self._makers)}>"

    def _repr_html_(self) -> str:
        rows = [list(self.row(i).values()) for i in range(min(self._length, _SHOWN))]
        more = f"{self._length - _SHOWN} more rows" if self._length > _SHOWN else ""
        return page(self._title, table(self.keys(), rows), more)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's; None for NaN."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value
