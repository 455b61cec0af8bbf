#!/usr/bin/env python3
"""Changes that make a job fit are settings that the program of the file has.
Usage: fixes.py PROGRAM [NAME]   works in the current folder; prints each setting that the program does not declare

SETTINGS says apart from lockstep what each program declares of memory, by the files that capability.py names."""
import json
import subprocess
import sys

from capability import texts

TRAINER = """per_device_train_batch_size gradient_accumulation_steps gradient_checkpointing fsdp deepspeed optim use_liger_kernel
    fsdp_config.activation_checkpointing num_processes nproc_per_node nnodes max_seq_length"""
ADAPTERS = " use_peft lora_target_modules lora_r load_in_4bit"
SETTINGS = {name: set(words.split()) for name, words in {
    "axolotl": """micro_batch_size gradient_accumulation_steps gradient_checkpointing fsdp_config.offload_params fsdp_config.cpu_offload
        fsdp_config.activation_checkpointing adapter lora_target_linear lora_target_modules load_in_4bit sequence_len deepspeed
        tensor_parallel_size context_parallel_size plugins plugins.- liger_fused_linear_cross_entropy liger_cross_entropy
        liger_rope liger_rms_norm liger_glu_activation activation_offloading dp_shard_size lora_r""",
    "llama-factory": """per_device_train_batch_size gradient_accumulation_steps disable_gradient_checkpointing deepspeed
        finetuning_type quantization_bit quantization_method lora_target lora_rank cutoff_len enable_liger_kernel optim fsdp""",
    "trainer": TRAINER + ADAPTERS,
    "ms-swift": TRAINER + """ tuner_type train_type target_modules quant_bits quant_method max_length NPROC_PER_NODE offload_model
        lora_target_modules use_liger_kernel sequence_parallel_size""",
    "torchtitan": """training.local_batch_size training.global_batch_size training.enable_cpu_offload activation_checkpoint.mode
        parallelism.tensor_parallel_degree parallelism.pipeline_parallel_degree parallelism.context_parallel_degree
        parallelism.data_parallel_shard_degree training.seq_len""",
    "nanotron": """parallelism.dp parallelism.tp parallelism.pp parallelism.recompute_layer optimizer.zero_stage parallelism.expert_parallel_size
        tokens.micro_batch_size tokens.batch_accumulation_per_replica tokens.sequence_length parallelism.tp_mode
        parallelism.tp_linear_async_communication model.model_config.vocab_size""",
    "gpt-neox": """train_micro_batch_size_per_gpu gradient_accumulation_steps checkpoint_activations checkpoint_num_layers
        partition_activations pipe_parallel_size model_parallel_size zero_optimization.stage zero_optimization.cpu_offload
        zero_optimization.offload_optimizer.device train_batch_size seq_length sequence_parallel""",
    "litgpt": "train.micro_batch_size train.global_batch_size train.max_seq_length devices num_nodes",
    "openrlhf": """micro_train_batch_size train_batch_size gradient_checkpointing adam_offload zero_stage lora_rank target_modules
        load_in_4bit max_len ds_tensor_parallel_size ring_attn_size num_gpus""",
    "verl-sft": """data.micro_batch_size_per_gpu data.train_batch_size data.max_length model.enable_gradient_checkpointing
        model.fsdp_config.cpu_offload model.fsdp_config.offload_params model.lora_rank model.target_modules model.use_liger
        ulysses_sequence_parallel_size nproc_per_node nnodes engine.turbo_config.distributed.tensor_parallel_size
        optim.override_optimizer_config.optimizer_cpu_offload""",
    "megatron": """micro-batch-size global-batch-size recompute-granularity recompute-method recompute-num-layers optimizer-cpu-offload
        tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size sequence-parallel nproc_per_node nnodes
        cross-entropy-loss-fusion cross-entropy-fusion-impl use-precision-aware-optimizer use-megatron-fsdp
        data-parallel-sharding-strategy use-cpu-initialization seq-length""",
}.items()}


def settings(words):
    """Names of "a.b: 1; --c-d 2; without e"."""
    for part in words.split("; "):
        yield part.removeprefix("without ").removeprefix("--").replace("=", " ").replace(":", " ").split()[0]


def main():
    program, only = sys.argv[1], sys.argv[2:]
    named = failed = 0
    for name, (file, text) in texts("8b").items():
        if name not in SETTINGS or only and name not in only:
            continue
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        words = [program, "predict", file, "--gpu", "rtx-5090", "--gpus", "8", "-o", "json"]
        answer = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
        for fix in answer["fixes"]:
            named += 1
            for setting in settings(fix["words"]) if fix["words"] else ():
                if setting not in SETTINGS[name]:
                    print(f"{name}: {fix['change']} is {fix['words']}: it has no {setting}")
                    failed += 1
            if not fix["words"]:
                print(f"{name}: {fix['change']} is in no words of its own")
                failed += 1
    print(f"{named} changes, {failed} wrong")


if __name__ == "__main__":
    main()
