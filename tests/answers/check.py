#!/usr/bin/env python3
"""Compares the answers of a program with tests/answers/questions.csv. Usage: tests/answers/check.py [PROGRAM]"""
import os
import sys

import answers


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else os.path.join(answers.ROOT, "build", "release", "lockstep")
    rows = answers.read_table()
    failed = [row["id"] for row in rows if not row["why"]]
    for name in failed:
        print(f"{name}: no sentence says why its figures are as they are")
    if len({row["id"] for row in rows}) != len(rows):
        failed.append("ids")
        print("two questions have the same id")
    for row, (status, figures) in zip(rows, answers.ask_all(program, [row["command"] for row in rows]), strict=True):
        said = list(answers.changes(row, status, figures))
        if said:
            failed.append(row["id"])
            print(f"{row['id']}: {row['command']}")
            for line in said:
                print(f"    {line}")
    if failed:
        print(f"{len(failed)} of {len(rows)} answers changed. If that is right: tests/answers/renew.py --why 'SENTENCE'")
        return 1
    print("all answers are those of the table")
    return 0


sys.exit(main())
