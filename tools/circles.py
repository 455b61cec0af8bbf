#!/usr/bin/env python3
"""Files and folders form orders, by the symbols of object files: what is called, not only what is included.

- Circles: no .c file uses, directly or through others of its folder, one that uses it.
- Links: a symbol that a folder uses is defined in a folder that its row of tools/layers.sh names, or that such a folder's row
  names, and so on. The public headers may be included from everywhere: what they declare is defined in a row above.
- Declarations: a header of a folder declares only what is defined there.

Usage: tools/circles.py BUILD [FOLDER...]   (BUILD such as build/release, built; FOLDER such as trace/lift, default all)
Prints each violation with the symbols that make it; exit status 1 if there is one.
"""
import glob
import os
import re
import subprocess
import sys

HOUSES = ("src", "lang", "lib", "study")
DEFINED, WANTED = "TDBRVWC", "U"
SOURCE = {}  # of each object: src/step/step.c
OURS = re.compile(r"(lk|lc|lp|cli)_")  # the preload library defines names of libc and MPI, for others


def room_of(path):
    """The folder of a file as tools/layers.sh names it: below its house, but for the compiler's."""
    folder = os.path.dirname(path)
    return folder if folder.startswith("lang/") else folder.partition("/")[2]


def sources(suffix):
    return sorted(path for house in HOUSES for path in glob.glob(f"{house}/**/*.{suffix}", recursive=True))


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


def circles(objects, found):
    """Circles among the objects of one folder: lines of text and their number."""
    owner = {name: path for path in objects for name in found[path][0] if OURS.match(name)}
    uses = {path: {} for path in objects}
    for path in objects:
        for name in found[path][1]:
            if owner.get(name, path) != path:
                uses[path].setdefault(owner[name], []).append(name)
    count = 0
    for circle in components(uses):
        count += 1
        print(f"circle in {os.path.dirname(SOURCE[circle[0]])}:")
        for path in circle:
            for other in circle:
                if other in uses[path]:
                    names = ", ".join(sorted(uses[path][other])[:4])
                    print(f"  {os.path.basename(SOURCE[path])} -> {os.path.basename(SOURCE[other])}: {names}")
    return count


def reachable():
    """{folder: folders of its row of tools/layers.sh, of their rows, and so on}, in the order of the rows."""
    table = subprocess.run(["tools/layers.sh", "--table"], capture_output=True, text=True, check=True).stdout
    reach = {}
    for row in filter(None, table.splitlines()):
        if row.startswith("--"):
            continue
        folder, named = row.split(":")
        named = {os.path.dirname(word) if word.endswith(".h") else word for word in named.split()}
        reach[folder] = named.union(*(reach.get(other, set()) for other in named))
    return reach


def links(build, folders, found, only):
    """Symbols that a folder uses and may not, and the number of folders' pairs with such symbols."""
    reach = reachable()
    order = {folder: place for place, folder in enumerate(reach)}
    with open(f"{build}/lockstep.map") as exported:
        public = set(re.findall(r"\b(lk_\w+);", exported.read()))
    owner = {name: room for room, objects in folders.items() for path in objects for name in found[path][0] if OURS.match(name)}
    wrong = {}
    for room, objects in folders.items():
        for path in objects if not only or room in only else ():
            for name in found[path][1]:
                other = owner.get(name, room)
                if other != room and other not in reach[room] and not (name in public and order[other] < order[room]):
                    wrong.setdefault((room, other), []).append(f"{name} ({os.path.basename(SOURCE[path])})")
    for (room, other), names in wrong.items():
        print(f"{room} may not use what {other} defines: {', '.join(sorted(names)[:6])}; move it, or see tools/layers.sh")
    return len(wrong) + declarations(owner, only)


def declarations(owner, only):
    """Declarations in headers of folders that do not define what they declare, and their number."""
    count = 0
    for header in sources("h"):
        room = room_of(header)
        if only and room not in only:
            continue
        with open(header) as text:
            for number, line in enumerate(text, 1):
                if not re.match(r"[a-z]", line) or line.startswith(("static", "typedef")):
                    continue
                named = re.search(r"\b(\w+)\(", line) or line.startswith("extern") and re.search(r"\b(\w+)(\[.*\])?;", line)
                if named and owner.get(named[1], room) != room:
                    count += 1
                    print(f"{header}:{number}: declares {named[1]}, which {owner[named[1]]} defines; declare it there")
    return count


def main():
    build, only = sys.argv[1], sys.argv[2:]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    folders = {}
    for source in sources("c"):
        name = source[:-len(".c")]
        below = name.partition("/")[2]
        for path in (f"{build}/{name}.o", f"{build}/{below}.o", f"{build}/with-mpi/{below}.o"):
            if os.path.exists(path):
                folders.setdefault(room_of(source), []).append(path)
                SOURCE[path] = source
                break
    found = symbols(SOURCE)
    count = sum(circles(objects, found) for room, objects in folders.items() if not only or room in only)
    wrong = links(build, folders, found, only)
    print(f"circles: {len(SOURCE)} files, {count} circles, {wrong} violations of the order of folders")
    return count + wrong > 0


if __name__ == "__main__":
    sys.exit(main())
