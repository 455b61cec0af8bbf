#!/usr/bin/env python3
"""floor.py: what a linker sees of glibc, as it was at version FLOOR: stand-ins for the shared libraries of glibc, of one empty
function for each symbol, under the newest version up to FLOOR. What is linked with them asks the machine for nothing newer, and what
newer versions brought alone is undefined: tools/portable/compat.c has that.

glibc 2.34 moved threads and dlopen into libc; before, they were in libpthread and libdl, whose names are there in all versions.

Usage: floor.py COMPILER FLOOR FOLDER"""
import os
import re
import subprocess
import sys

LIBRARIES = {"libc": "libc.so.6", "libm": "libm.so.6", "libpthread": "libpthread.so.0", "libdl": "libdl.so.2"}
MOVED = [(re.compile(r"(__)?(pthread|sem)_"), "libpthread"), (re.compile(r"dl(open|close|sym|vsym|addr1?|error|info|mopen)$"), "libdl")]


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def symbols(path, floor):
    """The newest version of each symbol that is at most the floor: name, version, kind, size."""
    best = {}
    for line in run("readelf", "--wide", "--dyn-syms", path).splitlines():
        found = re.match(r" *\d+: [0-9a-f]+ +(\w+) (\w+) +(?:GLOBAL|WEAK) +\w+ +\d+ ([^@ ]+)@@?GLIBC_([\d.]+)$", line)
        if found and found[2] in ("FUNC", "IFUNC", "OBJECT"):
            size, kind, name, version = found.groups()
            if number(version) <= floor and (name not in best or number(version) > number(best[name][0])):
                best[name] = (version, kind, int(size, 0))
    return best


def write(path, soname, content, compiler):
    """A shared library with these symbols."""
    assembly, versions = [".text"], {}
    for name, (version, kind, size) in sorted(content.items()):
        section = ".data" if kind == "OBJECT" else ".text"
        assembly += [section, f".globl {name}", f".type {name}, %{'object' if kind == 'OBJECT' else 'function'}", f"{name}:",
                     f".skip {max(size, 8) if kind == 'OBJECT' else 8}", f".size {name}, .-{name}"]
        versions.setdefault(version, []).append(name)
    script = "".join(f"GLIBC_{version} {{ {' '.join(f'{name};' for name in names)} }};\n"
                     for version, names in sorted(versions.items(), key=lambda item: number(item[0])))
    stem = path.removesuffix(".so")
    with open(stem + ".s", "w", encoding="utf-8") as file:
        file.write("\n".join(assembly + ['.section .note.GNU-stack,"",%progbits', ""]))
    with open(stem + ".map", "w", encoding="utf-8") as file:
        file.write(script)
    run(compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={stem}.map", "-o", path, stem + ".s")


def main(compiler, floor, folder):
    os.makedirs(folder, exist_ok=True)
    loader = re.search(r"\(NEEDED\).*\[(ld-linux[^]]*)\]", run("readelf", "--wide", "--dynamic", find(compiler, "libc.so.6")))[1]
    content = {library: symbols(find(compiler, soname), number(floor)) for library, soname in LIBRARIES.items()}
    for name in list(content["libc"]):
        for pattern, library in MOVED:
            if pattern.match(name):
                content[library][name] = content["libc"].pop(name)
    for library, soname in LIBRARIES.items():
        write(os.path.join(folder, library + ".so"), soname, content[library], compiler)
    write(os.path.join(folder, "loader.so"), loader, symbols(find(compiler, loader), number(floor)), compiler)


def find(compiler, name):
    return run(compiler, f"-print-file-name={name}").strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
