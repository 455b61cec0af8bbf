#!/usr/bin/env python3
"""--emit of every task for every framework: it writes what starts that task, or refuses and names those that run it.
Usage: tasks.py PROGRAM

RUNS says it apart from lockstep, by the frameworks' own words: what a text of the task has, which one of another has not."""
import re
import subprocess
import sys

STACKS = {"megatron": "megatron", "bridge": "nemo", "nemo": "nemo", "deepspeed": "megatron-deepspeed", "torchtitan": "torchtitan",
          "axolotl": "fsdp", "llama-factory": "fsdp", "nanotron": "megatron", "accelerate": "fsdp"}
LORA = {"axolotl": "^adapter: lora$", "llama-factory": "^finetuning_type: lora$", "accelerate": "--use_peft", "bridge": "_peft_config"}
RUNS = {
    # Megatron-LM megatron/training/arguments.py: --sft; Megatron-Bridge recipes NAME_{pretrain,sft,peft}_config
    "pretrain": {"megatron": r"pretrain_gpt\.py", "bridge": "_pretrain_config", "nemo": "nemo llm pretrain", "deepspeed": r"pretrain_gpt\.py",
                 "torchtitan": r"-m torchtitan\.train", "nanotron": "run_train.py", "axolotl": "type: completion$",
                 "llama-factory": "^stage: pt$", "accelerate": r"^ *train\.py"},
    "sft": {"megatron": r"--sft\b", "bridge": "_sft_config", "axolotl": "type: chat_template$", "llama-factory": "^stage: sft$",
            "accelerate": r"^ *train\.py"},
    "lora": {"axolotl": "type: chat_template$", "llama-factory": "^stage: sft$", "accelerate": r"^ *train\.py", "bridge": "_peft_config"},
    # axolotl src/axolotl/utils/schemas/enums.py: RLType; LLaMA-Factory src/llamafactory/hparams/finetuning_args.py: stage, pref_loss;
    # TRL trl/scripts
    "dpo": {"axolotl": "^rl: dpo$", "llama-factory": "^stage: dpo$", "accelerate": r"^ *dpo\.py"},
    "kto": {"axolotl": "^rl: kto$", "llama-factory": "^stage: kto$", "accelerate": r"^ *kto\.py"},
    "orpo": {"axolotl": "^rl: orpo$", "llama-factory": "^pref_loss: orpo$", "accelerate": r"^ *orpo\.py"},
    "reward": {"axolotl": "^reward_model: true$", "llama-factory": "^stage: rm$", "accelerate": r"^ *reward\.py"},
    "classify": {"accelerate": r"^ *train\.py"},  # a program of one's own
}


def main():
    program, wrong, written, refused = sys.argv[1], [], 0, 0
    tasks = [*RUNS, *(f"{task}+lora" for task in ("dpo", "kto", "orpo", "reward"))]
    for task in tasks:
        plain, _, adapters = task.partition("+")
        adapters = adapters or task == "lora"
        able = [name for name in RUNS[plain] if not adapters or name in LORA]
        words = ["--num-labels", "3"] if task == "classify" else ["--task", task]
        for framework, stack in STACKS.items():
            done = subprocess.run([program, "predict", "--model", "llama3.1-8b", "--gpu", "h200-sxm", "--gpus", "8", "--gbs", "32", "--mbs",
                                   "2", "--seq", "2048", "--stack", stack, *words, "--no-fixes", "--emit", framework],
                                  capture_output=True, text=True, timeout=600, check=False)
            if framework in able:
                written += 1
                has = [RUNS[plain][framework], *([LORA[framework]] if adapters else [])]
                lacks = [one for one in has if not re.search(one, done.stdout, re.M)]
                if done.returncode > 1 or lacks:
                    wrong.append(f"{framework} {task}: no {lacks} ({done.stderr.strip()})")
                if "no setting for objective" in done.stderr or not adapters and re.search(LORA.get(framework, "--use_peft"), done.stdout, re.M):
                    wrong.append(f"{framework} {task}: another task is written ({done.stderr.strip()})")
                continue
            refused += 1
            named = re.search(r"give --emit with one of (.*)\n", done.stderr)
            if done.returncode != 2 or done.stdout or not named or sorted(named[1].split(", ")) != sorted(able):
                wrong.append(f"{framework} {task}: {done.returncode} {done.stderr.strip()}")
    print("".join(f"{one}\n" for one in wrong), end="")
    print(f"{written} written, {refused} refused, {len(wrong)} wrong")


if __name__ == "__main__":
    main()
