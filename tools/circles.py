#!/usr/bin/env python3
"""The files of a folder form an order: no .c file uses, directly or through others of its folder, one that uses it.

Read from the symbols of object files, so that it sees what is called and not only what is included.
Usage: tools/circles.py BUILD [FOLDER...]   (BUILD such as build/release, built; FOLDER such as src/trace/lift, default all)
Prints the files of each circle with the symbols that close it; exit status 1 if there is one.
"""
import glob
import os
import subprocess
import sys

HOUSES = ("src", "lang", "lib", "study")
DEFINED, WANTED = "TDBRVWC", "U"


def symbols(objects):
    """{object: (defined, wanted)} of the external symbols of each object."""
    found = {path: (set(), set()) for path in objects}
    text = subprocess.run(["nm", "--format=posix", "--extern-only", "-A", *objects], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        place, name, kind = line.split()[:3]
        found[place.rstrip(":")][0 if kind in DEFINED else 1].add(name)
    return found


def components(edges):
    """Strongly connected components of more than one file: Tarjan's algorithm."""
    index, low, stack, circles = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            circle = []
            while not circle or circle[-1] != node:
                circle.append(stack.pop())
            if len(circle) > 1:
                circles.append(sorted(circle))

    for node in edges:
        if node not in index:
            visit(node)
    return circles


def main():
    build, only = sys.argv[1], sys.argv[2:]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    folders = {}
    for source in sorted(path for house in HOUSES for path in glob.glob(f"{house}/**/*.c", recursive=True)):
        room = os.path.dirname(source)
        for path in (f"{build}/{source[:-2]}.o", f"{build}/{source.split('/', 1)[1][:-2]}.o"):
            if os.path.exists(path) and (not only or room in only):
                folders.setdefault(room, []).append(path)
                break
    count = 0
    for room, objects in folders.items():
        found = symbols(objects)
        owner = {name: path for path, (defined, _) in found.items() for name in defined}
        uses = {path: {} for path in objects}
        for path, (_, wanted) in found.items():
            for name in wanted:
                if owner.get(name, path) != path:
                    uses[path].setdefault(owner[name], []).append(name)
        for circle in components(uses):
            count += 1
            print(f"circle in {room}:")
            for path in circle:
                for other in circle:
                    if other in uses[path]:
                        names = ", ".join(sorted(uses[path][other])[:4])
                        print(f"  {os.path.basename(path)[:-2]}.c -> {os.path.basename(other)[:-2]}.c: {names}")
    print(f"circles: {sum(map(len, folders.values()))} files, {count} circles")
    return count > 0


if __name__ == "__main__":
    sys.exit(main())
