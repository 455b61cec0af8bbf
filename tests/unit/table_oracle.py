"""Reads tables back with python's csv, json and sqlite3 and compares them with what went in. Called by test_table.c:
table_oracle.py FOLDER COUNT. Beside N.csv, N.json, N.jsonl and N.sqlite stands N.truth: a line of the table's name and
its keys in hexadecimal, then a line per row with E (empty), T (text, hexadecimal), N (number, C99 hexadecimal) or
B (0, 1) for every cell."""
import codecs
import csv
import json
import math
import os
import re
import sqlite3
import sys

codecs.register_error("each", lambda e: ("\ufffd" * (e.end - e.start), e.end))


def plain(data):
    """Bytes as readers of UTF-8 see them: every wrong byte is U+FFFD."""
    return data.decode("utf-8", "each")


def cell(word):
    kind, value = word[0], word[1:]
    if kind == "T":
        return bytes.fromhex(value)
    if kind == "N":
        return float(value) if value in ("inf", "-inf") else float.fromhex(value)
    return value == "1" if kind == "B" else None


def truth(path):
    with open(path) as file:
        lines = [line.split(" ") for line in file.read().split("\n")[:-1]]
    return [bytes.fromhex(word) for word in lines[0]], [[cell(word) for word in line] for line in lines[1:]]


def expect(what, seen, wanted):
    if seen != wanted:
        raise SystemExit("%s: read %r, wrote %r" % (what, seen, wanted))


# Controls, what turns the order of text around, line separators, and bytes that are no UTF-8.
UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\udc80-\udcff]"


def in_csv(value):
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, bytes):
        seen = re.sub(UNSAFE, lambda found: "".join("\\x%02x" % byte for byte in found[0].encode("utf-8", "surrogateescape")),
                      value.decode("utf-8", "surrogateescape")).encode()
        return (b"'" if value[:1] in tuple(bytes([c]) for c in b"=+-@\t\r") else b"") + seen
    return value


def check_csv(path, keys, rows):
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        read = [[text.encode("utf-8", "surrogateescape") for text in row] for row in csv.reader(file, strict=True)]
    expect(path + " header", read[0], [in_csv(key) for key in keys])
    expect(path + " rows", len(read) - 1, len(rows))
    for row, wanted in zip(read[1:], rows):
        wanted = [in_csv(value) for value in wanted]
        expect(path, [float(r) if isinstance(w, float) else r for r, w in zip(row, wanted)], wanted)


def in_json(value):
    if isinstance(value, float) and math.isinf(value):
        return None
    return plain(value) if isinstance(value, bytes) else value


def check_json(path, read, keys, rows):
    expect(path + " rows", len(read), len(rows))
    for row, wanted in zip(read, rows):
        expect(path + " keys", [key for key, _ in row], [plain(key) for key in keys])
        expect(path, [value for _, value in row], [in_json(value) for value in wanted])
        for (_, value), w in zip(row, wanted):
            expect(path + " kind", isinstance(value, bool), isinstance(w, bool))


def check_sqlite(path, name, keys, rows):
    database = sqlite3.connect(path)
    quoted = '"' + plain(name).replace('"', '""') + '"'
    expect(path + " tables", database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall(),
           [(plain(name),)])
    cursor = database.execute("SELECT * FROM %s ORDER BY rowid" % quoted)
    expect(path + " columns", [column[0] for column in cursor.description], [plain(key) for key in keys])
    read = cursor.fetchall()
    wanted = [tuple(plain(v) if isinstance(v, bytes) else v for v in row) for row in rows]
    expect(path, read, wanted)
    expect(path + " kinds", [[type(v) is str for v in row] for row in read],
           [[type(v) is str for v in row] for row in wanted])
    database.close()


def main(folder, count):
    for i in range(count):
        base = os.path.join(folder, str(i))
        (name, *keys), rows = truth(base + ".truth")
        check_csv(base + ".csv", keys, rows)
        with open(base + ".json", encoding="utf-8") as file:
            check_json(base + ".json", dict(json.load(file, object_pairs_hook=list))["rows"], keys, rows)
        with open(base + ".jsonl", encoding="utf-8") as file:
            lines = file.read().split("\n")
        expect(base + ".jsonl last line", lines.pop(), "")
        check_json(base + ".jsonl", [json.loads(line, object_pairs_hook=list) for line in lines], keys, rows)
        check_sqlite(base + ".sqlite", name, keys, rows)


main(sys.argv[1], int(sys.argv[2]))
