#!/usr/bin/env python3
"""Compares what becomes of each public configuration with tests/corpus/expected.csv, and each framework's share with its floor.

Usage: tests/corpus/check.py [CORPUS_PROGRAM]"""
import sys

import expected


def main():
    lacks = expected.missing()
    if lacks:
        print(f"corpus: {lacks}: skipped\ncorpus: 0 passed, 0 failed, 1 skipped")
        return 0
    import rightly
    rows = expected.read_files(expected.program_of(sys.argv[1:]))
    listed = {row["file"]: row for row in expected.read_list()}
    failed = 0
    for name, files, jobs, answered, right in rightly.shares(rows):
        low = right < rightly.FLOORS.get(name, 0)
        failed += low
        print(f"{name:14} {files:4} files, {files - jobs:4} no job or refused by name, {jobs:4} others: {answered:5.1f} % answered, "
              f"{right:5.1f} % {'rightly' if name in rightly.FRAMEWORKS else 'not compared'}"
              f"{f', below its floor of {rightly.FLOORS[name]} %' if low else ''}")
    for file, (state, what) in sorted(rows.items()):
        row = listed.get(file)
        if row and (row["state"], row["what"]) != (state, what):
            failed += 1
            print(f"{file}\n    {row['state']} {row['what']}\n -> {state} {what}")
        if row and not row["why"]:
            failed += 1
            print(f"{file}: no sentence says why its state is as it is")
    apart = len(listed.keys() ^ rows.keys())
    if apart:
        print(f"{len(rows.keys() - listed.keys())} files are not in the list, {len(listed.keys() - rows.keys())} of the list are not here")
    if failed:
        print("If that is right: tests/corpus/renew.py --why 'SENTENCE'")
    print(f"corpus: {len(listed.keys() & rows.keys()) - min(failed, len(listed))} passed, {failed} failed, {apart} skipped")
    return failed > 0


sys.exit(main())
