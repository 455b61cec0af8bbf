"""Graphs of torch.export as programs: ATen's operations by the rows of operations.py.

The serialized form is read (torch.export.save: a zip with models/*.json or serialized_exported_program.json; its schema is torch/_export/serde/
schema.py), so that no PyTorch, and none of the version that wrote it, is needed."""

from __future__ import annotations

import json
import math
import re
import zipfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .._errors import FileError, InputError
from .capture import Placements, read_mesh
from .captured import Captured, finish
from .operations import in_place, row_of
from .words import Unsayable, Value, Words

# ScalarType of the schema.
FORMATS = {1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 12: "bool", 13: "bf16"}


def _program(source: Any) -> Tuple[Mapping[str, Any], str]:
    """The exported program as JSON, from a file, a text or the object itself."""
    if isinstance(source, Mapping):
        return source, "graph"
    path = str(source)
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [one for one in archive.namelist() if re.search(r"(serialized_exported_program|models/[^/]+)\.json$", one)]
                if not names:
                    raise InputError(path, "holds no exported program", "write it by torch.export.save")
                return json.loads(archive.read(names[0])), path
        with open(path, encoding="utf-8") as file:
            return json.load(file), path
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, zipfile.BadZipFile, RecursionError):
        raise InputError(path, "is no exported program", "give what torch.export.save writes, or its JSON") from None


class _Reader:
    def __init__(self, graph: Mapping[str, Any], words: Words) -> None:
        self.graph, self.words = graph, words
        self.known: Dict[str, Any] = {}

    def type(self, name: str) -> Tuple[Tuple[int, ...], str]:
        meta = self.graph["tensor_values"][name]
        sizes = []
        for size in meta["sizes"]:
            if "as_int" not in size:
                raise Unsayable(f"{name}, whose size is open", "export without dynamic shapes")
            sizes.append(int(size["as_int"]))
        if meta["dtype"] not in FORMATS:
            raise Unsayable(f"{name}, a tensor of format {meta['dtype']}", "the language has no such tensors")
        return tuple(sizes), FORMATS[meta["dtype"]]

    def argument(self, argument: Mapping[str, Any]) -> Any:
        """One argument of the schema: a union with one member."""
        (kind, value), = list(argument.items())[:1]
        if kind == "as_tensor":
            return self.known[value["name"]]
        if kind in ("as_tensors", "as_optional_tensors"):
            return [self.known[one["name"]] if "name" in one else self.argument(one) for one in value]
        if kind == "as_none":
            return None
        if kind == "as_scalar_type":
            return FORMATS.get(value)
        if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings"):
            return float(value) if kind == "as_float" else value
        if kind in ("as_device", "as_layout", "as_memory_format"):
            return None
        if kind in ("as_sym_int", "as_sym_ints") and not (isinstance(value, Mapping) and "as_name" in value):
            return [one["as_int"] for one in value] if isinstance(value, list) else value["as_int"]
        raise Unsayable(f"an argument {kind}", "export without dynamic shapes and without control flow")

    def node(self, node: Mapping[str, Any]) -> None:
        target = node["target"]
        row = row_of(target.replace("torch.ops.", "").replace("aten.", "", 1))
        name = target.rpartition("aten.")[2]
        if row is None or in_place(name):
            raise Unsayable(f"the operation {target}", "docs/guide/capture.md has those that can be; export makes changes in place new values")
        positional, named = [], {}
        for one in node["inputs"]:
            value = self.argument(one["arg"])
            # Optional arguments by name; the first ones by place, as rows have them.
            if one.get("kind", 1) == 2 or (positional is not None and one["name"] in ("dtype", "alpha", "min", "max", "value", "keepdim", "correction")):
                if value is not None:
                    named[one["name"]] = value
            elif value is None and one["name"] in ("device", "layout", "pin_memory", "memory_format", "non_blocking"):
                continue
            else:
                positional.append(value)
        made = row(self.words, *positional, **named)
        outputs = node["outputs"]
        names = [one["name"] for one in outputs[0]["as_tensors"]] if "as_tensors" in outputs[0] else [one["as_tensor"]["name"] for one in outputs if "as_tensor" in one]
        for label, value in zip(names, made if isinstance(made, (list, tuple)) else [made]):
            shape, dtype = self.type(label)
            if value.shape != shape:
                raise Unsayable(f"{target} in this form", "say it by other operations")
            self.known[label] = self.words.cast(value, dtype)


def _place(node: Mapping[str, Any], number: int, where: str) -> Tuple[str, int]:
    """The user's line: the last of the stack trace."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.get("metadata", {}).get("stack_trace", "") or "")
    return (lines[-1][0], int(lines[-1][1])) if lines else (f"{where}: node", number)


def capture_exported(source: Any, mesh: Any, place: Optional[Mapping[str, str]] = None, name: str = "exported") -> Captured:
    """The program of an exported graph: a file of torch.export.save, or its JSON as a file or an object. Inputs have the names of the
    graph's signature (parameters: those of the module); `place` says where they lie, as for capture. What the graph changes in
    place (buffers) becomes a state."""
    document, where = _program(source)
    words = Words(read_mesh(mesh))
    placements = Placements(place, words.names)
    try:
        module = document["graph_module"]
        reader = _Reader(module["graph"], words)
        states: Dict[str, Value] = {}
        for one in module["signature"]["input_specs"]:
            (kind, spec), = one.items()
            argument = spec["arg"].get("as_tensor", spec["arg"]) if isinstance(spec["arg"], Mapping) else {}
            label = spec.get("parameter_name") or spec.get("buffer_name") or spec.get("tensor_constant_name") or argument["name"]
            shape, dtype = reader.type(argument["name"])
            value = words.input(re.sub(r"\W", "_", label), shape, dtype, placements.of(label, len(shape)))
            reader.known[argument["name"]] = states[label] = value
        placements.check()
        for number, node in enumerate(module["graph"]["nodes"], 1):
            words.place = _place(node, number, where)
            try:
                reader.node(node)
            except (Unsayable, TypeError) as error:
                what = error.what if isinstance(error, Unsayable) else f"{node['target']} with these arguments"
                raise InputError(f"{words.place[0]}:{words.place[1]}", f"{what} cannot be said in lockstep's language",
                                 getattr(error, "remedy", "")) from None
        outputs: List[Value] = []
        for one in module["signature"]["output_specs"]:
            (kind, spec), = one.items()
            value = reader.known[spec["arg"]["as_tensor"]["name"] if "as_tensor" in spec["arg"] else spec["arg"]["name"]]
            if kind in ("buffer_mutation", "user_input_mutation"):
                words.updates[states[spec.get("buffer_name") or spec.get("user_input_name")]] = value
            else:
                outputs.append(value)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(where, f"is no exported program: {error} is missing or wrong", "give what torch.export.save writes") from None
    except Unsayable as error:
        raise InputError(where, f"{error.what} cannot be said", error.remedy) from None
    return finish(words, outputs, name, {}, None)
