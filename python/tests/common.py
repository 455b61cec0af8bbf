"""What the tests share: the program, files, a job that is quick."""

import json
import os
import subprocess

ROOT = os.environ["LOCKSTEP_ROOT"]
PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
JOB = dict(model="llama3.1-8b", gpu="h100-sxm", gpus=8, tp=2, gbs=16, seq=4096)
JOB_WORDS = ["--model", "llama3.1-8b", "--gpu", "h100-sxm", "--gpus", "8", "--tp", "2", "--gbs", "16", "--seq", "4096"]
TABLES = "name,rows,dim,pooling\na,1e6,64,10\nb,2e5,32,1\n"


def data(*path):
    return os.path.join(ROOT, "tests", "data", *path)


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


def asked(*words):
    """What the program prints as JSON."""
    done = run(*words, "-o", "json")
    if done.returncode > 1:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def refusal(*words):
    """The program's message, without its name."""
    done = run(*words)
    if done.returncode != 2:
        raise AssertionError(f"{words} was not refused: {done.stdout}")
    return done.stderr.strip().removeprefix("lockstep: ")
