#!/usr/bin/env python3
"""Every key that --emit writes is one that the framework publishes, with a value of the type that it declares; what the keys do not say
of the job is in a note (told.py).
Usage: published.py PROGRAM [JOBS]   prints each key that tests/data/published.csv does not have, with the first job that has it, and
each fact that is not said

The JOBS first of the jobs below (default all) go through every framework and the jobs of clusters around them. What is written is
taken apart here, not by lockstep: shell words by shlex, files by PyYAML. The table says of each key its type and allowed
values as the framework's own source declares them."""
import base64
import concurrent.futures
import csv
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

import told
import yaml

TABLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "published.csv"
STACKS = {"megatron": "megatron", "bridge": "nemo", "nemo": "nemo", "deepspeed": "megatron-deepspeed", "torchtitan": "torchtitan", "axolotl": "fsdp",
          "llama-factory": "fsdp", "nanotron": "megatron", "accelerate": "fsdp"}
CLUSTERS = ("sbatch", "skypilot", "kubernetes")
MARK = "END_OF_FILE"

DENSE = "--model llama3.1-8b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096"
SMALL = "--model qwen3-1.7b --gpu a100-sxm-80 --gpus 8 --gbs 64 --seq 2048"
EXPERTS = "--model qwen3-30b-a3b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096"
LORA = "--model qwen2.5-7b --gpu rtx4090 --gpus 4 --gbs 16 --seq 2048 --task lora"
JOBS = (
    [f"{DENSE} {more}" for more in (
        "", "--tp 2 --pp 2", "--tp 2 --pp 4 --vp 2", "--cp 2", "--cp 4 --cp-kind ulysses", "--cp 2 --cp-kind all-gather", "--recompute full",
        "--recompute selective", "--recompute full/4 --pp 2", "--recompute core_attn+mlp", "--dtype fp8 --tp 1 --zero 1 --mbs 1", "--dtype fp8 --fp8-recipe blockwise --tp 1 --zero 1 --mbs 1",
        "--dtype mxfp8 --gpu b200 --tp 1 --zero 1 --mbs 1", "--dtype nvfp4 --gpu b200 --tp 1 --zero 1 --mbs 1", "--dtype fp16", "--zero 0", "--zero 2", "--zero 3", "--zero 3 --shard-group 8",
        "--zero 3 --offload-optimizer --offload-params", "--offload-optimizer", "--optimizer adam-8bit", "--optimizer muon --tp 1 --zero 1 --mbs 1", "--optimizer lion",
        "--optimizer adafactor", "--optimizer sgd", "--compile", "--cuda-graphs", "--task sft", "--dpo --zero 3 --mbs 2", "--task kto --zero 3 --mbs 2", "--task orpo --zero 3 --mbs 2",
        "--task reward --zero 3 --mbs 2", "--task dpo+lora --mbs 2", "--loss linear", "--loss cut",
        "--tp 4 --tp-comm-overlap", "--pp 4 --schedule gpipe", "--pp 4 --vp 2 --schedule zb-v", "--pack lognormal:700", "--bf16-layers 1 --dtype fp8 --tp 2 --zero 1",
        "--fp8-params --dtype fp8 --tp 1 --zero 1 --mbs 1", "--state-dtype bf16", "--no-overlap-grad-reduce", "--offload-activations --zero 3")] +
    [f"{SMALL} {more}" for more in ("", "--zero 3 --recompute full", "--dtype fp32", "--num-labels 3 --task sft")] +
    [f"{EXPERTS} {more}" for more in ("--ep 8", "--ep 4 --pp 2 --recompute moe_act+layernorm", "--ep 8 --dispatcher allgather", "--ep 8 --dispatcher deepep",
                                      "--ep 8 --pp 2 --vp 2 --expert-overlap", "--ep 4 --etp 1 --tp 2")] +
    [f"{DENSE} --stack deepspeed {more}" for more in ("--zero 2 --offload-optimizer", "--zero 3 --tp 1")] +
    [f"{LORA} {more}" for more in ("", "--qlora", "--lora-rank 64 --dora", "--base-format int8", "--lora-targets q_proj+v_proj", "--lora-targets gate_proj+up_proj+down_proj",
                              "--optimizer adam-8bit")] +
    ["--model gpt2 --gpu v100-sxm-32 --gpus 8 --gbs 64 --seq 1024 --dtype fp16",
     "--model deepseek-v3 --gpu h100-sxm --gpus 256 --gbs 2048 --seq 4096 --pp 16 --ep 16 --recompute full",
     "--model gpt-oss-20b --gpu h100-sxm --gpus 16 --gbs 64 --seq 4096 --ep 4", "--model bert-large --gpu a100-sxm-80 --gpus 8 --gbs 64 --seq 512",
     "--model t5-large --gpu a100-sxm-80 --gpus 8 --gbs 64 --seq 512", "--model mamba2-2.7b --gpu h100-sxm --gpus 8 --gbs 64 --seq 4096",
     "--model qwen2.5-vl-7b --gpu h100-sxm --gpus 8 --gbs 16 --seq 4096 --task sft", "--model gemma2-9b --gpu h100-sxm --gpus 8 --gbs 16 --seq 4096 --task sft"])


def flat(value, path=""):
    """(path, value) of every leaf; a list is a part "-"."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from flat(inner, f"{path}.-")
    else:
        yield path, value


def published():
    """{(framework, key): allowed types}"""
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {(row["framework"], key): row["type"].split("|") for row in csv.DictReader(rows) for key in row["keys"].split()}


def fits(value, kind):
    """Whether a value, a Python object of a file or the words of a flag, is of a type or is that word."""
    if isinstance(value, list):
        return kind == "list" and len(value) > 0 or (kind == "flag") == (len(value) == 0) and (not value or fits(value[0], kind))
    if kind == "null":
        return value in (None, "null")
    if kind == "bool":
        return isinstance(value, bool) or value in ("true", "false", "True", "False")
    if kind == "int":
        return not isinstance(value, bool) and re.fullmatch(r"-?[0-9]+|[$][A-Z_]+", str(value)) is not None
    if kind == "float":
        return not isinstance(value, bool) and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", str(value)) is not None
    if kind == "text":
        return isinstance(value, str) and value != ""
    return not isinstance(value, bool) and str(value) == kind


class Judge:
    def __init__(self):
        self.table, self.wrong, self.keys, self.said = published(), {}, set(), {}

    def key(self, framework, key, value, job):
        """One key of what is written: `value` of a file, a list of words of a flag, "word" of a word alone."""
        kinds = self.table.get((framework, key))
        self.keys.add((framework, key))
        self.said.setdefault((framework, key), []).extend(value if isinstance(value, list) else [value])
        if kinds is None:
            self.wrong.setdefault(f"{framework} has no {key}", job)
        elif value != "word" and not any(fits(value, kind) for kind in kinds):
            self.wrong.setdefault(f"{framework} takes no {key} {value}", job)

    def file(self, framework, text, job):
        for key, value in flat(yaml.safe_load(text)):
            self.key(framework, key, value, job)

    def options(self, framework, words, job):
        """Options as --name value and --name=value, settings as name=value."""
        at = 0
        while at < len(words):
            name, equal, value = words[at].partition("=")
            at += 1
            if not name.startswith("-") and not equal:
                self.key(framework, name, "word", job)
                continue
            name, values = name.lstrip("-"), [value] if equal else []
            kinds = self.table.get((framework, name), ["text"])
            most = 99 if "list" in kinds else 0 if kinds == ["flag"] else 1
            while not equal and at < len(words) and len(values) < most and not re.match(r"--?[a-zA-Z]", words[at]):
                values.append(words[at])
                at += 1
            self.key(framework, name, values, job)
            if name == "deepspeed_config":
                text = base64.urlsafe_b64decode(values[0])
                for key, inner in flat(json.loads(text)):
                    self.key("ds_config", key, inner, job)

    def line(self, framework, words, job):
        """A launch line: variables, the launcher with its options, the program with its own."""
        while words and re.match(r"[A-Z][A-Z_0-9]*=", words[0]):
            name, _, value = words[0].partition("=")
            if not name.startswith("LOCKSTEP_"):
                self.key("environment", name, [value], job)
            words = words[1:]
        words = words[words[:1] == ["srun"]:]
        if not words:
            return
        if framework == "accelerate":
            program = next(i for i, word in enumerate(words) if word.endswith(".py"))
            self.options(framework, words[2:program] + words[program + 1:], job)
        elif framework == "nemo":
            self.options(framework, words[words.index("pretrain") + 1:], job)
        elif words[0] != "llamafactory-cli":
            program = next(i for i, word in enumerate(words) if word == "-m" or word.endswith(".py"))
            self.options("deepspeed" if words[0] == "deepspeed" else "torchrun", words[1:program], job)
            if framework in ("megatron", "deepspeed", "bridge", "torchtitan"):
                self.options(framework, words[program + (2 if words[program] == "-m" else 1):], job)

    def script(self, framework, text, job):
        """Commands, the files between them, and comments for Slurm."""
        marked = re.compile(rf"^cat > (\S+) <<'{MARK}'\n(.*?)^{MARK}$", re.S | re.M)
        for name, body in marked.findall(text):
            self.file("accelerate.yaml" if name == "accelerate.yaml" else framework, body, job)
        for line in marked.sub("", text).replace("\\\n", " ").split("\n"):
            if line.startswith("#SBATCH "):
                self.options("sbatch", line.split()[1:], job)
            words = shlex.split(line, comments=True)
            if words[:1] == ["export"]:
                self.line(framework, words[1:], job)
            elif words and not words[0].startswith("head="):
                self.line(framework, words, job)

    def text(self, target, text, job):
        framework, self.said = target.split(":")[-1], {}
        if target.startswith(("skypilot:", "kubernetes:")):
            task = yaml.safe_load(text)
            self.file(target.split(":")[0], text, job)
            inner = task.get("run") or task["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["args"][0]
            self.script(framework, inner, job)
        elif target in ("axolotl", "llama-factory", "nanotron"):
            self.file(framework, text, job)
        else:
            self.script(framework, text, job)


@functools.cache
def ask(program, job, stack, *words):
    """Output and notes; None where the job is refused."""
    words = [program, "predict", *shlex.split(job), "--no-fixes", *words] + ([] if "--stack" in job else ["--stack", stack])
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode > 2 or done.returncode == 2 and "cannot run this job" not in done.stderr and "lockstep: --" not in done.stderr:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return (done.stdout, done.stderr) if done.returncode < 2 else None


def emitted(program, target, job):
    """The text, its notes, and the job's layout; None where the job is refused."""
    stack = STACKS[target.split(":")[-1]]
    text = ask(program, job, stack, "--emit", target)
    return text and (*text, json.loads(ask(program, job, stack, "-o", "json")[0])["layout"])


def main():
    program, jobs = sys.argv[1], JOBS[:int(sys.argv[2])] if len(sys.argv) > 2 else JOBS
    targets = [*STACKS, *(f"{cluster}:{framework}" for cluster in CLUSTERS for framework in STACKS)]
    judge, texts, unsaid = Judge(), 0, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [(target, job) for number, job in enumerate(jobs) for target in targets if ":" not in target or number % 10 == 0]
        for (target, job), found in zip(asked, pool.map(lambda one: emitted(program, *one), asked)):
            if found is not None:
                judge.text(target, found[0], f"{target}: {job}")
                unsaid += [f"{one} ({target}: {job})" for one in told.unsaid(target.split(":")[-1], judge.said, job, found[2], found[1])]
                texts += 1
    print("".join(f"{one}\n" for one in unsaid), end="")
    for wrong, job in judge.wrong.items():
        print(f"{wrong} ({job})")
    if texts < 5 * len(jobs):
        print(f"only {texts} texts were written")
    print(f"{len(jobs)} jobs, {len(targets)} targets, {len(judge.wrong)} keys that nobody publishes, "
          f"{len(unsaid)} facts that are not said")


if __name__ == "__main__":
    main()
