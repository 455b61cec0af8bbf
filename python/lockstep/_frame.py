"""Answers as data frames: to_pandas(), and the interchange protocol of data frames (__dataframe__, data-apis.org, 2021), which pandas,
Polars, PyArrow, Altair, Plotly and others read without a copy of numbers."""

from __future__ import annotations

import array
import dataclasses
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

# The protocol's numbers: kinds of values, and how missing ones are told.
_INT, _FLOAT, _BOOL, _STRING = 0, 2, 20, 21
_NEVER, _NAN, _BYTEMASK = 0, 1, 4
_CPU = (1, None)
DType = Tuple[int, int, str, str]


def flat(answer: Any, before: str = "") -> Dict[str, Any]:
    """What an answer states once: nested objects by joined names ("layout_tp"), lists left out."""
    members = answer.items() if isinstance(answer, dict) else ((f.name, getattr(answer, f.name)) for f in dataclasses.fields(answer))
    out: Dict[str, Any] = {}
    for key, value in members:
        if isinstance(value, dict) or dataclasses.is_dataclass(value):
            out.update(flat(value, f"{before}{key}_"))
        elif value is None or isinstance(value, (str, int, float)):
            out[before + key] = value
    return out


class Framed:
    """An answer that is rows. `_rows_of` names the field that holds them; None: the answer itself is one."""

    _rows_of = None  # a name

    def _frame(self) -> Any:
        from ._columns import Table

        rows = getattr(self, self._rows_of) if self._rows_of else [self]
        if isinstance(rows, Table):
            return rows
        found = [flat(row) for row in rows]
        keys = list(dict.fromkeys(key for row in found for key in row))
        return Table.of_rows([{key: row.get(key) for key in keys} for row in found])

    def to_pandas(self) -> Any:
        """A pandas.DataFrame: numbers as float64 (NaN where there is none), text and booleans unchanged."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas() needs pandas; install it, or read the columns: dict(table)") from None
        frame = self._frame()
        return pandas.DataFrame({key: frame[key] for key in frame.keys()}, index=range(len(frame)))

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> "DataFrame":
        frame = self._frame()
        return DataFrame([(key, frame[key]) for key in frame.keys()], len(frame))


# ---- the interchange protocol ----


class Buffer:
    """Memory of an array of NumPy or of the standard library, which it keeps."""

    def __init__(self, values: Any) -> None:
        self._values = values

    @property
    def bufsize(self) -> int:
        return len(self._values) * self._values.itemsize

    @property
    def ptr(self) -> int:
        return self._values.buffer_info()[0] if isinstance(self._values, array.array) else self._values.ctypes.data

    def __dlpack__(self) -> Any:
        raise NotImplementedError("__dlpack__")

    def __dlpack_device__(self) -> Tuple[int, Optional[int]]:
        return _CPU


class Column:
    """A column of numbers, of truth values, or of texts, what else there is being written as a text."""

    offset = 0
    metadata: Dict[str, Any] = {}

    def __init__(self, values: Any) -> None:
        self._values = values
        listed = isinstance(values, list)
        self._truths = (not listed and values.dtype.kind == "b") if hasattr(values, "dtype") else \
            listed and bool(values) and all(isinstance(value, bool) for value in values)
        self._numbers = not listed and not self._truths

    def size(self) -> int:
        return len(self._values)

    @property
    def dtype(self) -> DType:
        if self._numbers:
            return _FLOAT, 64, "g", "="
        return (_BOOL, 8, "b", "=") if self._truths else (_STRING, 8, "u", "=")

    @property
    def describe_categorical(self) -> Any:
        raise TypeError("the column is not categorical")

    @property
    def describe_null(self) -> Tuple[int, Any]:
        if self._numbers:
            return _NAN, None
        return (_NEVER, None) if self._truths else (_BYTEMASK, 0)

    @property
    def null_count(self) -> int:
        return sum(value is None or value != value for value in self._values)

    def num_chunks(self) -> int:
        return 1

    def get_chunks(self, n_chunks: Optional[int] = None) -> Iterator["Column"]:
        for begin, end in _parts(len(self._values), n_chunks):
            yield Column(self._values[begin:end])

    def get_buffers(self) -> Dict[str, Any]:
        if self._numbers:
            return {"data": (Buffer(self._values), self.dtype), "validity": None, "offsets": None}
        if self._truths:
            return {"data": (Buffer(array.array("B", [bool(v) for v in self._values])), self.dtype), "validity": None, "offsets": None}
        words = [b"" if value is None else str(value).encode() for value in self._values]
        offsets = array.array("q", [0])
        for word in words:
            offsets.append(offsets[-1] + len(word))
        there = array.array("B", [value is not None for value in self._values])
        data = array.array("B", b"".join(words) or b"\0")  # readers take no empty memory
        return {"data": (Buffer(data), (_STRING, 8, "u", "=")),
                "validity": (Buffer(there), (_BOOL, 8, "b", "=")),
                "offsets": (Buffer(offsets), (_INT, 64, "l", "="))}


class DataFrame:
    """Columns by name."""

    metadata: Dict[str, Any] = {}

    def __init__(self, columns: List[Tuple[str, Any]], rows: int) -> None:
        self._columns, self._rows = columns, rows

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> "DataFrame":
        return self

    def num_columns(self) -> int:
        return len(self._columns)

    def num_rows(self) -> int:
        return self._rows

    def num_chunks(self) -> int:
        return 1

    def column_names(self) -> List[str]:
        return [name for name, _ in self._columns]

    def get_column(self, i: int) -> Column:
        return Column(self._columns[i][1])

    def get_column_by_name(self, name: str) -> Column:
        return Column(dict(self._columns)[name])

    def get_columns(self) -> List[Column]:
        return [Column(values) for _, values in self._columns]

    def select_columns(self, indices: Sequence[int]) -> "DataFrame":
        return DataFrame([self._columns[i] for i in indices], self._rows)

    def select_columns_by_name(self, names: Iterable[str]) -> "DataFrame":
        known = dict(self._columns)
        return DataFrame([(name, known[name]) for name in names], self._rows)

    def get_chunks(self, n_chunks: Optional[int] = None) -> Iterator["DataFrame"]:
        for begin, end in _parts(self._rows, n_chunks):
            yield DataFrame([(name, values[begin:end]) for name, values in self._columns], end - begin)


def _parts(count: int, parts: Optional[int]) -> Iterator[Tuple[int, int]]:
    """Where `parts` almost equal parts of `count` begin and end."""
    parts = parts or 1
    for i in range(parts):
        yield count * i // parts, count * (i + 1) // parts
