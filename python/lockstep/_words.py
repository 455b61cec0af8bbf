"""Values of Python as words of a command line: what is right or wrong is then said by the library, with its own texts."""

from __future__ import annotations

import math
import numbers
import operator
import os
import shlex
from typing import Any, Iterable, Mapping, Sequence

from ._errors import InputError


def _is_list(value: Any) -> bool:
    if isinstance(value, (str, bytes, os.PathLike, Mapping)):
        return False
    return isinstance(value, (list, tuple, range, set, frozenset)) or (hasattr(value, "__iter__") and hasattr(value, "tolist")
                                                                        and getattr(value, "ndim", 1) > 0)


def _wrong(where: str, value: Any, wanted: str) -> InputError:
    return InputError(where, f"a value of type {type(value).__name__} is not understood", f"give {wanted}")


def _number(value: Any) -> str | None:
    """Numbers of any library as text; None where it is none."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        return str(operator.index(value))
    except TypeError:
        pass
    if not isinstance(value, numbers.Real):
        return None
    real = float(value)
    return str(int(real)) if math.isfinite(real) and real.is_integer() and abs(real) < 1e15 else repr(real)


_WANTED = {"int": "a whole number", "real": "a number", "count": "a number, or a text like 15T", "text": "a text",
           "choice": "a text", "lines": "texts"}


def _one(option: Mapping[str, Any], where: str, value: Any) -> str:
    """One value as text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    number = _number(value)
    if number is None:
        raise _wrong(where, value, _WANTED[option["kind"]])
    return number


def _listed(option: Mapping[str, Any], where: str, values: Iterable[Any]) -> str:
    texts = [_one(option, where, value) for value in values]
    if not texts:
        raise InputError(where, "the list is empty", "give a value, or leave it out")
    for text in texts:
        if "," in text and len(texts) > 1:
            raise InputError(where, f'"{text}" holds a comma', "values of lists may not")
    return ",".join(texts)


def _switch(option: Mapping[str, Any], where: str, value: Any) -> list[str]:
    if not isinstance(value, bool) and type(value).__name__ != "bool_":
        raise _wrong(where, value, "True or False")
    if value:
        return [where]
    return ["--no-" + option["name"]] if option["kind"] == "switch" else []


def words_of(option: Mapping[str, Any], value: Any) -> list[str]:
    """The words that give an option a value; none for None."""
    where = "--" + option["name"]
    if value is None:
        return []
    if option["kind"] in ("flag", "switch"):
        return _switch(option, where, value)
    if option["kind"] == "lines":
        if isinstance(value, Mapping):
            value = [f"{key}={one}" for key, one in value.items()]
        values = value if _is_list(value) else [value]
        return [f"{where}={_one(option, where, one)}" for one in values]
    if _is_list(value):
        if not option["sweep"] and not (option["value"] or "").endswith(",..."):
            raise _wrong(where, value, _WANTED[option["kind"]])
        return [f"{where}={_listed(option, where, value)}"]
    return [f"{where}={_one(option, where, value)}"]


def launch_words(launch: str | Sequence[str] | None) -> list[str]:
    """A launch line as the words behind "--"."""
    if launch is None:
        return []
    if isinstance(launch, str):
        try:
            launch = shlex.split(launch.replace("\\\n", " "))
        except ValueError as error:
            raise InputError("launch", f"the line cannot be taken apart: {error}", "give its words as a list") from None
    words = list(launch) if _is_list(launch) else [launch]
    for word in words:
        if not isinstance(word, str):
            raise _wrong("launch", word, "a line as it is typed, or a list of its words")
    return ["--", *words] if words else []


def operand(where: str, value: Any) -> str:
    """A file or folder to read."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _wrong(where, value, "a path")
    if not value:
        raise InputError(where, "the path is empty", "name a file")
    if value == "-":
        raise InputError(where, "standard input is not read here", "name a file")
    return "./" + value if value.startswith("-") else value


def line(table: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> list[str]:
    """Options by their Python names as words. An unknown name is passed on: the library names the nearest one."""
    words: list[str] = []
    for name, value in values.items():
        option = table.get(name)
        if option is None:
            words.append("--" + name.replace("_", "-"))
        else:
            words += words_of(option, value)
    return words
