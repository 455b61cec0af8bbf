"""The committed list of what becomes of each public configuration (expected.csv), and the present state."""
import concurrent.futures
import csv
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIST = os.path.join(HERE, "expected.csv")
COLUMNS = ["file", "state", "what", "why"]


def folder():
    return os.path.join(os.environ.get("LOCKSTEP_DATA") or os.path.join(ROOT, "..", "shared", "data"), "configs")


def missing():
    """What this machine lacks to read the files; None: nothing."""
    if not os.path.isdir(folder()):
        return "no folder $LOCKSTEP_DATA/configs"
    try:
        import yaml  # noqa: F401
    except ImportError:
        return "no PyYAML"
    return None


def read_list():
    with open(LIST, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_list(rows):
    with open(LIST, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["file"]))


def read_files(program):
    """{file: (state, what)} of all sets."""
    import rightly
    sets = sorted(name for name in os.listdir(folder()) if os.path.isdir(os.path.join(folder(), name)) and not name.endswith(".bases"))
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for part in pool.map(lambda name: rightly.read_set(program, folder(), name), sets):
            rows.update(part)
    return rows


def program_of(arguments):
    return arguments[0] if arguments else os.path.join(ROOT, "build", "release", "corpus")


sys.path.insert(0, HERE)
