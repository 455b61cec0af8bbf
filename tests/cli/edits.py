#!/usr/bin/env python3
"""Edits of other people's configurations: what `predict FILE ... --emit edited` writes has the lines that
--emit edit leaves alone, and is read back to the step of the job that was asked for.

    edits.py PROGRAM [FRAMEWORK ...]     (LOCKSTEP_LONG=1: every fourth file, else every STRIDE-th)

An edit may lack what its text has no place for: then a note or a refusal says so and the file is counted apart. Wrong is
one that is read back to another step, or that changes more lines than settings were asked to change."""

import difflib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DATA = pathlib.Path(os.environ.get("LOCKSTEP_DATA", "../shared/data")) / "configs"
WHERE = ["--gpu", "h200-sxm", "--no-fixes"]
# What is asked of a job, in the order of trying: the first that can be predicted is edited into the file.
CHANGES = [["--mbs", "2"], ["--mbs", "1"], ["--recompute", "full"], ["--recompute", "none"]]
STRIDE = 48
MOST = 12  # lines that a change of one setting adds


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


def step(program, path, *words):
    """Step time and layout of a file, None where it cannot be predicted."""
    code, out, _ = run(program, "predict", str(path), *WHERE, *words, "-o", "json")
    if code == 2 or not out:
        return None
    answer = json.loads(out)
    return answer["step_time_s"], answer["layout"]


def edited(program, path, words):
    """'exact', 'noted', 'same' or what is wrong."""
    before = step(program, path)
    if before:
        words = [*words, "--gpus", str(before[1]["gpus"])]
    after = step(program, path, *words)
    if not before or not after or before == after or "engines" in before[1]["text"]:
        return "same"  # of steps with generation the training alone is written
    code, text, notes = run(program, "predict", str(path), *WHERE, *words, "--emit", "edited")
    if code == 2:
        return "refused" if "has no place for" in notes else f"{notes.strip()}"
    with open(path, encoding="utf-8", newline="") as file:
        old = file.read()
    with tempfile.TemporaryDirectory() as folder:
        # in a tree like the file's, as it may name its neighbours
        inside = path.relative_to(DATA)
        name = pathlib.Path(folder) / inside
        name.parent.mkdir(parents=True)
        for part in [inside, *inside.parents][:-1]:
            for other in (DATA / part).parent.iterdir():
                if other.name != part.name:
                    (pathlib.Path(folder) / part.parent / other.name).symlink_to(other.resolve())
        name.write_text(text, encoding="utf-8")
        back = step(program, name, "--gpus", str(before[1]["gpus"]))
    lines = [line for line in difflib.ndiff(old.split("\n"), text.split("\n")) if line.startswith("+ ")]
    if len(lines) > MOST:
        return f"{len(lines)} lines are new"
    if back == after:
        return "exact"
    if "has no setting for" in notes:
        return "noted"
    return f"reads back as {back}, not {after}"


def main():
    program = sys.argv[1]
    frameworks = sys.argv[2:] or sorted(p.name for p in DATA.iterdir() if p.is_dir() and "." not in p.name)
    every = 4 if os.environ.get("LOCKSTEP_LONG") else STRIDE
    failed = 0
    total = {}
    for framework in frameworks:
        counts = {}
        paths = sorted(p for p in (DATA / framework).rglob("*") if p.suffix in (".yaml", ".yml", ".toml", ".json", ".sh"))
        for path in paths[::every]:
            if step(program, path) is None:
                continue
            for change in CHANGES:
                result = edited(program, path, change)
                if result != "same":
                    break
            kind = result if result in ("exact", "noted", "refused", "same") else "wrong"
            counts[kind] = counts.get(kind, 0) + 1
            if os.environ.get("LOCKSTEP_VERBOSE") or kind == "wrong":
                print(f"{path.relative_to(DATA)} {' '.join(change)}: {result[:400]}")
            failed += kind == "wrong"
            total[kind] = total.get(kind, 0) + 1
        if os.environ.get("LOCKSTEP_VERBOSE"):
            print(framework, " ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    print(f"{sum(total.values())} files, {total.get('exact', 0)} edited to the byte, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
