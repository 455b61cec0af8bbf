#!/usr/bin/env python3
"""Which programs do the repository's scripts call, and which package brings each? tools/packages.txt says so; tools/setup.sh installs
its packages. A program that a script calls and that the table does not name is an error: a fresh machine would lack it. So is one in the
table that nothing calls.
Usage: commands.py [--list]   --list prints each program with the first places that call it

A word of a script is taken for a program where a shell would look for one (at the beginning of a line, after a pipe, ...), or in
Python where a list of words begins or shutil.which asks for it, if the table or this machine has a program of the name. So what this
machine lacks and the table does not name is not seen here; it is where it is installed."""
import os, re, shutil, subprocess, sys

root = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")
PLACES = ["tests", "tools", "bench", "demo", "check", "Makefile", "packaging.mk", "examples", ".ci", ".github"]
BUILTINS = set("""alias bg bind break builtin case cd command compgen complete continue declare dirs disown do done echo elif else enable esac eval exec exit
export fg fi for function getopts hash help history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return
select set shift shopt source suspend test then time times trap true false type typeset ulimit umask unalias unset until wait while""".split())
OWN = {"lockstep", "lockstep-mpi", "unfold"}  # which tests have on their PATH
# What runs the words that follow; options and settings come between.
BEFORE = r"(?:(?:exec|command(?: -v)?|env|nice|timeout|xargs|nohup|setsid|sudo|time|builtin|flock|inside|in_clone)(?:\s+(?:-\S+|[A-Za-z_]+=\S*|\d+|\"?\$\S+))*\s+|\w+=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)*"
AT = r"(?:^|\|\|?|&&?|;|\$\(|`|\(|\{|!|@|\b(?:then|do|else|if|elif|while|until)\b)\s*"
WORD = r"([a-z][a-z0-9_+-]*(?:\.[a-z0-9]+)?)(?=$|[\s;|&)\"'`<>])(?!\s*(?:=|\(|:|,|\+=|\.))"
SHELL = re.compile(AT + BEFORE + WORD)
PYTHON = re.compile(r"\[\s*f?\"([a-z][a-z0-9_+.-]*)\"\s*,|which\(\"([^\"]+)\"\)|shell\(f?\"([a-z][a-z0-9_+-]*)")


def bare(text):
    """A shell's text without what is quoted, commented or given to other programs as their input; line by line. What stands in $(...)
    or is given to sh -c is kept."""
    out, at, ends, depth = [], 0, [], []  # depth: of "(" within each pair of double quotes that is open
    while at < len(text):
        char, double = text[at], bool(depth) and depth[-1] == 0
        if char == "\\":
            at += 2
            out.append("\n" if text[at - 1 : at] == "\n" else "_")
        elif char == '"':
            if double:
                depth.pop()
            else:
                depth.append(0)
            out.append('"' if double else " ;" if re.search(r"\b(ba)?sh (-\w+ )*-\w*c $", "".join(out[-40:])) else '"')
            at += 1
        elif text.startswith("$(", at) or (depth and not double and char == "("):
            out.append("$(" if char == "$" else "(")
            at += len(out[-1])
            depth.append(1) if double or not depth else depth.__setitem__(-1, depth[-1] + 1)
        elif depth and not double and char == ")":
            depth[-1] -= 1
            if depth[-1] == 0:
                depth.pop()
            out.append(")")
            at += 1
        elif double:
            out.append("\n" if char == "\n" else "_")
            at += 1
        elif char == "'":
            end = text.find("'", at + 1)
            quoted = text[at + 1 : end if end >= 0 else len(text)]
            out.append(f" ;{quoted};" if re.search(r"\b(ba)?sh (-\w+ )*-\w*c $", "".join(out[-40:])) else "_" + "\n" * quoted.count("\n"))
            at += len(quoted) + 2
        elif char == "#" and (not out or out[-1][-1:] in " \n\t;"):
            at = (text.find("\n", at) + len(text)) % len(text) if "\n" in text[at:] else len(text)
        elif text.startswith("<<<", at):
            out.append("<<<")
            at += 3
        elif here := re.compile(r"<<-?\s*\\?(['\"]?)(\w+)\1").match(text, at):
            ends.append(here[2])
            out.append("_")
            at = here.end()
        elif char == "\n" and ends:
            out.append("\n")
            at += 1
            while ends and at < len(text):
                line, _, _ = text[at:].partition("\n")
                at += len(line) + 1
                out.append("\n")
                if line.strip() == ends[0]:
                    ends.pop(0)
        else:
            out.append(char)
            at += 1
    return "".join(out)


def is_makefile(path):
    return os.path.basename(path) == "Makefile" or path.endswith(".mk")


def shell_text(path, text):
    """What of a file a shell reads, at the same line numbers. A setting that names a program is a call of it: CC ?= gcc, ${CXX:-g++}."""
    text = re.sub(r"\$\{\w+:-([a-z][a-z0-9+-]*)\}", r"\1", text)
    if is_makefile(path):
        text = re.sub(r"^[A-Z_]+ \?= ([a-z][a-z0-9+-]*)$", r"\t\1", text, flags=re.M)
    lines = text.split("\n")
    if path.endswith(".test"):
        lines = [line[2:] if line[:2] in ("$ ", "? ", "> ") else "" for line in lines]
    if is_makefile(path):
        text = "\n".join(line.lstrip("\t@-+ ").replace("$(Q)", "").split(" ## ")[0] if line.startswith("\t") else
                         line[line.index("$(shell") :] if "$(shell" in line else "" for line in lines)
        # a function of make is none of the shell
        return text.replace("$(shell ", "\1(").replace("$$", "\1").replace("$(", "").replace("\1", "$")
    if path.endswith(".c"):
        # what is given to a shell: system("..."), and pipes and substitutions in texts
        return "\n".join(" ; ".join(re.findall(r"(?:system|popen)\(\"((?:[^\"\\]|\\.)*)", line) +
                                    re.findall(r"\"[^\"]*?((?:\$\(|\| )(?:[^\"\\]|\\.)*)", line)) for line in lines)
    return "\n".join(lines)


def scripts():
    listed = subprocess.run(["git", "ls-files", "-z", "--", *PLACES], cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    for path in listed.split("\0"):
        full = os.path.join(root, path)
        if not path or os.path.islink(full) or "/corpus/" in path or "/data/" in path or not os.path.exists(full):
            continue
        with open(full, "rb") as file:
            text = file.read().decode(errors="replace")
        first = text.split("\n", 1)[0]
        if path.endswith(".py") or first.startswith("#!") and "python" in first:
            yield path, "python", text
        elif path.endswith(".c") and re.search(r"\b(system|popen)\(", text):
            yield path, "shell", text
        elif path.endswith((".sh", ".test")) or is_makefile(path) or first.startswith("#!") and "sh" in first:
            yield path, "shell", text


def table():
    rows = {}
    with open(os.path.join(root, "tools/packages.txt")) as file:
        for line in file:
            words = line.split("#")[0].split()
            for command in words[2:]:
                rows[command] = words[1]
    return rows


called, known = {}, table()
for path, kind, text in scripts():
    defined = set(re.findall(r"^\s*(?:function\s+)?([a-z_][a-z0-9_]*)\s*\(\)", text, re.M)) if kind == "shell" else set()
    for number, line in enumerate((bare(shell_text(path, text)) if kind == "shell" else text).split("\n"), 1):
        for found in (SHELL if kind == "shell" else PYTHON).finditer(line):
            word = next(filter(None, found.groups()))
            if word not in BUILTINS | OWN | defined:
                called.setdefault(word, []).append(f"{path}:{number}")
if "--list" in sys.argv:
    for word in sorted(called):
        if word in known or shutil.which(word):
            print(word, known.get(word, "?"), *called[word][:2])
    sys.exit()
wrong = 0
for word in sorted(called):
    if word not in known and shutil.which(word):
        wrong += 1
        print(f"{called[word][0]}: calls {word}, which no package of tools/packages.txt brings; add it there, or do without")
for word in sorted(set(known) - set(called)):
    wrong += 1
    print(f"tools/packages.txt: {known[word]}: nothing calls {word}; remove it")
print(f"{len(set(called) & set(known))} programs of {len(set(known.values()))} packages, {wrong} wrong")
sys.exit(wrong > 0)
