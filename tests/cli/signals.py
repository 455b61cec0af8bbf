#!/usr/bin/env python3
"""Whoever ends a command at any moment finds its files whole or as they were, and nothing beside them.
Usage: signals.py PROGRAM [MOMENTS]; in the current folder. Each command is ended by SIGINT, SIGTERM and SIGKILL in turn, at so many
moments of its run in all (24); a file system without nameless files (NFS, FUSE) may keep a .part after it, and is told."""
import gzip, json, os, random, shutil, signal, sqlite3, subprocess, sys, time

program, moments = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 24
JOB = "--model llama3.1-8b --gpu h100-sxm --gpus 64 --tp 2 --pp 4 --dp 8 --gbs 128 --seq 4096".split()
COMMANDS = [(["predict", *JOB, "--ranks", "all", "--trace", "out/steps.json.gz"], "out/steps.json.gz"),
            (["predict", *JOB, "--graph", "out/graph.json"], "out/graph.json"),
            (["devices", "-v", "-o", "sqlite", "-f", "out/devices.db"], "out/devices.db")]


def is_whole(path):
    if path.endswith(".gz"):
        return json.loads(gzip.open(path).read())
    if path.endswith(".json"):
        return json.load(open(path, "rb"))
    return sqlite3.connect(path).execute("SELECT count(*) FROM sqlite_master").fetchone()


def start(words):
    return subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


random.seed(20)
wrong = ended = 0
for words, path in COMMANDS:
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("out")
    begin = time.monotonic()
    run = start(words)
    said = run.communicate()[1]
    assert run.returncode == 0, (words, said)
    took = time.monotonic() - begin
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
        # SQLite's own journal, with which it undoes what was not finished
        beside = left - {os.path.basename(path)} - {os.path.basename(path) + "-journal"}
        try:
            whole = not os.path.exists(path) or is_whole(path)
        except Exception as error:  # of whichever reader
            whole = False
            print(error)
        if beside or not whole:
            wrong += 1
            print(" ".join(words), how, sorted(left))
print(f"{len(COMMANDS)} commands, {wrong} left something" + ("" if ended else "; none was ended in time"))
sys.exit(wrong > 0)
