#!/usr/bin/env python3
"""What a text that --emit wrote tells its framework of the job, by the framework's own words.

published.py takes texts apart and asks here: a fact of the job that is in no key of the text, or in one with another value, has to be
named in a note ("NAME has no setting for FIELD VALUE: as written ..."). KEYS says which key of which framework says which fact,
apart from data/launch; a framework's default stands where it has none."""
import re

# tp, pp, vp, cp, ep: a degree; absent is 1. batch: mbs, and gbs or what accumulates to it. A part of a key before ":" is its file.
LINE = dict(tp="tensor-model-parallel-size", pp="pipeline-model-parallel-size", vp="num-virtual-stages-per-pipeline-rank",
            cp="context-parallel-size", ep="expert-model-parallel-size", mbs="micro-batch-size", gbs="global-batch-size", seq="seq-length")
TITAN, STRATEGY, ACCELERATE = "parallelism.", "trainer.strategy.", "accelerate.yaml:parallelism_config.parallelism_config_"
KEYS = {
    "megatron": LINE,
    "deepspeed": {**LINE, "vp": None, "cp": None, "ep": None},
    "bridge": dict(tp="model.tensor_model_parallel_size", pp="model.pipeline_model_parallel_size",
                   vp="model.virtual_pipeline_model_parallel_size", cp="model.context_parallel_size", ep="model.expert_model_parallel_size",
                   mbs="train.micro_batch_size", gbs="train.global_batch_size", seq="dataset.seq_length"),
    "nemo": dict(tp=STRATEGY + "tensor_model_parallel_size", pp=STRATEGY + "pipeline_model_parallel_size",
                 vp=STRATEGY + "virtual_pipeline_model_parallel_size", cp=STRATEGY + "context_parallel_size",
                 ep=STRATEGY + "expert_model_parallel_size", mbs="data.micro_batch_size", gbs="data.global_batch_size", seq="data.seq_length"),
    "torchtitan": dict(tp=TITAN + "tensor_parallel_degree", pp=TITAN + "pipeline_parallel_degree", cp=TITAN + "context_parallel_degree",
                       ep=TITAN + "expert_parallel_degree", seq="training.max_context_length"),
    "axolotl": dict(tp="tensor_parallel_size", cp="context_parallel_size", ep="expert_parallel_size", mbs="micro_batch_size",
                    accumulation="gradient_accumulation_steps", seq="sequence_len"),
    "llama-factory": dict(tp="tensor_model_parallel_size", pp="pipeline_model_parallel_size", vp="virtual_pipeline_model_parallel_size",
                          ep="expert_model_parallel_size", cp="context_parallel_size", mbs="per_device_train_batch_size",
                          accumulation="gradient_accumulation_steps", seq="cutoff_len"),
    "nanotron": dict(tp="parallelism.tp", pp="parallelism.pp", cp="parallelism.context_parallel_size", ep="parallelism.expert_parallel_size",
                     mbs="tokens.micro_batch_size", accumulation="tokens.batch_accumulation_per_replica", seq="tokens.sequence_length"),
    "accelerate": dict(tp=ACCELERATE + "tp_size", cp=ACCELERATE + "cp_size", mbs="per_device_train_batch_size",
                       accumulation="gradient_accumulation_steps", seq="max_length"),
}
PAIRS = {"--dpo", "dpo", "orpo", "reward", "dpo+lora"}
PREFERENCES = PAIRS | {"kto"}  # data that nothing packs, as nothing packs images
PACKING = {"axolotl": "sample_packing", "llama-factory": "packing", "accelerate": "packing"}
# What a note calls a fact, where not by its own name.
FIELDS = {"targets": ("lora_targets",), "packing": ("ragged",), "zero": ("sharding",), "recompute": ("recompute", "recompute_modules", "recompute_layers"), "offload": ("offload_",),
          "base": ("narrow_base", "base_"), "rank": ("lora_rank",), "dtype": ("dtype", "fp8_recipe"), "seq": ("seq", "ragged")}
WIDE = {"bf16": "bf16", "fp16": "fp16", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


# Of optimizers: the key, and where it has another word than lockstep.
OPTIMIZERS = {"megatron": "optimizer", "deepspeed": "optimizer", "axolotl": "optimizer", "llama-factory": "optim", "accelerate": "optim",
              "nanotron": "optimizer.optimizer_factory.name"}
OPTIMIZER = {"adamw_torch": "adam", "adamw_torch_fused": "adam", "adamw_bnb_8bit": "adam-8bit", "adamw_torch_4bit": "adam-4bit",
             "lion_32bit": "lion", "lion_8bit": "lion-8bit", "ademamix_8bit": "ademamix-8bit", "dist_muon": "muon", "adamW": "adam",
             "flash_adamw": "adam-flash"}
# Of pipelines, with stages that interleave and without; None: it runs 1f1b and interleaved alone.
SCHEDULES = {"torchtitan": "parallelism.pipeline_parallel_schedule", "nanotron": "parallelism.pp_engine"}
SCHEDULE = {"Interleaved1F1B": "interleaved", "1F1B": "1f1b", "GPipe": "gpipe", "ZBVZeroBubble": "zb-v", "afab": "gpipe", "1f1b": "1f1b"}
# Layers with adapters, as what they are.
ATTENTION, MLP = ("q", "k", "v", "o"), ("gate", "up", "down")
LAYERS = {"linear_qkv": ("q", "k", "v"), "linear_proj": ("o",), "linear_fc1": ("gate", "up"), "linear_fc2": ("down",)}


def layers(names):
    """The layers that a list of names adapts."""
    found = [LAYERS.get(name) or (name.removesuffix("_proj"),) for name in re.findall(r"\w+", names)]
    return sorted({layer for one in found for layer in one})


def targets(text):
    """Layers with adapters by the text's words, as all_linear or those named."""
    named = [text.get(key) for key in ("lora_target_modules.-", "lora_target_modules", "lora_target", "peft.target_modules")]
    named = next((one for one in named if one), "all")
    return sorted(ATTENTION + MLP) if named in ("all", "all-linear") or text.on("lora_target_linear") else layers(named)


def optimizer(text):
    name = text.get(OPTIMIZERS.get(text.framework)) or "adam"
    return OPTIMIZER.get(name, name)


class Text:
    """The keys of one text: of the framework, or of a file beside it as "FILE:KEY"."""
    def __init__(self, framework, said):
        self.framework, self.said = framework, said

    def get(self, key):
        name, _, inner = (key or "").rpartition(":")
        values = self.said.get((name or self.framework, inner))
        return None if values is None else " ".join(str(value) for value in values)

    def on(self, key):
        return self.get(key) in ("", "True", "true", "1", "word")

    def under(self, part):
        return any(name in (self.framework, "accelerate.yaml") and key.startswith(part) for name, key in self.said)


def zero(text):
    """The stage of sharding that the text asks for."""
    name = text.framework
    if name == "megatron":
        if text.on("use-megatron-fsdp"):
            return ["no_shard", "optim", "optim_grads", "optim_grads_params"].index(text.get("data-parallel-sharding-strategy"))
        return int(text.on("use-distributed-optimizer") or text.get("optimizer") == "dist_muon")
    if name == "deepspeed":
        return int(text.get("ds_config:zero_optimization.stage"))
    if name in ("bridge", "nemo"):
        return int(text.on("ddp.use_distributed_optimizer") or text.on(STRATEGY + "ddp.use_distributed_optimizer"))
    if name == "nanotron":
        return int(text.get("optimizer.zero_stage"))
    if name == "torchtitan":
        if text.get(TITAN + "data_parallel_shard_degree") == "1":
            return 0
        return {"always": 3, "never": 2, None: 3}[text.get(TITAN + "fsdp_reshard_after_forward")]
    if name == "llama-factory" and text.get("fsdp"):
        return 2 if "shard_grad_op" in text.get("fsdp") or "zero2" in text.get("fsdp") else 3
    if name == "llama-factory" and text.on("use_distributed_optimizer"):
        return 1
    staged = re.search(r"ero([0-3])|ds_z([0-3])", text.get("deepspeed") or "")
    if staged:
        return int(staged[1] or staged[2])
    if text.get("accelerate.yaml:deepspeed_config.zero_stage"):
        return int(text.get("accelerate.yaml:deepspeed_config.zero_stage"))
    beside = "accelerate.yaml:" if name == "accelerate" else ""
    if not text.under("fsdp_config"):
        return 0
    return 3 if text.on(beside + "fsdp_config.reshard_after_forward") or text.on(beside + "fsdp_config.fsdp_reshard_after_forward") else 2


def recompute(text):
    """none, selective or full; "" where what the program does by itself is asked for."""
    name = text.framework
    if name in ("megatron", "deepspeed"):
        return " ".join(filter(None, (text.get("recompute-granularity") or "none", text.get("recompute-modules"))))
    if name in ("bridge", "nemo"):
        prefix = "model." if name == "bridge" else "model.config."
        kind = text.get(prefix + "recompute_granularity")
        return " ".join(filter(None, ("none" if kind in (None, "null") else kind, text.get(prefix + "recompute_modules"))))
    if name == "torchtitan":
        return next(key.split(":")[1] for _, key in text.said if key.startswith("activation-checkpoint:"))
    if name == "nanotron":
        return "full" if text.on("parallelism.recompute_layer") else "none"
    if name == "llama-factory" and text.get("recompute_granularity"):
        return text.get("recompute_granularity")
    if name == "llama-factory":
        return "none" if text.on("disable_gradient_checkpointing") else "full"
    return "full" if text.on("gradient_checkpointing") or text.on("accelerate.yaml:fsdp_config.fsdp_activation_checkpointing") else "none"


def dtype(text):
    name = text.framework
    if name == "megatron" and text.get("fp4-format"):
        return "nvfp4"
    if name == "megatron" and text.get("fp8-format"):
        return "mxfp8" if text.get("fp8-recipe") == "mxfp8" else "fp8"
    if name == "bridge" and text.get("mixed_precision"):
        return text.get("mixed_precision").replace("_mixed", "").replace("bf16_with_", "").split("_")[0]
    if name in ("bridge", "nemo"):
        return "bf16"  # of every recipe that names no other
    if name == "torchtitan":
        return WIDE.get(text.get("training.mixed_precision_param"))
    if name == "nanotron":
        return WIDE.get(text.get("model.dtype"))
    if text.on("fp8") or text.get("accelerate.yaml:mixed_precision") == "fp8":
        return "fp8"
    return next((word for word in ("bf16", "fp16") if text.on(word)), "fp32")


def offload(text):
    """Whether the host keeps something."""
    return any(text.on(key) for key in ("optimizer-cpu-offload", "optimizer.optimizer_cpu_offload", "optim.config.optimizer_cpu_offload",
                                        "cpu-optimizer", "training.enable_cpu_offload", "fsdp_config.offload_params",
                                        "accelerate.yaml:fsdp_config.fsdp_offload_params")) or any(
        word in (text.get(key) or "") for key in ("deepspeed", "fsdp", "accelerate.yaml:deepspeed_config.offload_optimizer_device",
                                                  "accelerate.yaml:deepspeed_config.offload_param_device")
        for word in ("offload", "cpu"))


def asked(job, layout):
    """The facts of a job: its flags, and the layout that predict answers."""
    words = job.split()
    value = lambda flag, default: words[words.index(flag) + 1] if flag in words else default
    stage = re.search(r"ZeRO (\d)", layout["text"])
    facts = {key: layout[key] for key in ("tp", "pp", "cp", "ep", "mbs", "gbs", "seq", "dtype", "recompute")}
    facts["vp"] = layout["vp"] if layout["schedule"] == "interleaved" else 1
    facts["zero"] = int(stage[1]) if stage and layout["dp"] * layout["cp"] > 1 else 0
    facts["optimizer"] = value("--optimizer", "adam")
    facts["schedule"] = layout["schedule"] if layout["pp"] > 1 else "1f1b"
    facts["packing"] = not PREFERENCES & set(words) and "-vl-" not in job
    facts["offload"] = "--offload-optimizer" in words or "--offload-params" in words
    if value("--task", "") == "lora":
        facts["rank"] = int(value("--lora-rank", 16))
        facts["targets"] = layers(value("--lora-targets", "q_proj+k_proj+v_proj+o_proj"))
        facts["base"] = 4 if "--qlora" in words else 8 if "--base-format" in words else 16
    return facts


def told(text, job, facts, gpus):
    """The same facts by the text's words; None: no word."""
    keys, found = KEYS[text.framework], {}
    number = lambda key: None if text.get(key) in (None, "") else int(text.get(key)) if text.get(key) != "null" else 1
    for key in ("tp", "pp", "vp", "cp", "ep"):
        found[key] = number(keys.get(key)) or 1
    layout = text.get("pipeline-model-parallel-layout")
    if layout:
        found["vp"] = len(expand(layout).split("|")) // found["pp"]
    for key in ("mbs", "gbs", "seq"):
        found[key] = number(keys.get(key))
    if text.framework == "torchtitan":
        found["mbs"] = number("training.num_tokens_per_microbatch_per_dp_rank") // found["seq"]
        found["gbs"] = number("training.num_tokens_per_train_step") // found["seq"]
        found["vp"] = facts["vp"]  # by layers per stage, or two where the schedule is interleaved
    if PAIRS & set(job.split()):
        found["mbs"] *= 2  # what the text counts are pairs
    if "accumulation" in keys:
        found["gbs"] = found["mbs"] * number(keys["accumulation"]) * gpus // (found["tp"] * found["cp"] * found["pp"])
    found |= {"zero": zero(text) if facts["zero"] or zero(text) != 3 else 0, "dtype": dtype(text), "offload": offload(text)}
    found["optimizer"] = optimizer(text)
    word = text.get(SCHEDULES.get(text.framework))
    found["schedule"] = "1f1b" if found["pp"] == 1 else SCHEDULE.get(word, "interleaved" if found["vp"] > 1 else "1f1b")
    found["packing"] = text.on(PACKING[text.framework]) if text.framework in PACKING else facts["packing"]
    kind, _, modules = recompute(text).partition(" ")
    found["recompute"] = facts["recompute"] if same_recompute(facts["recompute"], kind, modules) else f"{kind} {modules}"
    if "rank" in facts:
        found["targets"] = targets(text)
        found["rank"] = number("lora_r") or number("lora_rank") or number("peft.dim")
        bits = number("quantization_bit") or 16
        found["base"] = 4 if text.on("load_in_4bit") else 8 if text.on("load_in_8bit") else bits
    return found


def expand(layout):
    """A pipeline layout of Megatron-LM without its brackets: (t*2|)*4 is tt|tt|tt|tt|."""
    layout = re.sub(r"([tmEL])\*(\d+)", lambda found: found[1] * int(found[2]), layout)
    return re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), layout)


def same_recompute(ours, kind, modules):
    """ours: none, full, full/4, selective or modules with + between them."""
    if ours in ("none", "selective"):
        return ours == kind and modules in ("", "core_attn")
    if ours.startswith("full"):
        return kind == "full"
    return kind == "selective" and sorted(re.findall(r"\w+", modules)) == sorted(ours.split("+"))


def unsaid(framework, said, job, layout, notes):
    """Facts of the job that neither the text nor a note says, in words."""
    text = Text(framework, said)
    facts = asked(job, layout)
    found = told(text, job, facts, layout["gpus"])
    lists = re.findall(r"has no setting for (.*?): (?:as written|what is written)", notes)
    return [f"{framework} is told {key} {found[key]}, not {facts[key]}" for key in facts if found[key] != facts[key] and not any(
        any(part.split(" ")[0].startswith(field) for field in FIELDS.get(key, (key,))) for one in lists for part in one.split(", "))]
