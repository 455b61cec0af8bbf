#!/usr/bin/env python3
"""compile_commands.json from what make would run: how each C file is compiled, for editors and analysers.

Usage: make -n -B V=1 TARGET... | tools/compile_commands.py > compile_commands.json
A file that is compiled more than once (with and without MPI, with invariants) has the first command alone.
"""
import json
import os
import re
import sys


def main():
    commands = {}
    for line in sys.stdin:
        compiled = re.search(r" -c -o \S+ (\S+\.c)$", line.rstrip())
        if compiled and compiled[1].split("/")[0] in ("src", "tests", "tools"):
            commands.setdefault(compiled[1], line.strip())
    entries = [{"directory": os.getcwd(), "file": file, "command": command} for file, command in sorted(commands.items())]
    json.dump(entries, sys.stdout, indent=1)
    print()
    return not entries


if __name__ == "__main__":
    sys.exit(main())
