#!/usr/bin/env python3
"""schemas.py: every verb's JSON twice: the same bytes, as the schemas of docs/reference/schemas have it. `lockstep` is on the
PATH, and the files of the commands in the folder. Ends with the schemas that no command here printed."""
import os
import shlex
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))
import schema

DENSE = "--model llama3.1-8b --gpu h100-sxm --gpus 8 --tp 2 --gbs 16 --seq 4096"
TRACES = "$ROOT/tests/data/trace_"
LANG = "$ROOT/examples/lang"
COMMANDS = f"""
predict {DENSE}
predict {DENSE} -v --tp 1,2,3
predict {DENSE} --jitter 0.1 --seeds 3
predict --model llama3-70b --gpu h100-sxm --gpus 8 --tp 8 --gbs 16 --seq 4096 --tokens 1T --mtbf 100
predict --model llama3.1-8b --gpu h100-sxm --gpus 8 --task generate --gbs 64 --prompt 100 --response 1000
predict --model llama3.1-8b --gpu h100-sxm --gpus 8 --task grpo --gbs 64 --response 1000
predict --model dlrm-dcnv2 --gpu h100-sxm --gpus 8 --gbs 65536
plan --model llama3.1-8b --gpu h100-sxm --gpus 8,16 --gbs 64 --seq 4096 --top 2 --tokens 1T
plan --model llama3.1-405b --gpu a100-sxm-40 --gpus 8 --gbs 16 --seq 4096 --no-exact
plan --model llama3.1-8b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096 --top 2 --aggregate "sites=2 wan=10g latency=50ms"
plan --model gpt2 --gpu a100-sxm-80 --gpus 1 --gbs 8 --seq 1024 --no-exact --no-sensitivity --tokens 1B --tree fog.csv
explain {TRACES}before.json
explain {TRACES}small.json --gpu h100-sxm
explain {TRACES}small.json --table kernels -o jsonl
explain $ROOT/tests/data/train_small.log
replay {TRACES}small.json
diff {TRACES}before.json {TRACES}after.json
whatif step.json --gpu h100-sxm --set nic=2x --set scale=2,1.3
whatif {TRACES}small.json --set host=0.5x
validate $ROOT/tests/data/runs_small.csv --stack llm-foundry --rows
validate $ROOT/tests/data/runs_small.csv --stack llm-foundry --cross-validate
validate $ROOT/tests/data/memory_small.csv --memory
calibrate runs $ROOT/tests/data/runs_small.csv
collective --gpu h100-sxm --gpus 64 -b 1M -e 16M
collective log.txt --cluster "8 a100-sxm-40"
shard tables.csv --gpu a100-sxm-80 --gpus 4 -v
shard --model dlrm-ddp --gpu v100-sxm-32 --gpus 4
rent --model bert-large --seq 128 --gbs 256 --samples 1M --dtype fp16 --machine p3.2x
rent --model bert-large --seq 128 --gbs 256 --dtype fp16 --machine p3.2x --budget 100 --deadline 14d
rent --map "folds=5 repeats=100 learners=2 work=12s load=1s cold=2s memory=400MB" --budget 0.3
jobs jobs.csv --gpus 4 --rates rates.csv
jobs jobs.csv --gpus 16 --rates rates.csv --policy fifo,qssf --save-energy
machines h100
devices h100
models llama3
--version
compile check {LANG}/block.lk
compile print {LANG}/interleaved.lk
compile print {LANG}/lamb.lk
compile rewrite {LANG}/adam.lk
compile run {LANG}/lamb.lk --sizes N=3:5:2
compile run {LANG}/sgd.lk --field --all --sizes dp=2,N=8
compile verify {LANG}/sgd.lk
compile tune {LANG}/sgd.lk --gpu h100-sxm --gpus 4 --sizes N=100000000 --top 1
"""
# Documents of which nothing is said twice: they measure, run a command or compare what was run; other tests check them.
ELSEWHERE = {"stalls", "compose", "simulate", "compile-bench", "compile-compare"}


# What is listed and what the language says of a text is no answer with a check.
UNCHECKED = ("machines", "devices", "models", "--version", "compile check", "compile print", "compile rewrite")


def printed(words, **environment):
    words = [os.path.expandvars(word) for word in shlex.split(words)]
    if "jsonl" not in words:
        words += ["-o", "json"]
    ran = subprocess.run(["lockstep", *words], capture_output=True, text=True, env={**os.environ, **environment})
    if ran.returncode > 1:
        sys.exit(f"{shlex.join(words)}: {ran.stderr}")
    if environment and ran.stderr.count("lockstep: warning: internal check failed: LOCKSTEP_CHECKS=fail;") != 1:
        print(f"{shlex.join(words)}: not one warning, but {ran.stderr!r}")
    return ran.stdout


def marked(words, documents):
    """An answer whose check fails is the same answer, marked, with one warning."""
    failed = schema.documents(printed(words, LOCKSTEP_CHECKS="fail"))
    for document in failed:
        for fault in schema.check(document):
            print(f"{words}: failed: {fault}")
        refused = document.get("refused")
        if not refused and (document.pop("checked", None), document.pop("failed_check", None)) != (False, "LOCKSTEP_CHECKS=fail"):
            print(f"{words}: not marked")
    if failed != documents:
        print(f"{words}: another answer where a check fails")


def main():
    seen = set()
    for words in COMMANDS.strip().splitlines():
        text = printed(words)
        if text != printed(words):
            print(f"{words}: differs from run to run")
        if words.endswith("jsonl"):
            continue
        documents = schema.documents(text)
        if not words.startswith(UNCHECKED):
            marked(words, documents)
        for document in documents:
            seen.add(document["schema"].split("/")[1])
            for fault in schema.check(document):
                print(f"{words}: {fault}")
    every = {name[:-len(".json")] for name in os.listdir(schema.PLACE)}
    print("not printed:", ", ".join(sorted(every - seen - ELSEWHERE)) or "none")


def refusals():
    """The reader finds what is wrong."""
    good = schema.documents(printed("--version"))[0]
    wrong = [{**good, "more": 1}, {**good, "commit": 1}, {key: good[key] for key in good if key != "features"},
             {**good, "features": {"isal": "yes"}}, {**good, "schema": "lockstep/version/2"},
             {"version": "", **{key: good[key] for key in good if key != "version"}}]
    print("accepted:", sum(not schema.check(document) for document in [good, *wrong]))


if __name__ == "__main__":
    os.environ.setdefault("ROOT", ROOT)
    main()
    refusals()
