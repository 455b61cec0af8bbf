#!/usr/bin/env python3
"""Every command that a help text or a message names works.
Usage: named.py PROGRAM [--list]   works in the current folder; --list prints the commands with how long each took

Commands are those of the examples in help, those in `backquotes` in help and in the texts of the source, and those that such a text
names without quotes. An example runs as it is written, in a folder that has the files it names. Of the others
 - a verb alone has a help;
 - a verb with options, in backquotes or not, has these options;
 - what has words besides runs: as it is, or as STANDS_FOR has it where words stand for something (FILE, LOG).
A command that ends with status 2 or more, or that has words that nobody can run and no line in STANDS_FOR, is wrong."""
import os
import re
import shutil
import subprocess
import sys
import time

from example_files import make_files

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
PROGRAM = sys.argv[1]
DATA = os.environ.get("LOCKSTEP_DATA", os.path.join(ROOT, "..", "shared", "data"))

# A command as a text has it: how it is run here.
STANDS_FOR = {
    "lockstep calibrate ops": "lockstep calibrate ops ops_fp16.csv.gz",
    "lockstep calibrate host --mpi": "lockstep help calibrate | grep -e '--mpi LAUNCHER'",
    "lockstep calibrate collectives LOG": "lockstep calibrate collectives nccl.log",
    "lockstep calibrate host --mpi LAUNCHER": "lockstep help calibrate | grep -e '--mpi LAUNCHER'",
    "lockstep diff A B --table categories": "lockstep diff rank0.json.gz rank1.json.gz --table categories",
    "lockstep predict --graph FILE": "lockstep predict --model gpt2 --gpu h100 --gpus 8 --gbs 8 --graph g.json",
    "lockstep record --world N --ranks ...": "lockstep record --world 8 --ranks 0,3 --out two -- true",
    "lockstep replay FILE --overheads FILE --gpu NAME": "lockstep replay et.json --overheads overheads.csv --gpu h100-sxm",
    "lockstep shard --model %.60s": "lockstep shard --model dlrm-ddp --gpu h100 --gpus 8",
    "lockstep shard --model MODEL --plan FILE": "lockstep shard --model dlrm-ddp --gpu h100 --gpus 8 --plan p.json",
    "lockstep help VERB": "lockstep help predict",
    # examples: with a rest that is left out, or for as long as a test takes
    "lockstep predict --gpu h100-sxm -- torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 80 ...":
        "lockstep predict --gpu h100-sxm -- torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 80 --hidden-size 8192 "
        "--num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 "
        "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --tokenizer-type NullTokenizer --vocab-size 32000 --bf16",
    "lockstep calibrate host -f host.json": "lockstep calibrate host --seconds 0.1 -f host.json",
    "lockstep serve": "serves", "lockstep serve --open": "serves --open", "lockstep serve --port 0": "serves --port 0",
    "lockstep serve --listen 0.0.0.0 --name planner.example.org": "serves --listen 0.0.0.0 --name planner.example.org",
    "lockstep stalls --yes --repeats 5 -o json -- mpirun -n 8 ./train --epochs 100":
        "lockstep stalls --yes --repeats 1 --configurations first -o json -- mpirun -n 2 ./train --epochs 100",
    "lockstep stalls --recording recording": "lockstep record -- mpirun -n 2 ./train && lockstep stalls --recording recording",
}
SECONDS = 120  # a command that takes longer hangs
NEEDS_MPI = ("mpirun", "./train", "lockstep explain recording", "lockstep compose recording")
NEEDS_DATA = ("et/",)  # measured traces
# Before each command: nothing that another one wrote is in its way. The address of a server before counts as this one's
# where the file is still there, and a server that is interrupted before it listens to signals runs on.
BEFORE = """rm -f lockstep.toml served
if [[ $1 == *"lockstep record"* ]]; then rm -rf recording r1 two; fi
serves() {
	lockstep serve --port 0 "$@" > served 2>&1 < /dev/null & local server=$! status=2
	for ((i = 0; i < 200; i++)); do if grep -qs http: served; then status=0; break; fi; sleep 0.05; done
	kill -INT $server 2> /dev/null; wait $server; [ $status -eq 0 ] || cat served; return $status
}
eval "$1"
"""


def has_data():
    return os.path.isdir(os.path.join(DATA, "traces", "dlrm8"))


def said(*words):
    return subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def option_names(verb):
    text = said("help", verb)
    return {name.replace("_", "-") for name in re.findall(r"(?<=--)(?:\[no-\])?([a-z][a-z0-9_-]*)", text)} | {"help"}


def source_texts():
    """(file, text) of the C strings of the source, adjacent ones joined, as a user would read them."""
    for folder, _, files in sorted(found for house in ("src", "lang", "study") for found in os.walk(os.path.join(ROOT, house))):
        for file in sorted(files):
            if not file.endswith((".c", ".h")):
                continue
            path = os.path.join(folder, file)
            with open(path, encoding="utf-8") as source:
                text = re.sub(r"/\*.*?\*/", "", source.read(), flags=re.S)
            text = re.sub(r'"\s*\n\s*"', "", text)
            for found in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
                yield os.path.relpath(path, ROOT), found[1].replace('\\"', '"').replace("\\n", "\n")


def collect(verbs):
    """{command: place}: those that have to run, those whose verb and options have to be there."""
    examples, quoted, bare = {}, {}, {}
    for verb in verbs:
        text = said("help", verb)
        for line in re.findall(r"^  (lockstep .*)$", text[text.find("\nExamples"):], re.M):
            examples.setdefault(line, f"help {verb}")
        for command in re.findall(r"`(lockstep [^`]*)`", re.sub(r"\s+", " ", text)):
            quoted.setdefault(command, f"help {verb}")
    for line in re.findall(r"^  (lockstep .*)$", said("--help"), re.M):
        examples.setdefault(line, "help")
    for place, text in source_texts():
        for command in re.findall(r"`(lockstep [^`]*)`", text):
            quoted.setdefault(re.sub(r"\s+", " ", command), place)
        for command in re.findall(r"(?<!`)\blockstep [a-z]+(?: (?:--?[a-z][a-z-]*)\b)*", text):
            if command.split()[1] in verbs:
                bare.setdefault(command, place)
    return examples, quoted, bare


def main():
    verbs = said("--verbs").split()
    examples, quoted, bare = collect([*verbs, "help"])
    has_mpi = bool(shutil.which("mpirun") and shutil.which("mpicc"))
    make_files(PROGRAM, DATA, has_mpi)
    wrong, ran, skipped, took = [], 0, 0, []
    names = {verb: option_names(verb) for verb in verbs}
    to_run = dict(examples)
    for command, place in {**quoted, **bare}.items():
        words = command.split()[1:]
        options = [word.lstrip("-") for word in words if word.startswith("--")]
        plain = [word for word, before in zip(words[1:], words) if not word.startswith("-") and before != "-o"]
        if words[0] not in [*verbs, "help"]:
            wrong.append(f"{place}: `{command}`: there is no verb {words[0]}")
        elif missing := [o for o in options if o.replace("_", "-") not in names.get(words[0], ()) and o[3:] not in names.get(words[0], ())]:
            wrong.append(f"{place}: `{command}`: {words[0]} has no --{missing[0]}")
        elif (plain or command in STANDS_FOR) and command in quoted:
            to_run.setdefault(command, place)
        else:
            ran += 1
    environment = dict(os.environ, HOME=os.path.join(os.getcwd(), "home"), BROWSER="true", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl="self,vader", OMPI_MCA_mpi_yield_when_idle="1")
    for command, place in to_run.items():
        run = STANDS_FOR.get(command, command)
        if not has_mpi and any(word in run for word in NEEDS_MPI) or not has_data() and any(word in run for word in NEEDS_DATA):
            skipped += 1
            continue
        start = time.monotonic()
        done = subprocess.run(["timeout", str(SECONDS), "bash", "-c", BEFORE, "bash", run], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace", text=True, check=False)
        took.append((time.monotonic() - start, command))
        ran += 1
        if done.returncode not in (0, 1):
            said_last = f"no end within {SECONDS} s: " if done.returncode == 124 else ""
            wrong.append(f"{place}: {command}: status {done.returncode}: {said_last}{(done.stderr or done.stdout).strip()[-300:]}")
    for command in sorted(set(STANDS_FOR) - set(to_run)):
        wrong.append(f"named.py: nothing names `{command}` any more")
    if "--list" in sys.argv:
        for seconds, command in sorted(took, reverse=True):
            print(f"{seconds:6.2f} s  {command}")
    print("".join(line + "\n" for line in wrong), end="")
    if skipped:
        print(f"skipped {skipped} that take mpirun or measured traces")
    print(f"{ran} commands that texts name, {len(wrong)} wrong")


main()
