#!/usr/bin/env python3
"""Whoever ends a command at any moment finds its files whole or as they were, and nothing beside them.
Usage: signals.py PROGRAM [MOMENTS]; in the current folder. Each command is ended by SIGINT, SIGTERM and SIGKILL in turn, at so many
moments of its run in all (24); a file system without nameless files (NFS, FUSE) may keep a .part after it, and is told."""
import contextlib, gzip, json, os, random, re, shutil, signal, sqlite3, subprocess, sys, time

program, moments = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 24
JOB = "--model llama3.1-8b --gpu h100-sxm --gpus 64 --tp 2 --pp 4 --dp 8 --gbs 128 --seq 4096".split()
TRACE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/trace_small.json"))
COMMANDS = [(["predict", *JOB, "--ranks", "all", "--trace", "out/steps.json.gz"], "out/steps.json.gz"),
            (["predict", *JOB, "--graph", "out/graph.json"], "out/graph.json"),
            (["predict", *JOB, "--html", "out/page.html"], "out/page.html"),
            (["predict", *JOB, "--charts", "out/charts.svg"], "out/charts.svg"),
            (["explain", TRACE, "-o", "sqlite", "-f", "out/tables.db"], "out/tables.db"),
            (["machines", "-o", "csv", "-f", "out/machines.csv"], "out/machines.csv"),
            (["devices", "-v", "-o", "sqlite", "-f", "out/devices.db"], "out/devices.db")]


def tables_in(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def is_whole(path, killed=False):
    if path.endswith(".gz"):
        return json.loads(gzip.open(path).read())
    if path.endswith(".json"):
        return json.load(open(path, "rb"))
    if path.endswith(".db"):  # one transaction: all tables, or none yet
        tables = tables_in(path)
        return tables == tables_of.setdefault(path, tables) or (killed and tables == 0)
    return os.path.getsize(path) == size


def start(words):
    return subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


tables_of = {}  # of a database that is whole
random.seed(int(os.environ.get("LOCKSTEP_TURN") or "20"))
wrong = ended = 0
for words, path in COMMANDS:
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("out")
    begin = time.monotonic()
    run = start(words)
    said = run.communicate()[1]
    assert run.returncode == 0, (words, said)
    took = time.monotonic() - begin
    size = os.path.getsize(path)
    assert is_whole(path)
    for moment in range(moments // len(COMMANDS)):
        shutil.rmtree("out")
        os.mkdir("out")
        how = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[moment % 3]
        run = start(words)
        time.sleep(random.uniform(0, took))
        run.send_signal(how)
        run.communicate()
        ended += run.returncode == -how
        left = set(os.listdir("out"))
        # SIGKILL between the call that names the finished file and the one that moves it to its place: it is whole
        named = [name for name in left if re.fullmatch(re.escape(os.path.basename(path)) + r"\.[0-9]+-[0-9]+\.part", name)]
        if how == signal.SIGKILL and len(named) == 1:
            os.replace(os.path.join("out", named[0]), path)
            left = set(os.listdir("out"))
        # where nobody can do more, SQLite's own journal, with which it undoes what was not finished
        beside = left - {os.path.basename(path)} - ({os.path.basename(path) + "-journal"} if how == signal.SIGKILL else set())
        try:
            whole = not os.path.exists(path) or is_whole(path, how == signal.SIGKILL)
        except Exception as error:  # of whichever reader
            whole = False
            print(error)
        if beside or not whole:
            wrong += 1
            print(" ".join(words), how, sorted(left))
print(f"{len(COMMANDS)} commands, {wrong} left something" + ("" if ended else "; none was ended in time"))
sys.exit(wrong > 0)
