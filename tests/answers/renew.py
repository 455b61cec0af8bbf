#!/usr/bin/env python3
"""Writes the answers of a program into tests/answers/questions.csv.

Usage: tests/answers/renew.py --why SENTENCE [PROGRAM]

Rows whose figures or exit status changed get the new ones, and the sentence that says why. All other rows stay as they
are, to the byte. Prints what changed."""
import argparse
import os
import sys

import answers


def main():
    parser = argparse.ArgumentParser(description="Writes new answers, with the reason why they changed.")
    parser.add_argument("--why", required=True, help="a sentence: why the figures changed")
    parser.add_argument("program", nargs="?", default=os.path.join(answers.ROOT, "build", "release", "lockstep"))
    arguments = parser.parse_args()
    why = " ".join(arguments.why.split())
    if len(why.split()) < 3:
        parser.error("--why takes a sentence")
    rows, changed = answers.read_table(), 0
    for row, (status, figures) in zip(rows, answers.ask_all(arguments.program, [row["command"] for row in rows]),
                                      strict=True):
        said = list(answers.changes(row, status, figures))
        if not said:
            continue
        changed += 1
        print(f"{row['id']}\n    " + "\n    ".join(said))
        row.update(status=status, figures=answers.join(figures), why=why)
    answers.write_table(rows)
    print(f"{changed} of {len(rows)} rows are new")
    return 0


sys.exit(main())
