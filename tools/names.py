#!/usr/bin/env python3
"""Names of static functions, and functions that are written twice.

A static name is unique in its room (a folder of sources), so that a backtrace, a profile and grep say which function it is; another
room may use it again. Two static functions of different files that differ in nothing but their names and those of their parameters
and variables are one function: it belongs into a header that both rooms may include (base/sort.h has the orders of arrays).
An entry of APART that nothing needs any more is a violation too.
Usage: tools/names.py. Prints file:line of each violation; exit status 1 if there is one.
"""
import collections
import glob
import os
import re
import sys

# What stays as it is.
APART = {
    # equal functions: of the recorder, which has libc alone
    "free_given_status memory_forget",
}
TRIVIAL = 9  # tokens of a body: `{ return thing -> member ; }` is shorter than a call

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=?|>>=?|[<>=!]=|&&|\|\||[-+*/%&|^]=|\S')
OPENING = re.compile(r"^static [^;={}]*?(\w+)\(([^{};]*)\) \{\n(.*?)^\}", re.S | re.M)
DECLARED = re.compile(r"(?:^|[({};])\s*(?:const |unsigned |struct |static )*\w+ \*?(?:const )?\*?(\w+)(?= =|;|\[|,| :)|, \*?([A-Za-z_]\w*)(?= = )", re.M)


def functions(path):
    """Name, line, parameters and body of each static function."""
    with open(path) as file:
        text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), file.read())
    for found in OPENING.finditer(text):
        yield found.group(1), text.count("\n", 0, found.start()) + 1, found.group(2), found.group(3)


def plain(parameters, body):
    """The function as tokens in which its own names are numbers, in the order in which they occur."""
    own = set(re.findall(r"(\w+)(?:\[[^\]]*\])?(?=,|$)", parameters.replace("\n", " "))) | {name for both in DECLARED.findall(body) for name in both}
    numbers, tokens, before = {}, [], ""
    for token in TOKEN.findall(parameters + " { " + body):
        name = token in own and before not in (".", "->", "struct")
        tokens.append(f"${numbers.setdefault(token, len(numbers))}" if name else token)
        before = token
    return " ".join(tokens)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    named, equal, count = collections.defaultdict(list), collections.defaultdict(list), 0
    for path in sorted(path for house in ("src", "lang", "lib", "study") for path in glob.glob(f"{house}/**/*.[ch]", recursive=True)):
        for name, line, parameters, body in functions(path):
            count += 1
            named[os.path.dirname(path), name].append((path, line))
            if len(TOKEN.findall(body)) + 2 >= TRIVIAL:
                equal[plain(parameters, body)].append((path, line, name))
    found = []
    for (room, name), places in sorted(named.items()):
        if len({path for path, _ in places}) > 1:
            found.append((name, f"{room}: {name} is in several files: " + ", ".join(f"{path}:{line}" for path, line in places)))
    for places in sorted(equal.values()):
        if len({path for path, _, _ in places}) > 1:
            names = " ".join(sorted({name for _, _, name in places}))
            found.append((names, "one function in several files: " + ", ".join(f"{path}:{line} {name}" for path, line, name in places)))
    bad = [message for names, message in found if names not in APART]
    bad += [f"tools/names.py: nothing needs the entry '{entry}' any more; remove it" for entry in sorted(APART - {names for names, _ in found})]
    print("\n".join([*bad, f"names: {count} static functions, {len(bad)} violations"]))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
