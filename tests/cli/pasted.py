#!/usr/bin/env python3
"""pasted.py: every command that an answer holds runs as it is pasted, and answers the same. `lockstep` is on the PATH; the files
with blanks in their names are in the folder. Prints what does not, then how many commands ran."""
import json
import subprocess

LINE = "torchrun pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --vocab-size 50257"
COMMANDS = [
    "predict --model gpt2 --gpu 'RTX 4090' --gpus 4 --gbs 8",
    "predict --model vgg16 --gpu 'RTX 4090' --gpus 1 --gbs 8 --dtype fp32",
    "predict --model 'Llama 3.1 8b' --gpu 'H100 SXM' --gpus 8 --gbs 8",
    "predict --model 'Llama 3.1 8b' --gpu 'H100 SXM' --gpus 8 --gbs 64 --task generate --prompt 100 --response 200",
    "predict --model 'Llama 3.1 8b' --gpu 'H100 SXM' --gpus 8 --gbs 64 --task grpo --response 500",
    "predict --model dlrm-dcnv2 --gpu 'H100 SXM' --gpus 8 --gbs 65536",
    "predict --model gpt2 --cluster '2 node * 2 rtx-4090' --gbs 8",
    "predict --gpu 'RTX 4090' --gpus 2 -- " + LINE,
    "plan --model gpt2 --gpu 'RTX 4090' --gpus 2 --gbs 8 --no-exact --no-sensitivity",
    "plan --gpu 'RTX 4090' --gpus 2 --no-exact --no-sensitivity -- " + LINE,
    "plan --model qwen2-7b --gpu 'H100 SXM' --gpus 8 --gbs 64 --task grpo --response 500",
    "rent --model bert-large --seq 128 --gbs 256 --samples 1M --dtype fp16 --machine p3.2x",
    "whatif 'a step.json' --gpu 'H100 SXM' --set nic=2x",
    "explain 'a trace.json' --gpu 'H100 SXM'",
    "diff 'a trace.json' 'a trace.json'",
    "shard 'a table.csv' --gpu 'A100 SXM 80GB' --gpus 2",
    "validate 'a table of runs.csv' --stack llm-foundry",
    "calibrate runs 'a table of runs.csv'",
]


def answer(command):
    ran = subprocess.run(["bash", "-c", command + " -o json" if " -- " not in command else command.replace(" -- ", " -o json -- ", 1)],
                         capture_output=True, text=True)
    if ran.returncode > 1:
        print(f"{command}: {ran.stderr.strip()}")
        return {}
    return json.loads(ran.stdout)


def commands_of(value):
    """What an answer says to run, and what it says of it."""
    if isinstance(value, dict):
        for key in ("reproduce", "command"):
            if isinstance(value.get(key), str):
                yield value[key], value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from commands_of(inner)


def main():
    ran = 0
    for words in COMMANDS:
        found = list(commands_of(answer("lockstep " + words)))
        if not found:
            print(f"{words}: holds no command")
        for command, said in found[:3]:
            again = answer(command)
            ran += 1
            if said.get("step_time_s") and again.get("step_time_s") and abs(again["step_time_s"] / said["step_time_s"] - 1) > 1e-3:
                print(f"{words}: {command} takes {again['step_time_s']}, not {said['step_time_s']}")
    print(ran > len(COMMANDS))


main()
