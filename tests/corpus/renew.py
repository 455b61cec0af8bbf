#!/usr/bin/env python3
"""Writes what becomes of each public configuration into tests/corpus/expected.csv.

Usage: tests/corpus/renew.py --why SENTENCE [CORPUS_PROGRAM]

Rows that changed get the new state, and the sentence that says why; files that are no longer there are taken out. All other rows
stay as they are, to the byte. Prints what changed."""
import argparse
import os
import sys

import expected


def main():
    parser = argparse.ArgumentParser(description="Writes new states of public configurations, with the reason why they changed.")
    parser.add_argument("--why", required=True, help="a sentence: why the states changed")
    parser.add_argument("program", nargs="?")
    arguments = parser.parse_args()
    why = " ".join(arguments.why.split())
    if len(why.split()) < 3:
        parser.error("--why takes a sentence")
    if expected.missing():
        parser.error(expected.missing())
    listed = {row["file"]: row for row in expected.read_list()} if os.path.exists(expected.LIST) else {}
    rows = []
    changed = 0
    for file, (state, what) in expected.read_files(expected.program_of([arguments.program] if arguments.program else [])).items():
        row = listed.get(file, {"file": file, "state": "new", "what": "", "why": ""})
        if (row["state"], row["what"]) != (state, what):
            changed += 1
            if listed:
                print(f"{file}\n    {row['state']} {row['what']}\n -> {state} {what}")
            row = {"file": file, "state": state, "what": what, "why": why}
        rows.append(row)
    expected.write_list(rows)
    print(f"{changed} of {len(rows)} rows are new")
    return 0


sys.exit(main())
