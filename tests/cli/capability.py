#!/usr/bin/env python3
"""plan's first row is a layout that the program of the file can run, by what its own arguments allow.
Usage: capability.py PROGRAM [NAME]   works in the current folder; prints each layout that the program has no setting for

FACTS says it apart from lockstep: the degrees that a program has a setting for, its pipeline schedules, the kinds of recomputation, and
the stages of ZeRO by software; `chosen`: what the edited line has where it is to run another software. Everything is from the arguments
that the program declares, in the file that `source` names. Each program has one size of job, all with LOCKSTEP_LONG=1."""
import json
import os
import re
import subprocess
import sys

ANY = range(1, 1 << 20)
ONE = [1]
ALL = ("1F1B", "interleaved 1F1B", "1f1b", "interleaved")

FACTS = {
    "axolotl": dict(source="axolotl src/axolotl/utils/schemas/config.py: tensor_parallel_size, context_parallel_size, dp_shard_size",
                    tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ANY, zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (1, 2, 3)}),
    "llama-factory": dict(source="LLaMA-Factory src/llamafactory/hparams/training_args.py, examples/deepspeed, examples/accelerate",
                          tp=ONE, cp=ONE, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (0, 2, 3)}),
    "trainer": dict(source="transformers src/transformers/training_args.py: fsdp, deepspeed; accelerate ParallelismConfig",
                    tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (0, 1, 2, 3)}),
    "ms-swift": dict(source="ms-swift swift/arguments: deepspeed, fsdp, sequence_parallel_size, deepspeed_autotp_size",
                     tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (0, 1, 2, 3)}),
    "torchtitan": dict(source="torchtitan torchtitan/config/job_config.py: Parallelism; distributed/pipeline_parallel.py",
                       tp=ANY, cp=ANY, pp=ANY, vp=ANY, ep=ANY, zero={"torchtitan": (0, 2, 3)}, schedules=ALL + ("GPipe", "ZBV", "zb-v")),
    "nanotron": dict(source="nanotron src/nanotron/config/parallelism_config.py: pp_engine 1f1b, afab; optimizer.zero_stage 0, 1",
                     tp=ANY, cp=ANY, pp=ANY, vp=ONE, ep=ANY, zero={"megatron": (0, 1)}, schedules=("1F1B", "1f1b", "gpipe", "GPipe")),
    "gpt-neox": dict(source="gpt-neox megatron/neox_arguments/neox_args.py; DeepSpeed runtime/pipe/engine.py: stages below 2",
                     tp=ANY, cp=ANY, pp=ANY, vp=ONE, ep=ANY, zero={"megatron-deepspeed": (0, 1, 2, 3), "deepspeed": (0, 1, 2, 3)},
                     staged=(0, 1)),
    "litgpt": dict(source="litgpt litgpt/pretrain.py, finetune/*.py: FSDPStrategy(HYBRID_SHARD, FULL_SHARD), --devices, --num_nodes",
                   tp=ONE, cp=ONE, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (3,), "ddp": (0,)}),
    "torchtune": dict(source="torchtune recipes/full_finetune_distributed.py: tensor_parallel_dim, context_parallel_dim, "
                             "fsdp_reshard_after_forward",
                      tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3), "ddp": (0,)}),
    "openrlhf": dict(source="OpenRLHF openrlhf/cli/train_sft.py: zero_stage, ds_tensor_parallel_size, ring_attn_size",
                     tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"deepspeed": (0, 1, 2, 3)}),
    "verl-sft": dict(source="verl verl/trainer/config/sft_trainer.yaml: ulysses_sequence_parallel_size, model.strategy fsdp, fsdp2",
                     tp=ONE, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3)}),
    "llm-foundry": dict(source="llm-foundry llmfoundry/command_utils/train.py: fsdp_config sharding_strategy",
                        tp=ANY, cp=ONE, pp=ONE, vp=ONE, ep=ONE, zero={"llm-foundry": (0, 2, 3), "fsdp": (0, 2, 3)}),
    "megatron": dict(source="Megatron-LM megatron/training/arguments.py", tp=ANY, cp=ANY, pp=ANY, vp=ANY, ep=ANY,
                     zero={"megatron": (0, 1, 2, 3)}, schedules=ALL, staged=(0, 1)),
    "nemo": dict(source="NeMo nemo/lightning/pytorch/strategies/megatron_strategy.py", tp=ANY, cp=ANY, pp=ANY, vp=ANY, ep=ANY,
                 zero={"nemo": (0, 1)}, schedules=ALL),
    "torchtune-file": dict(source="torchtune recipes/full_finetune_distributed.py: enable_activation_checkpointing, tensor_parallel_dim",
                           tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3)}, recompute=("none", "full")),
    "trl": dict(source="accelerate src/accelerate/commands/launch.py: use_fsdp, use_deepspeed, zero_stage; TRL trl/scripts/sft.py",
                tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE, zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (0, 1, 2, 3)},
                recompute=("none", "full"), chosen={"fsdp 2": r"launch .*--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP .*sft\.py",
                                                    "fsdp 3": r"launch .*--use_fsdp (?!.*GRAD_OP).*sft\.py",
                                                    **{f"deepspeed {n}": rf"launch .*--use_deepspeed --zero_stage {n} .*sft\.py"
                                                       for n in range(4)}}),
    "maxtext": dict(source="MaxText configs/base.yml: ici_fsdp_parallelism; layers/decoders.py: remat_policy none, full",
                    tp=ANY, cp=ANY, pp=ANY, vp=ANY, ep=ANY, zero={"fsdp": (3,)}, recompute=("none", "full"),
                    chosen={"fsdp 3": r"^(?!.*--)(?!.*remat_policy=(true|false)).*MaxText"}),
    "ms-swift-lora": dict(source="ms-swift swift/arguments: deepspeed zero0 to zero3", tp=ANY, cp=ANY, pp=ONE, vp=ONE, ep=ONE,
                          zero={"fsdp": (2, 3), "ddp": (0,), "deepspeed": (0, 1, 2, 3)}, recompute=("none", "full"),
                          chosen={f"deepspeed {n}": rf"--deepspeed zero{n}\b" for n in range(4)}),
    "megatron-swift": dict(source="ms-swift swift/megatron/arguments: use_distributed_optimizer; data_parallel_sharding_strategy only with "
                                  "use_megatron_fsdp", tp=ANY, cp=ANY, pp=ANY, vp=ANY, ep=ANY, zero={"megatron": (0, 1)}, schedules=ALL),
}

SIZES = {"8b": ("meta-llama/Llama-3.1-8B", "llama3.1-8b"), "7b": ("Qwen/Qwen2.5-7B", "qwen2.5-7b"),
         "70b": ("meta-llama/Llama-3.1-70B", "llama3.1-70b")}
SHAPES = {"8b": "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8",
          "7b": "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 --num-query-groups 4",
          "70b": "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --num-query-groups 8"}
TUNE = {"8b": "llama3_1.llama3_1_8b", "7b": "qwen2_5.qwen2_5_7b_base", "70b": "llama3_1.llama3_1_70b"}
NEOX = {"8b": (32, 4096, 32), "7b": (28, 3584, 28), "70b": (80, 8192, 64)}


def texts(size):
    """A job of this size for each program, in its own words: the name of the file and what it says."""
    hub = SIZES[size][0]
    layers, hidden, heads = NEOX[size]
    trainer = f"--model_name_or_path {hub} --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --max_seq_length 4096 --bf16"
    return {
        "axolotl": ("a.yaml", f"base_model: {hub}\nsequence_len: 4096\ndatasets:\n  - path: d\nmicro_batch_size: 1\nbf16: true\n"
                              "sample_packing: true\nfsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n"),
        "llama-factory": ("l.yaml", f"model_name_or_path: {hub}\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\ntemplate: llama3\n"
                                    "per_device_train_batch_size: 1\nbf16: true\npacking: true\n"
                                    "deepspeed: examples/deepspeed/ds_z3_config.json\n"),
        "trainer": ("t.sh", f"torchrun --nproc_per_node 8 run_clm.py {trainer} --fsdp full_shard\n"),
        "ms-swift": ("s.sh", f"swift sft --model {hub} --tuner_type full --torch_dtype bfloat16 --max_length 4096 "
                             "--per_device_train_batch_size 1 --deepspeed zero3\n"),
        "torchtitan": ("t.toml", '[model]\nname = "llama3"\nflavor = "%s"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n'
                                 '[parallelism]\ndata_parallel_shard_degree = -1\n' % size.upper()),
        "nanotron": ("n.yaml", "parallelism:\n  dp: 8\n  pp: 1\n  tp: 1\n  pp_engine: 1f1b\noptimizer:\n  zero_stage: 1\nmodel:\n"
                               f"  dtype: bfloat16\n  model_config:\n    hidden_size: {hidden}\n    num_attention_heads: {heads}\n"
                               f"    num_hidden_layers: {layers}\n    num_key_value_heads: {heads}\n    intermediate_size: {4 * hidden}\n"
                               "    vocab_size: 32000\n    is_llama_config: true\ntokens:\n  micro_batch_size: 1\n"
                               "  sequence_length: 4096\n  batch_accumulation_per_replica: 8\n"),
        "gpt-neox": ("x.yml", f'{{"num_layers": {layers}, "hidden_size": {hidden}, "num_attention_heads": {heads}, "seq_length": 2048, '
                              '"max_position_embeddings": 2048, "pipe_parallel_size": 1, "model_parallel_size": 1, '
                              '"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}\n'),
        "litgpt": ("g.sh", f"litgpt finetune_full {hub} --precision bf16-true --devices 8 --train.max_seq_length 4096 "
                           "--train.micro_batch_size 1 --train.global_batch_size 64\n"),
        "openrlhf": ("o.sh", f"deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --pretrain {hub} --max_len 4096 --bf16 "
                             "--micro_train_batch_size 1 --train_batch_size 64 --zero_stage 3 --packing_samples\n"),
        "verl-sft": ("v.sh", f"torchrun --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain={hub} "
                             "data.micro_batch_size_per_gpu=1 data.train_batch_size=64 data.max_length=4096\n"),
        "megatron": ("m.sh", f"torchrun --nproc_per_node 8 pretrain_gpt.py {SHAPES[size]} --group-query-attention --swiglu "
                             "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 "
                             "--use-distributed-optimizer --vocab-size 128256 --tokenizer-type NullTokenizer\n"),
        "nemo": ("k.sh", f"nemo llm pretrain --factory {'llama31_70b' if size == '70b' else 'llama31_8b'} trainer.num_nodes=1 "
                         "trainer.devices=8\n"),
        "torchtune-file": ("full.yaml", f"model:\n  _component_: torchtune.models.{TUNE[size]}\ntokenizer:\n  max_seq_len: 4096\n"
                                        "dataset:\n  packed: true\nbatch_size: 1\ngradient_accumulation_steps: 1\n"
                                        "enable_activation_checkpointing: true\ndtype: bf16\n"
                                        "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n"),
        "trl": ("r.sh", f"accelerate launch --num_processes 8 trl/scripts/sft.py {trainer} --dataset_name d\n"),
        "maxtext": ("p.sh", f"python3 -m MaxText.train MaxText/configs/base.yml model_name={SIZES[size][1]} per_device_batch_size=2 "
                            "max_target_length=4096 hardware=gpu ici_fsdp_parallelism=8\n"),
        "ms-swift-lora": ("w.sh", f"NPROC_PER_NODE=8 swift sft --model {hub} --tuner_type lora --torch_dtype bfloat16 --max_length 2048 "
                                  "--per_device_train_batch_size 1\n"),
        "megatron-swift": ("c.sh", f"NPROC_PER_NODE=8 megatron sft --model {hub} --micro_batch_size 1 --global_batch_size 64 "
                                   "--tensor_model_parallel_size 2 --max_length 4096\n"),
    }


def wrong(facts, choice):
    """What of a layout the program has no setting for."""
    found = [f"{key} {choice[key]}" for key in ("tp", "pp", "vp", "cp", "ep") if choice[key] not in facts[key]]
    if choice["stack"] not in facts["zero"]:
        found.append(f"software {choice['stack']}")
    elif choice["zero"] not in facts["zero"][choice["stack"]]:
        found.append(f"ZeRO {choice['zero']} of {choice['stack']}")
    if choice["stack"] == "deepspeed" and choice["tp"] > 1 and choice["zero"] > 2:
        found.append("ZeRO 3 with AutoTP (DeepSpeed deepspeed/runtime/engine.py)")
    if choice["pp"] > 1 and choice["zero"] not in facts.get("staged", (0, 1, 2, 3)):
        found.append(f"ZeRO {choice['zero']} with stages")
    if choice["pp"] > 1 and choice["schedule"] not in facts.get("schedules", ALL):
        found.append(f"schedule {choice['schedule']}")
    if choice["recompute"].split("/")[0] not in facts.get("recompute", (choice["recompute"].split("/")[0],)):
        found.append(f"recompute {choice['recompute']}")
    return found


def unsaid(facts, choice, words):
    """What the edited line does not have of the software that is to run it."""
    pattern = facts.get("chosen", {}).get(f"{choice['stack']} {choice['zero']}")
    if not pattern:
        return []
    done = subprocess.run([*words[:-2], "--emit", "edited"], capture_output=True, text=True, timeout=600, check=False)
    return [] if re.search(pattern, done.stdout) else [f"the line has no {pattern}: {done.stdout.strip()} {done.stderr.strip()}"]


def main():
    program, only = sys.argv[1], sys.argv[2:]
    asked = failed = 0
    jobs = [("8b", 8, "h100-sxm"), ("7b", 16, "a100-sxm-80"), ("70b", 64, "h200-sxm"), ("8b", 64, "h100-sxm"), ("70b", 32, "b200-sxm")]
    for turn, (size, gpus, gpu) in enumerate(jobs):
        for number, (name, (file, text)) in enumerate(texts(size).items()):
            if only and name not in only or size == "7b" and name in ("torchtitan", "maxtext"):
                continue  # they have no network of that size
            if not only and number % len(jobs) != turn and not os.environ.get("LOCKSTEP_LONG"):
                continue
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            words = [program, "plan", file, "--gpu", gpu, "--gpus", str(gpus), "--gbs", "256", "--top", "1",
                     "--no-exact", "--no-sensitivity", "-o", "json"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode == 2:
                print(f"{name} {size} on {gpus} {gpu}: {done.stderr.strip()}")
                failed += 1
                continue
            asked += 1
            for choice in json.loads(done.stdout)["counts"][0]["choices"]:
                found = wrong(FACTS[name], choice) + unsaid(FACTS[name], choice, words)
                if found:
                    print(f"{name} {size} on {gpus} {gpu}: {choice['layout']}: {', '.join(found)} ({FACTS[name]['source']})")
                    failed += 1
    print(f"{asked} plans, {failed} wrong")


if __name__ == "__main__":
    main()
