#!/usr/bin/env python3
"""Pictures of the documents, docs/pictures/*.svg, made of what the program and the documents say today.

    tools/pictures.py PROGRAM            writes them (`make pictures`)
    tools/pictures.py --check PROGRAM    says which ones differ from what would be written: exit status 1

 - predict.svg: the first charts of the command that README.md shows first, as its --charts draws them
 - growth.svg: the table of docs/notes/figures.md, as bench/growth.py draws it

Pictures are text that is the same on every machine, so they are compared byte for byte. Those of docs/accuracy are written together
with its page (`make accuracy`); every other picture that a document shows has to be one of these."""
import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"


def first_charts(svg, before):
    """The picture up to the chart with the title `before`: its rows stand one below the other, 10 units a pixel."""
    cut = re.search(r'<text x="\d+" y="(\d+)"[^>]*class="title">' + re.escape(before), svg)
    height = (int(cut[1]) - 500) // 10
    head = re.sub(r'viewBox="0 0 (\d+) \d+" width="(\d+)" height="\d+"', rf'viewBox="0 0 \1 {10 * height}" width="\2" height="{height}"', svg[:cut.start()], count=1)
    return re.sub(r'(<rect x="0" y="0" width="\d+" height=")\d+"', rf'\g<1>{10 * height}"', head, count=1) + "</svg>\n"


def predict_picture(program):
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"^    \$ lockstep (predict (?:.*\\\n)*.*)$", readme, re.M)[1]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "predict.svg"
        done = subprocess.run([program, *shlex.split(command.replace("\\\n", " ")), "--charts", path], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode > 1:
            sys.exit(f"tools/pictures.py: lockstep {command}: {done.stderr}")
        return first_charts(path.read_text(), "The pipeline")


def growth_picture(_):
    spec = importlib.util.spec_from_file_location("growth", ROOT / "bench" / "growth.py")
    growth = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(growth)
    return growth.picture(growth.table_of(ROOT / "docs" / "notes" / "figures.md"))


MADE = {"predict.svg": predict_picture, "growth.svg": growth_picture}


def main():
    checks = sys.argv[1:2] == ["--check"]
    words = sys.argv[1 + checks:]
    if len(words) != 1:
        sys.exit("usage: tools/pictures.py [--check] PROGRAM")
    wrong = [f"docs/pictures/{path.name}: tools/pictures.py does not make it" for path in PICTURES.iterdir() if path.name not in MADE]
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", document.read_text()):
            path = (document.parent / link).resolve()
            if path.parent not in (PICTURES, ROOT / "docs" / "accuracy") or path.suffix != ".svg":
                wrong.append(f"{document.relative_to(ROOT)}: nothing makes the picture {link}")
    for name, make in MADE.items():
        text, path = make(words[0]), PICTURES / name
        if not checks:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"docs/pictures/{name}: the program draws another picture today; make pictures")
    print("".join(line + "\n" for line in wrong) + f"{len(MADE)} pictures, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
