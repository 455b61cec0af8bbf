#!/usr/bin/env python3
"""schemas.py: writes docs/reference/schemas/ (JSON Schema, draft 2020-12) from the program's tables of answers.

    tools/schemas.py [PROGRAM]            writes them; PROGRAM: build/release/lockstep
    tools/schemas.py [PROGRAM] --check    says whether they are as they would be written

`PROGRAM --answers` prints the fields of the answers that have such tables; the other documents are below.

Types: bool, int, num, text, any; [T] an array; {key:T ...} an object; {*:T} an object with any keys; a capital letter names a type
of TYPES; "T?" may be null; "key?:T" may be absent; "A | B" is one of both. tools/openapi.py, python/tests and tests/cli take their
keys from here.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, "docs/reference/schemas")

TYPES = {
    "Condition": "{value:text divisor:text}",
    "Schedule": "{name:text directives:[text]}",
    "Value": """{id:int op:text name:text? dtype:text? operands:[int] shape:[text] layout:[text]? line:int column:int
        attributes?:text of?:text number?:num list?:text at?:text}""",
}

# Every document: what prints it, and its keys; `schema`, `version` and `data_date` come first in all of them.
DOCUMENTS = {
    "compile-check": ("`compile check -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[Condition] schedules:[Schedule]}]}"),
    "compile-print": ("`compile print -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[Condition] schedules:[Schedule] values:[Value]}]}"),
    "compile-rewrite": ("`compile rewrite -o json`",
        "{file:text programs:[{name:text mesh:[text] conditions:[Condition] schedules:[Schedule] values:[Value]}]}"),
}



def load(program):
    """Adds the answers that the program describes itself."""
    ran = subprocess.run([program, "--answers"], capture_output=True, text=True, check=True)
    told = json.loads(ran.stdout)
    TYPES.update(told["types"])
    DOCUMENTS.update({name: (document["prints"], document["type"]) for name, document in told["documents"].items()})


SIMPLE = {"bool": "boolean", "int": "integer", "num": "number", "text": "string", "real": ["number", "string"]}
ROW = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
TOKEN = re.compile(r"\s*([A-Za-z_][\w-]*\??:|\*:|[A-Za-z]\w*|[\[\]{}?|])")


class Reader:
    """Types of the notation above as schemas."""

    def __init__(self, text):
        self.tokens, self.at = TOKEN.findall(text), 0
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            raise ValueError("not a type: " + text)
        self.used = set()

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def type(self):
        token = self.take()
        if token == "[":
            schema = {"type": "array", "items": self.type()}
            assert self.take() == "]"
        elif token == "{":
            schema = self.object()
        elif token in SIMPLE:
            schema = {"type": SIMPLE[token]}
        elif token == "any":
            schema = {}
        else:
            self.used.add(token)
            schema = {"$ref": "#/$defs/" + token}
        if self.peek() == "?":
            self.take()
            if "type" in schema and isinstance(schema["type"], str):
                schema["type"] = [schema["type"], "null"]
            else:
                schema = {"anyOf": [schema, {"type": "null"}]}
        return schema

    def object(self):
        schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        while self.peek() != "}":
            key = self.take()[:-1]
            if key == "*":
                schema = {"type": "object", "additionalProperties": self.type()}
                continue
            name = key.rstrip("?")
            schema["properties"][name] = self.type()
            if key == name:
                schema["required"].append(name)
        self.take()
        return schema

    def alternatives(self):
        found = [self.type()]
        while self.peek() == "|":
            self.take()
            found.append(self.type())
        return found


def definitions(names):
    """The named types that `names` need, each once."""
    defs, left = {}, sorted(names)
    while left:
        name = left.pop(0)
        if name in defs:
            continue
        if name == "Row":
            defs[name] = ROW
            continue
        reader = Reader(TYPES[name])
        defs[name] = reader.type()
        left += sorted(reader.used)
    return dict(sorted(defs.items()))


# Of an answer whose check of its own consistency failed, alone.
FAILED = {"checked": {"const": False}, "failed_check": {"type": "string"}}


def head(name, version):
    return {"schema": {"const": f"lockstep/{name}/{version}"}, "version": {"type": "string"}, "data_date": {"type": "string"}}


def with_head(schema, name, version):
    return {**schema, "properties": {**head(name, version), **FAILED, **schema["properties"]},
            "required": [*head(name, version), *schema["required"]]}


def document(name, version=1):
    """The schema of one document."""
    what, text = DOCUMENTS[name]
    reader = Reader(text)
    forms = reader.alternatives()
    defs = definitions(reader.used)
    top = [form["$ref"].rsplit("/", 1)[1] for form in forms if "$ref" in form]
    for form in top:
        defs[form] = with_head(defs[form], name, version)
    body = {"anyOf": forms} if len(forms) > 1 else with_head(forms[0], name, version)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"lockstep/{name}/{version}",
            "description": "What is printed by " + what + ".", **body, **({"$defs": defs} if defs else {})}


def files():
    return {name + ".json": json.dumps(document(name), indent="\t") + "\n" for name in DOCUMENTS}


def main():
    programs = [word for word in sys.argv[1:] if word != "--check"]
    load(programs[0] if programs else os.path.join(ROOT, "build/release/lockstep"))
    wrong = []
    for name, text in files().items():
        path = os.path.join(PLACE, name)
        if "--check" in sys.argv:
            if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
                wrong.append(name)
            continue
        os.makedirs(PLACE, exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    extra = set(os.listdir(PLACE)) - set(files())
    if wrong or extra:
        sys.exit("docs/reference/schemas: run tools/schemas.py; not as the tables have it: " + ", ".join([*wrong, *sorted(extra)]))


if __name__ == "__main__":
    main()
