#!/usr/bin/env python3
"""How the C sources read, in numbers, for the tree and for each room; and whether they keep the limits of tools/limits.

- lines: of .c and .h files of src/ and include/, in thousands
- functions: definitions, static inline ones too, per 1000 lines
- once: of the static functions of .c files, the share whose name is used once besides definition and declarations
- asserts: LK_ASSERT, LP_ASSERT, LK_CHECK, LK_HOLDS, assert and static_assert, each where it is called (not where it is
  defined, nor LK_HOLDS_ALL, which passes on what another function asserts), per 1000 lines
- comments: lines that hold a comment and no code
- nested ?: statements with more than one conditional operator, per 1000 lines

Usage: tools/measure.py            the table
       tools/measure.py --check    what is above a limit; exit status 1 if anything is
"""
import collections
import glob
import os
import re
import sys

HOUSES = ("src", "include", "lang", "lib", "study")
TAB, COLUMNS = 4, 100

TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.S)
DEFINITION = re.compile(r"^(?![\s#}])([^;{}=]*?)\b(\w+)\([^;{}]*\)\s*\{", re.M)
DECLARATION = r"^static\b[^;{}=]*?\b%s\([^;{}]*\);"
ASSERT = re.compile(r"\b(?:LK_ASSERT|LP_ASSERT|LK_CHECK|LK_HOLDS|assert|_?[Ss]tatic_assert)\s*\(")


def blanked(match):
    """A comment or a literal with nothing but its line ends; a literal keeps its quotes."""
    text = match[0]
    return '""' if text[0] in "\"'" else re.sub(r"[^\n]", "", text) or " "


def nested(code):
    """Statements with more than one conditional operator; braces end a statement, as ; does."""
    return sum(part.count("?") > 1 for part in re.split(r"[;{}]", code))


def measure(path):
    """Counts of one file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    code = TOKEN.sub(blanked, text)
    lines, left = text.splitlines(), code.splitlines()
    plain = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: "\n" * match[0].count("\n"), code, flags=re.M)
    functions = DEFINITION.findall(plain)
    names = collections.Counter(re.findall(r"\w+", code))
    counts = collections.Counter(files=1, lines=len(lines), functions=len(functions))
    for before, name in functions:
        if "static" in before.split() and path.endswith(".c"):
            counts["static"] += 1
            declared = len(re.findall(DECLARATION % name, plain, re.M)) if names[name] > 2 else 0
            counts["once"] += names[name] - declared == 2
    counts["asserts"] = len(ASSERT.findall(plain))
    counts["comments"] = sum(1 for line, rest in zip(lines, left + [""] * len(lines)) if line.strip() and not rest.strip())
    counts["nested"] = nested(plain)
    counts["long"] = sum(len(line.expandtabs(TAB)) > COLUMNS for line in lines)
    return counts


def table(rooms):
    """One line a room, and one for all."""
    print(f"{'':22} {'lines':>7} {'functions':>10} {'once':>6} {'asserts':>8} {'comments':>9} {'nested ?:':>10}")
    print(f"{'':22} {'x 1000':>7} {'per 1000':>10} {'':>6} {'per 1000':>8} {'of lines':>9} {'per 1000':>10}")
    for room, c in [*sorted(rooms.items()), ("all", sum(rooms.values(), collections.Counter()))]:
        thousands = c["lines"] / 1000
        once = f"{100 * c['once'] / c['static']:.0f} %" if c["static"] else ""
        print(f"{room:22} {thousands:7.1f} {c['functions'] / thousands:10.0f} {once:>6} {c['asserts'] / thousands:8.1f} "
              f"{100 * c['comments'] / c['lines']:7.1f} % {c['nested'] / thousands:10.2f}")


def limits():
    """{measure: limit}, {(measure, name): limit} of exceptions, and the folders apart from the core, of tools/limits."""
    general, named, apart = {}, {}, ()
    with open("tools/limits", encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words[:1] == ["apart"]:
                apart = tuple(word + "/" for word in words[1:])
            elif len(words) == 3:
                named[words[0], words[2]] = float(words[1])
            elif words:
                general[words[0]] = float(words[1])
    return general, named, apart


def check(files, rooms):
    """Prints what is above a limit, and exceptions that are none any more."""
    general, named, apart = limits()
    whole = sum(files.values(), collections.Counter())
    core = sum(counts["lines"] for path, counts in files.items() if path.startswith(("src/", "include/")) and not path.startswith(apart))
    seen = [("nested-conditionals", "", round(1000 * whole["nested"] / whole["lines"], 2)), ("long-lines", "", whole["long"]),
            ("core-lines", "", core)]
    seen += [("file-lines", path, counts["lines"]) for path, counts in files.items()]
    seen += [("folder-files", room, counts["files"]) for room, counts in rooms.items()]
    wrong = []
    for measured, name, value in seen:
        limit = named.pop((measured, name), None)
        if limit is not None and value <= general[measured]:
            wrong.append(f"tools/limits: {measured} of {name} is {value:g} and keeps the limit of all; remove its row")
        elif value > (limit or general[measured]):
            wrong.append(f"{name or 'tree'}: {measured} {value:g}, at most {limit or general[measured]:g} (tools/limits)")
    wrong += [f"tools/limits: there is no {name}; remove its row" for _, name in named]
    print("\n".join([*wrong, f"limits: {len(seen)} measures, {len(wrong)} wrong"]))
    return bool(wrong)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = {path: measure(path) for house in HOUSES for path in sorted(glob.glob(f"{house}/**/*.[ch]", recursive=True))}
    rooms = collections.defaultdict(collections.Counter)
    for path, counts in files.items():
        rooms[os.path.dirname(path)] += counts
    if sys.argv[1:] == ["--check"]:
        return check(files, rooms)
    table(rooms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
