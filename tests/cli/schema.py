#!/usr/bin/env python3
"""schema.py FILE...: JSON answers against docs/reference/schemas. Of every document of a file (one, an array or JSON lines) it
prints what is wrong, nothing where all is right; the parts of JSON Schema (draft 2020-12) that tools/schemas.py writes.
"""
import json
import os
import sys

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/reference/schemas")
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "title", "description", "$defs", "$ref", "anyOf", "const", "type", "properties", "required",
         "additionalProperties", "items"}


def is_kind(value, kind):
    if kind in ("number", "integer"):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (kind == "number" or value == int(value))
    return isinstance(value, KINDS[kind])


def faults(value, schema, root, at="$"):
    """What of `value` is not as `schema` says."""
    unknown = set(schema) - KNOWN
    if unknown:
        raise ValueError(f"this reader lacks {unknown}")
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    if "anyOf" in schema:
        found = [list(faults(value, form, root, at)) for form in schema["anyOf"]]
        if all(found):
            yield from min(found, key=len)
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        yield f"{at}: {json.dumps(value)[:60]} is not of type {' or '.join(kinds)}"
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{at}: {key} is missing" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            if key in properties:
                yield from faults(item, properties[key], root, f"{at}.{key}")
            elif more is False:
                yield f"{at}: {key} is not in the schema"
            elif isinstance(more, dict):
                yield from faults(item, more, root, f"{at}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from faults(item, schema["items"], root, f"{at}[{i}]")


def check(document):
    """Faults of one document: its schema by its first member, then the order of its head."""
    if not isinstance(document, dict) or list(document)[:3] != ["schema", "version", "data_date"]:
        return ["$: does not begin with schema, version, data_date"]
    name = document["schema"].split("/")[1]
    path = os.path.join(PLACE, name + ".json")
    if not os.path.exists(path):
        return [f"$: no schema {document['schema']}"]
    schema = json.load(open(path, encoding="utf-8"))
    return list(faults(document, schema, schema))


def documents(text):
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]
    return found if isinstance(found, list) else [found]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for one in documents(open(name, encoding="utf-8").read()):
            for fault in check(one):
                print(f"{name}: {one.get('schema')}: {fault}")
