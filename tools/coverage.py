#!/usr/bin/env python3
"""Which share of the lines of each room the unit tests and the fuzz corpus execute.

Usage: tools/coverage.py [--files ROOM] BUILD     BUILD: a build of MODE=cov whose tests have run

Prints a row for each folder: lines, executed ones, their share; --files lists the files of one folder and the lines
that nothing executes. Exit status 1 where a reader is below 90 % or the engine below 95 %."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict

READERS = ("io", "hw", "measured", "trace/kineto", "trace/read", "launch", "launch/config", "launch/frameworks", "launch/launchers",
           "launch/megatron", "launch/script", "shell", "lang/syntax", "model/network", "tables", "cost/calibration")
HOUSES = ("src", "lang", "lib", "study")
BARS = {**{room: 90 for room in READERS}, "sim": 95}


def executed_lines(build):
    """{source: {line: executed}} of all objects of the four houses below BUILD, from gcov's JSON."""
    lines = defaultdict(dict)
    notes = [os.path.join(folder, name) for house in HOUSES for folder, _, names in os.walk(os.path.join(build, house))
             for name in names if name.endswith(".gcno")]
    with tempfile.TemporaryDirectory() as work:
        for note in sorted(notes):
            subprocess.run(["gcov", "--json-format", "--object-file", os.path.abspath(note), "-"], cwd=work,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            for name in os.listdir(work):
                path = os.path.join(work, name)
                with gzip.open(path) as file:
                    for source in json.load(file)["files"]:
                        for line in source["lines"]:
                            seen = lines[source["file"]]
                            seen[line["line_number"]] = seen.get(line["line_number"], False) or line["count"] > 0
                os.remove(path)
    return {source: found for source, found in lines.items() if source.split("/")[0] in HOUSES}


def room_of(source):
    folder = os.path.dirname(source)
    return folder if folder.startswith("lang/") else folder.split("/", 1)[1]


def share(found):
    return 100 * sum(found) / len(found) if found else 100.0


def main():
    arguments = sys.argv[1:]
    room = None
    if len(arguments) == 3 and arguments[0] == "--files":
        room, arguments = arguments[1], arguments[2:]
    if len(arguments) != 1:
        sys.exit(__doc__)
    lines = executed_lines(arguments[0])
    if not lines:
        sys.exit(f"coverage: {arguments[0]} holds no counts; make coverage builds and runs what writes them")
    if room:
        for source in sorted(lines):
            if room_of(source) == room:
                missed = [line for line, seen in sorted(lines[source].items()) if not seen]
                print(f"{share(list(lines[source].values())):6.1f} %  {source}  {' '.join(map(str, missed))}")
        return 0
    rooms = defaultdict(list)
    for source, found in lines.items():
        rooms[room_of(source)].extend(found.values())
    below = 0
    for name, found in sorted(rooms.items()):
        bar = BARS.get(name)
        mark = "" if bar is None else f"  bar {bar} %" + (" MISSED" if share(found) < bar else "")
        below += "MISSED" in mark
        print(f"{name:18} {len(found):7} lines {share(found):6.1f} %{mark}")
    everything = [seen for found in rooms.values() for seen in found]
    print(f"{'all':18} {len(everything):7} lines {share(everything):6.1f} %")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
