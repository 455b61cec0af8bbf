#!/usr/bin/env python3
"""Execution traces as lines, one node a line, by id: a second opinion on src/trace/read/pytorch_et.c and chakra.c.

Of PyTorch's JSON: id, name, parent, record function, sequence, thread, shapes, types, number of tensors.
Of Chakra's protobuf: id, name, type, control dependencies, data dependencies, duration, attributes."""
import gzip
import json
import re
import struct
import sys


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace('"', "")


def kind(text):
    many = re.match(r"GenericList\[Tensor\(([^)]*)\)", text)
    one = re.match(r"Tensor\(([^)]*)\)", text)
    return "TensorList(%s)" % many.group(1) if many else one.group(1) if one else text


def tensors(value):
    if not isinstance(value, list):
        return 0
    numbers = sum(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)
    one = len(value) == 6 and numbers == 5 and isinstance(value[5], str)
    return one + sum(tensors(v) for v in value)


def pytorch(document):
    for node in sorted(document["nodes"], key=lambda n: n["id"]):
        flat = "attrs" not in node
        more = node if flat else {a["name"]: a["value"] for a in node["attrs"]}
        inputs, outputs = node["inputs"], node["outputs"]
        shapes = node["input_shapes"] if flat else inputs["shapes"]
        types = node["input_types"] if flat else inputs["types"]
        values = [inputs, outputs] if flat else [inputs["values"], outputs["values"]]
        print(node["id"], node["name"], node["parent"] if flat else node["ctrl_deps"], more["rf_id"], more["seq_id"], more["tid"],
              compact(shapes), compact([kind(t) for t in types]), sum(tensors(v) for side in values for v in side), sep="\t")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 in (1, 2, 5), tag
            length = 8 if tag & 7 == 1 else 4
            if tag & 7 == 2:
                length, at = varint(data, at)
            value = data[at:at + length]
            assert len(value) == length
            at += length
        yield tag >> 3, value


def packed(values):
    out = []
    for value in values:
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            out.append(number)
    return ",".join(map(str, out))


def attribute(data):
    name, text = "", ""
    for number, value in fields(data):
        if number == 1:
            name = value.decode()
        elif number == 3:
            text = repr(struct.unpack("<d", value)[0])
        elif number == 29:
            text = value.decode()
        elif isinstance(value, int):
            text = str(value - (1 << 64) if number in (7, 9) and value >> 63 else value)
    return "%s=%s" % (name, text)


def chakra(data):
    at, nodes, record = 0, [], 0
    while at < len(data):
        length, at = varint(data, at)
        message, at = data[at:at + length], at + length
        record += 1
        if record == 1:
            continue
        found = {}
        for number, value in fields(message):
            found.setdefault(number, []).append(value)
        nodes.append((found.get(1, [0])[0], found))
    for number, found in sorted(nodes, key=lambda n: n[0]):
        print(number, found.get(2, [b""])[0].decode(), found.get(3, [0])[0], packed(found.get(4, [])), packed(found.get(5, [])),
              found.get(7, [-1])[0], ";".join(sorted(map(attribute, found.get(10, [])))), sep="\t")


with open(sys.argv[1], "rb") as file:
    content = file.read()
if content[:2] == b"\x1f\x8b":
    content = gzip.decompress(content)
if content[:1] in b"{[" and content[:2] != b"{\n\x05":
    pytorch(json.loads(content))
else:
    chakra(content)
