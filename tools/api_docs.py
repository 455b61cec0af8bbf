#!/usr/bin/env python3
"""The C API as a page, from the public headers: every function, type and table with the comment above it.

    tools/api_docs.py FILE.md   writes the page
    tools/api_docs.py --check   says what is missing in the headers; status 1 if anything is

A comment belongs to the declarations below it up to the next blank line or comment. Lines of a comment that are indented are
kept as they are. The first comment of a header is its introduction.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "include" / "lockstep"
FIRST = ["error", "predict", "view", "plan", "explain", "replay", "whatif", "diff", "validate", "calibrate"]

INTRODUCTION = """# The C API

Written by `make api` from `include/lockstep/`; do not edit. `#include <lockstep/predict.h>` and link with
`pkg-config --libs lockstep` (`--static` for the archive). `examples/library` has programs,
[a tutorial](../guide/tutorials/library.md) goes through one, and [versions](versions.md) says what a version promises.
"""


def headers():
    """The public headers, the ones that everybody needs first."""
    def place(path):
        return FIRST.index(path.stem) if path.stem in FIRST else len(FIRST), path.stem
    return sorted(FOLDER.glob("*.h"), key=place)


def comment_lines(text):
    """The lines of a comment without its stars; common indentation of one blank is taken off."""
    inner = text.strip()[2:-2].rstrip()
    lines = [re.sub(r"^[ \t]*\*( |$)", "", line) for line in inner.split("\n")]
    lines[0] = lines[0].strip()
    return lines


def entries(text):
    """(comment or None, code) of every declaration, in order; the introduction comes with code ""."""
    text = re.sub(r"^#(ifdef __cplusplus|ifndef LOCKSTEP_\w+_H)\n(.*\n)*?#(endif|define \w+_H)\n", "", text, flags=re.M)
    found, comment, code, depth = [], None, [], 0
    lines = iter(text.split("\n"))

    def close():
        nonlocal comment, code
        if code or comment is not None:
            found.append((comment, "\n".join(code)))
        comment, code = None, []

    for line in lines:
        if depth == 0 and line.startswith("/*"):
            close()
            block = [line]
            while "*/" not in block[-1]:
                block.append(next(lines))
            comment = "\n".join(block)
        elif depth == 0 and (not line.strip() or re.match(r"#\s*(include|endif|if|ifdef|ifndef|else)\b", line)):
            close()
        else:
            code.append(line)
            if line.startswith("#define"):
                while code[-1].endswith("\\"):
                    code.append(next(lines))
                continue
            bare = re.sub(r"/\*.*?\*/", "", line)
            depth += bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")
    close()
    return found


def markdown(comment):
    """A comment as paragraphs, its indented lines as code."""
    out, kept = [], 0  # kept: the indentation that code loses, or 1 in a list that loses none
    for line in comment_lines(comment):
        if not line.strip():
            out.append("")
            continue
        indented = line.startswith("  ")
        if indented and not kept:
            kept = 4 if line.startswith("    ") else 1
            out += ["", "```c" if kept == 4 else "```text"]
        elif kept and not indented:
            kept = 0
            out += ["```", ""]
        if indented:
            out.append(line[4:] if kept == 4 else line)
        else:
            out.append(line.replace("<", "\\<").replace("*", "\\*"))
    if kept:
        while out[-1] == "":
            out.pop()
        out.append("```")
    # A blank line that a kept block ended with stands inside its fence.
    return re.sub(r"\n+```(?=\n|$)(?!\w)", "\n```", re.sub(r"\n{3,}", "\n\n", "\n".join(out))).strip("\n")


def names(code):
    """What the declarations declare: functions, objects, types."""
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    typed = re.findall(r"^typedef (?:struct|enum) \w+ \{.*?\} (\w+);", bare, re.S | re.M)
    if typed or bare.startswith("typedef"):
        return typed or re.findall(r"(lk_\w+)\s*(?:\(|;)", bare)[-1:]
    return re.findall(r"\b(lk_\w+)\(", bare) or re.findall(r"\b(lk_\w+)(?=\[|;|,)", bare)


def first_sentence(comment):
    """What an index has room for."""
    words = " ".join(line for line in comment_lines(comment) if line.strip() and not line.startswith("  "))
    words = re.sub(r" \([^)]*\)", "", words)
    return re.split(r"(?<=[a-z0-9`\"])[.;:](?: |$)|(?<=\?) ", words)[0].replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


def complaints():
    """What a reader would miss."""
    for path in headers():
        introduction = False
        for comment, code in entries(path.read_text()):
            introduction |= comment is not None and comment.startswith(f"/* {path.name}:")
            declared = names(code)
            if comment is None and declared and not code.startswith("#"):
                yield f"include/lockstep/{path.name}: {declared[0]} has no comment"
            if re.search(r"^lk_status ", code, re.M) and comment is not None and path.stem != "error" \
                    and not re.search(r"LK_ERR_|LK_OK|lk_error", comment):
                yield f"include/lockstep/{path.name}: the comment of {declared[0]} does not say which errors there are"
        if not introduction:
            yield f"include/lockstep/{path.name}: does not begin with a comment \"{path.name}: ...\""


def page():
    """The whole page."""
    index, body = ["| header | |", "|---|---|"], []
    for path in headers():
        all_entries = entries(path.read_text())
        top = next(comment for comment, code in all_entries if comment and comment.startswith(f"/* {path.name}:"))
        index.append(f"| [{path.name}](#{path.name.replace('.', '')}) | {first_sentence(top.replace(f'{path.name}: ', '', 1))} |")
        body.append(f"## {path.name}\n\n" + markdown(top.replace(f"/* {path.name}: ", "/* ", 1)))
        for comment, code in all_entries:
            if comment == top or (code.startswith("#define") and not comment):
                continue
            if not code:
                body.append(markdown(comment))
                continue
            body.append("```c\n" + code + "\n```" + ("\n\n" + markdown(comment) if comment else ""))
    return INTRODUCTION + "\n" + "\n".join(index) + "\n\n" + "\n\n".join(body) + "\n"


def main():
    missing = list(complaints())
    for line in missing:
        print(line)
    if sys.argv[1:] != ["--check"]:
        pathlib.Path(sys.argv[1]).write_text(page())
        return 0
    made = page()
    print(f"api: {len(headers())} headers, {made.count(chr(10))} lines, {len(missing)} problems")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
