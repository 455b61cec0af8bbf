#!/usr/bin/env python3
"""Writes lockstep/_verbs.py, the functions with all their options, and lockstep/_answers.py, the classes of what they answer, from
the tables of options and of answers of the library.

Usage: generate.py LIBRARY VERBS.py ANSWERS.py"""

import ctypes
import keyword
import json
import re
import sys
import textwrap

# Options of the program's output: a function answers with an object.
PROGRAM = {"output", "file", "verbose", "resume"}
OUTPUT = {"explain": {"table", "top"}, "shard": {"table"}, "validate": {"rows"}}
RESULT = {"predict": "Prediction", "sweep": "Sweep", "plan": "Plan", "validate": "Validation", "explain": "Explanation",
          "shard": "Sharding", "rent": "Rent", "whatif": "WhatIf", "simulate": "Simulation"}
WIDTH = 128

HEAD = '''"""The functions, one for each verb. Written by python/generate.py from the library's option tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Literal, Mapping, Optional, Sequence, Union

from . import _ask, answers
from .graph import Graph

Path = Union[str, "os.PathLike[str]"]
Text = Union[str, int, float, "os.PathLike[str]"]
Count = Union[float, str]

'''


def tables(path):
    library = ctypes.CDLL(path)
    library.lk_reply_verbs.restype = ctypes.c_void_p
    library.lk_reply_json.restype = ctypes.c_char_p
    library.lk_reply_json.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.lk_reply_free.argtypes = [ctypes.c_void_p]
    reply = library.lk_reply_verbs()
    text = library.lk_reply_json(reply, None)
    verbs = json.loads(text.decode())
    library.lk_reply_free(reply)
    return verbs


def python_name(option):
    name = option["name"].replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def chosen(verb, table):
    hidden = PROGRAM | OUTPUT.get(verb, set())
    return [option for option in table["options"] if option["name"] not in hidden]


def hint(option, listed):
    kinds = {"flag": "bool", "switch": "bool", "int": "int", "real": "float", "count": "Count", "text": "Text",
             "lines": "Union[str, Sequence[str], Mapping[str, Any]]"}
    if option["kind"] == "choice":
        kind = "Literal[" + ", ".join(json.dumps(choice) for choice in option["choices"]) + "]"
    else:
        kind = kinds[option["kind"]]
    many = (option["sweep"] and listed) or (option["value"] or "").endswith(",...")
    return f"Union[{kind}, Sequence[{kind}], None]" if many else f"Optional[{kind}]"


def limits(option):
    if option["low"] is None:
        return ""
    if option["high"] >= 1e15:
        return f" (at least {option['low']:g})"
    return f" ({option['low']:g} to {option['high']:.10g})"


def paragraph(text, indent):
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ")


def arguments_text(options, indent):
    out, group = [], None
    for option in options:
        if option["group"] != group:
            group = option["group"]
            out.append(f"\n{indent}{group}:")
        out.append(paragraph(f"{python_name(option)}: {option['help']}{limits(option)}", indent + "    "))
    return "\n".join(out)


def quoted(text):
    return text.replace("\\", "\\\\").replace('"""', "'''")


def parameters(options, listed):
    return "".join(f"    {python_name(option)}: {hint(option, listed)} = None,\n" for option in options)


def option_table(verb, options):
    rows = ",\n".join(
        f"    {json.dumps(python_name(o))}: {{'name': {json.dumps(o['name'])}, 'kind': {json.dumps(o['kind'])}, "
        f"'sweep': {o['sweep']}, 'value': {o['value'] and json.dumps(o['value'])}}}" for o in options)
    return f"_{verb.upper()}: Dict[str, Dict[str, Any]] = {{\n{rows},\n}}\n\n\n"


def given(options, more=()):
    names = [python_name(option) for option in options] + list(more)
    pairs = ", ".join(f"{name}={name}" for name in names)
    return textwrap.fill(f"values = dict({pairs}, **unknown)", WIDTH, initial_indent="    ", subsequent_indent="                  ",
                         break_long_words=False) + "\n"


def function(name, first, options, doc, body, listed=False, more=""):
    head = f"def {name}(\n{first}{parameters(options, listed)}{more}    **unknown: Any,\n) -> answers.{RESULT[name]}:\n"
    text = paragraph(doc[0], "    ").lstrip()
    rest = "".join("\n\n" + paragraph(line, "    ") for line in doc[1:])
    return head + f'    """{quoted(text + rest)}\n{quoted(arguments_text(options, "    "))}\n    """\n' + body + "\n\n"


LAUNCH = "    launch: Union[str, Sequence[str], None] = None,\n"
LAUNCH_DOC = "launch: a launch line as it is typed for Megatron-LM and others; options given beside it win."


def request_class(options):
    fields = "".join(f"    {python_name(o)}: {hint(o, True)} = None\n" for o in options)
    return ('@dataclass\nclass PredictRequest:\n    """What `predict` and `sweep` are asked; the fields are the keywords of '
            f'`predict`. None: not said."""\n\n{fields}    launch: Union[str, Sequence[str], None] = None\n\n\n')


def write(verbs):
    use = {verb: chosen(verb, table) for verb, table in verbs.items()}
    head = {verb: table["summary"][0].upper() + table["summary"][1:] for verb, table in verbs.items()}
    out = HEAD + "".join(option_table(verb, options) for verb, options in use.items())
    predict = use["predict"]
    files = {"trace", "trace-ranks", "graph", "chakra", "goal"}
    sweep = [o for o in predict if o["name"] not in files]
    out += request_class(predict)
    out += function("predict", "    request: Optional[PredictRequest] = None,\n    /,\n    *,\n", predict,
                    [head["predict"], "Keywords beside a request win. " + LAUNCH_DOC],
                    given(predict, ["launch"]) + "    return _ask.predict(_PREDICT, request, values)\n", more=LAUNCH)
    out += function("sweep", "    requests: Optional[Iterable[PredictRequest]] = None,\n    /,\n    *,\n", sweep,
                    ["Many predictions at once, on all cores: lists make a row for each combination, the last one varying fastest.",
                     "Or give requests: a row (or the combinations of its lists) for each. " + LAUNCH_DOC + " threads: how many; all cores."],
                    given(sweep, ["launch"]) + "    return _ask.sweep(_PREDICT, requests, values, threads)\n", listed=True,
                    more=LAUNCH + "    threads: Optional[int] = None,\n")
    out += function("plan", "    *,\n", use["plan"], [head["plan"], LAUNCH_DOC],
                    given(use["plan"], ["launch"]) + "    return _ask.plan(_PLAN, values)\n", more=LAUNCH)
    one = "    return _ask.about(answers.{kind}, {verb!r}, _{upper}, {operands}, values)\n"
    for verb, first, operands, more in (
            ("validate", "    table: Path,\n    /,\n    *,\n", "_ask.operands('table', table)", "table: the measurements, .csv or .csv.gz."),
            ("explain", "    *traces: Path,\n", "_ask.operands('traces', traces)", "traces: files, and folders of them."),
            ("shard", "    tables: Optional[Path] = None,\n    /,\n    *,\n", "[] if tables is None else _ask.operands('tables', tables)",
             "tables: CSV with name, rows, dim, pooling; or model=."),
            ("rent", "    *,\n", "[]", ""),
            ("whatif", "    paths: Union[Path, Sequence[Path]],\n    /,\n    *,\n", "_ask.operands('paths', paths)",
             "paths: a step graph, or traces. set: changes, as {'nic': '2x'} or ['nic=2x'].")):
        body = one.format(kind=RESULT[verb], verb=verb, upper=verb.upper(), operands=operands)
        out += function(verb, first, use[verb], [head[verb], more] if more else [head[verb]], given(use[verb]) + body)
    out += function("simulate", "    graph: Union[Graph, Path],\n    /,\n    *,\n", use["simulate"],
                    [head["simulate"], "graph: a Graph, or a file of that form."],
                    given(use["simulate"]) + "    return _ask.simulate(_SIMULATE, graph, values)\n")
    for verb, what in (("devices", "GPUs"), ("models", "networks")):
        out += (f'def {verb}(name: Optional[str] = None) -> List[Dict[str, Any]]:\n    """The {what} that are known by name; '
                f'name: a part of it."""\n    return _ask.listed("{verb}", name)\n\n\n')
    return out.rstrip() + "\n"


# ---- answers ----

ANSWERS_HEAD = '''"""What is in answers: dataclasses with the keys of the program's JSON. Written by python/generate.py from the library's tables of
answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ._columns import Table

__all__ = [{names}]
'''
PLAIN = {"bool": "bool", "int": "int", "num": "float", "text": "str", "any": "Any"}


def answers(path):
    """What `lockstep --answers` prints."""
    library = ctypes.CDLL(path)
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    error = ctypes.create_string_buffer(1 << 16)
    library.lk_memory_open.restype = ctypes.c_void_p
    library.lk_memory_close.argtypes = [ctypes.c_void_p]
    library.lk_answers_print.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    out = library.lk_memory_open(ctypes.byref(text), ctypes.byref(size))
    if library.lk_answers_print(out, error) or not library.lk_memory_close(out):
        raise SystemExit("generate.py: the library does not tell its answers")
    return json.loads(text.value.decode())


def answer_hint(kind):
    """The hint of a type in the notation of tools/schemas.py; rows without a class are a Table."""
    if kind.endswith("?"):
        return f"Optional[{answer_hint(kind[:-1])}]"
    if kind == "[Row]" or kind.startswith("[{"):
        return "Table"
    if kind.startswith("["):
        return f"List[{answer_hint(kind[1:-1])}]"
    if kind.startswith("{*:"):
        return f"Dict[str, {answer_hint(kind[3:-1])}]"
    if kind in PLAIN:
        return PLAIN[kind]
    if not re.fullmatch(r"[A-Z]\w*", kind):
        raise SystemExit(f"generate.py: no hint for the type {kind}")
    return kind


def answer_class(name, told):
    """A dataclass; keys that may be absent come last. What was requested (any) is no part of it."""
    always = [(key, kind) for key, kind in told["fields"].items() if not key.endswith("?")]
    absent = [(key[:-1], kind) for key, kind in told["fields"].items() if key.endswith("?") and kind != "{*:any}"]
    lines = [f"    {key}: {answer_hint(kind)}\n" for key, kind in always]
    lines += [f"    {key}: Optional[{answer_hint(kind)}] = None\n" for key, kind in absent]
    doc = textwrap.fill('"""' + quoted(told["what"]) + '"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"\n\n@dataclass(frozen=True)\nclass {name}:\n{doc}\n\n{''.join(lines)}"


def write_answers(classes):
    names = textwrap.fill(", ".join(json.dumps(name) for name in sorted(classes)), WIDTH - 11).replace("\n", "\n           ")
    return ANSWERS_HEAD.replace("{names}", names) + "".join(answer_class(name, told) for name, told in classes.items())


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out_file:
        out_file.write(write(tables(sys.argv[1])))
    with open(sys.argv[3], "w", encoding="utf-8") as out_file:
        out_file.write(write_answers(answers(sys.argv[1])["classes"]))
