"""Which public configurations are answered rightly: what each file states of its layout, batch, sequence and number format,
taken out of it here on its own (PyYAML and a few lines a framework), against the job that lockstep read.

States of a file: "rightly"; "answered", where its framework has no lines here; "otherwise" than it states; "refused"; "no job",
or a network or method that is refused by name."""
import math
import os
import re
import subprocess
import tomllib

import yaml

SCRIPTS = (".sh", ".sbatch", ".slurm")
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
COLUMNS = "path name params gpus tp pp cp ep vp mbs gbs seq dtype sharding stack lora".split()

# Published totals, in units of 1e9 (model cards of the repositories), of networks that many files name.
PUBLISHED = {
    "meta-llama/Llama-3.1-8B": 8.03, "meta-llama/Llama-3.2-1B": 1.236, "meta-llama/Llama-3.2-3B": 3.213,
    "meta-llama/Llama-3.3-70B-Instruct": 70.55, "meta-llama/Meta-Llama-3-8B-Instruct": 8.03,
    "meta-llama/Llama-3.2-1B-Instruct": 1.236, "meta-llama/Llama-3.1-8B-Instruct": 8.03,
    "Qwen/Qwen2.5-0.5B": 0.494, "Qwen/Qwen2.5-1.5B": 1.544, "Qwen/Qwen2.5-7B": 7.616, "Qwen/Qwen2.5-32B": 32.76,
    "Qwen/Qwen2.5-Math-7B": 7.616, "Qwen/Qwen2.5-7B-Instruct": 7.616, "Qwen/Qwen3-0.6B": 0.596, "Qwen/Qwen3-1.7B": 1.72,
    "Qwen/Qwen3-4B": 4.02, "Qwen/Qwen3-4B-Instruct-2507": 4.02, "meta-llama/Meta-Llama-3-8B": 8.03,
    "Qwen/Qwen2.5-0.5B-Instruct": 0.494, "Qwen/Qwen2-0.5B": 0.494, "Qwen/Qwen3.5-397B-A17B": 396.8, "gpt2": 0.1244,
    "Qwen/Qwen3-8B": 8.19, "Qwen/Qwen3-14B": 14.77, "Qwen/Qwen3-32B": 32.76,
    "Qwen/Qwen3-30B-A3B": 30.53, "Qwen/Qwen3-235B-A22B": 235.1, "Qwen/Qwen3-Next-80B-A3B-Instruct": 79.7,
    "openai/gpt-oss-20b": 20.9, "openai/gpt-oss-120b": 116.8, "mistralai/Mistral-7B-v0.1": 7.24,
    "mistralai/Mixtral-8x7B-v0.1": 46.7, "google/gemma-2-2b": 2.614, "google/gemma-3-270m": 0.268,
    "microsoft/phi-4": 14.66, "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1.10, "zai-org/GLM-4.5-Air": 106.85,
    "deepseek-ai/DeepSeek-V3": 671.0, "moonshotai/Moonlight-16B-A3B": 15.96, "ByteDance-Seed/Seed-OSS-36B-Instruct": 36.15,
    "HuggingFaceTB/SmolLM2-1.7B": 1.711, "NousResearch/Llama-3.2-1B": 1.236, "NousResearch/Meta-Llama-3.1-8B": 8.03,
    "NousResearch/Meta-Llama-3-8B": 8.03, "nvidia/NVIDIA-Nemotron-Nano-9B-v2": 8.89,
}

# The last one: frameworks refuse such a batch too (AutoModel's StepScheduler).
NO_JOB = re.compile("preset of Primus|belong to none of|trains nothing|no model was given|expected a value|diffusion|retrieval|"
                    "drafters|flow_matching|more than training|classifier|(is|are) not modelled|no preset has them|the preset is not "
                    "found|the file .* is not found|wan2|has launched nothing|is in another file|is an argument of the script|"
                    "no training program|the file is not here|launched by another script|of an encoder alone is not modelled|"
                    "of images alone is not modelled|a global batch of .* is not a multiple of mbs")


def number(value):
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return None


def at(tree, path):
    for part in path.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return None if isinstance(tree, str) and tree.lower() in ("none", "null", "auto", "") else tree


def first(tree, *paths):
    return next((number(at(tree, p)) for p in paths if number(at(tree, p)) is not None), None)


def texts(tree):
    """Scalars as texts, as LOADER leaves them."""
    if isinstance(tree, dict):
        return {key: texts(value) for key, value in tree.items()}
    return str(tree).lower() if isinstance(tree, bool) else tree if isinstance(tree, list) else str(tree)


def load(path):
    if path.endswith(".toml"):
        with open(path, "rb") as file:
            return texts(tomllib.load(file))
    if path.endswith(SCRIPTS):
        return {}  # its framework reads the text
    with open(path, encoding="utf-8") as file:
        return yaml.load(file.read().replace("\t", " "), LOADER) or {}


def on(value):
    return isinstance(value, str) and value.lower() == "true"


def merge(under, over):
    out = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict) and value.get("_override_") != "true"
        out[key] = merge(out[key], value) if both else value
    return out


def numbers(tree, bf16, fp16):
    bf = str(at(tree, bf16)).lower()
    if bf in ("true", "auto", "none") and at(tree, bf16) is None:
        return "fp16" if on(at(tree, fp16)) else None
    return "bf16" if bf in ("true", "auto") else "fp16" if on(at(tree, fp16)) else None


def axolotl(tree, path):
    pairs = at(tree, "rl") in ("dpo", "ipo", "orpo", "simpo") or at(tree, "reward_model") == "true"
    facts = {"mbs": (first(tree, "micro_batch_size") or 1) * (2 if pairs else 1), "seq": first(tree, "sequence_len"),
             "tp": first(tree, "tensor_parallel_size") or 1, "cp": first(tree, "context_parallel_size") or 1,
             "dtype": numbers(tree, "bf16", "fp16"), "accumulation": first(tree, "gradient_accumulation_steps"),
             "lora": at(tree, "adapter") in ("lora", "qlora"), "network": at(tree, "base_model")}
    if at(tree, "batch_size"):
        facts["accumulation"] = None
    return facts


def llama_factory(tree, path):
    pairs = at(tree, "stage") in ("dpo", "rm")
    return {"mbs": (first(tree, "per_device_train_batch_size", "micro_batch_size") or 0) * (2 if pairs else 1) or None,
            "seq": first(tree, "cutoff_len"), "accumulation": first(tree, "gradient_accumulation_steps"),
            "dtype": numbers(tree, "bf16", "fp16"), "network": at(tree, "model_name_or_path") or at(tree, "model"),
            "lora": (at(tree, "finetuning_type") or at(tree, "peft_config.name")) == "lora" or None}


def automodel(tree, path):
    packed = first(tree, "packed_sequence.packed_sequence_size") or None
    piped = (first(tree, "distributed.pp_size") or 1) > 1
    pieces = first(tree, "distributed.pipeline.pp_microbatch_size", "autopipeline.pp_microbatch_size") or 1
    return {"mbs": pieces if piped else first(tree, "step_scheduler.local_batch_size"), "gbs": first(tree, "step_scheduler.global_batch_size"),
            "tp": first(tree, "distributed.tp_size") or 1, "cp": first(tree, "distributed.cp_size") or 1,
            "pp": first(tree, "distributed.pp_size") or 1, "ep": first(tree, "distributed.ep_size"),
            "seq": packed or first(tree, "dataset.seq_len", "dataset.seq_length"),
            "lora": isinstance(tree.get("peft"), dict),
            "network": at(tree, "model.pretrained_model_name_or_path") or at(tree, "model.config.pretrained_model_name_or_path")}


def fill(text):
    """${VAR:default} of Primus, inner ones first."""
    while True:
        out = re.sub(r"\$\{[A-Z0-9_]+(?::([^${}]*))?\}", lambda m: m.group(1) or "", text)
        if out == text:
            return text
        text = out


def primus_file(path):
    with open(path, encoding="utf-8") as file:
        tree = yaml.load(fill(file.read()), LOADER) or {}
    out = {}
    for base in tree.get("extends", tree.get("bases", [])) or []:
        out = merge(out, primus_file(os.path.join(os.path.dirname(path), base)))
    return merge(out, {k: v for k, v in tree.items() if k not in ("extends", "bases")})


def primus(tree, path):
    root = path[:path.index("/primus/") + len("/primus/")] + "primus/configs"
    module = next(iter(primus_file(path)["modules"].values()))
    framework = module["framework"]
    out = {}
    for kind, name in (("modules", module.get("config")), ("models", module.get("model"))):
        if name:
            out = merge(out, primus_file(f"{root}/{kind}/{framework}/{name}"))
    out = merge(out, module.get("overrides") or {})
    if framework == "megatron":
        return {"mbs": first(out, "micro_batch_size"), "gbs": first(out, "global_batch_size"), "seq": first(out, "seq_length"),
                "tp": first(out, "tensor_model_parallel_size"), "pp": first(out, "pipeline_model_parallel_size"),
                "cp": first(out, "context_parallel_size") or 1, "ep": first(out, "expert_model_parallel_size"),
                "narrow": bool(at(out, "fp8") or at(out, "fp4"))}
    pieces = first(out, "parallelism.pipeline_parallel_microbatch_size") or 1
    piped = (first(out, "parallelism.pipeline_parallel_degree") or 1) > 1
    return {"mbs": pieces if piped else first(out, "training.local_batch_size"), "seq": first(out, "training.seq_len"),
            "tp": first(out, "parallelism.tensor_parallel_degree") or 1,
            "pp": first(out, "parallelism.pipeline_parallel_degree") or 1,
            "cp": first(out, "parallelism.context_parallel_degree") or 1,
            "narrow": any("linear" in name for name in at(out, "model.converters") or [])}


def nemo_file(path):
    tree = load(path)
    bases = tree.pop("defaults", [])
    out = {}
    for base in [bases] if isinstance(bases, str) else bases:
        out = merge(out, nemo_file(os.path.join(os.path.dirname(path), base)))
    return merge(out, tree)


def nemo_value(tree, path):
    value = at(tree, path)
    for _ in range(8):
        found = re.fullmatch(r"\$\{([A-Za-z_][\w.]*)\}", value) if isinstance(value, str) else None
        if not found:
            return number(value)
        value = at(tree, found.group(1))
    return None


def nemo_rl(tree, path):
    tree = nemo_file(path)
    core = on(at(tree, "policy.megatron_cfg.enabled"))
    ours = {"tp": "policy.megatron_cfg.tensor_model_parallel_size", "pp": "policy.megatron_cfg.pipeline_model_parallel_size",
            "cp": "policy.megatron_cfg.context_parallel_size", "ep": "policy.megatron_cfg.expert_model_parallel_size"} if core \
        else {"tp": "policy.dtensor_cfg.tensor_parallel_size", "cp": "policy.dtensor_cfg.context_parallel_size"}
    facts = {key: nemo_value(tree, where) for key, where in ours.items()}
    pairs = 2 if "dpo" in tree else 1
    for key, where, times in (("mbs", "train_micro_batch_size", pairs), ("gbs", "train_global_batch_size", pairs),
                              ("seq", "max_total_sequence_length", 1)):
        value = nemo_value(tree, "policy." + where)
        facts[key] = value * times if value else None
    facts["network"] = at(tree, "policy.model_name")
    return facts


def megatron_ci(tree, path):
    args = tree.get("MODEL_ARGS") or {}
    pick = lambda name: number(args.get("--" + name))
    bf16, fp16 = on(args.get("--bf16")), on(args.get("--fp16"))
    narrow = "--fp8-format" in args or "--fp4-format" in args
    return {"mbs": pick("micro-batch-size"), "gbs": pick("global-batch-size"), "seq": pick("seq-length"),
            "tp": pick("tensor-model-parallel-size"), "pp": pick("pipeline-model-parallel-size"),
            "cp": pick("context-parallel-size"), "ep": pick("expert-model-parallel-size"),
            "dtype": None if narrow else "bf16" if bf16 else "fp16" if fp16 else None}


def gpt_neox(tree, path):
    tree = {key.replace("-", "_"): value for key, value in tree.items()}
    fp16, bf16 = on(at(tree, "fp16.enabled")), on(at(tree, "bf16.enabled"))
    precision = {"bfloat16": "bf16", "fp16": "fp16", "fp32": "fp32"}.get(at(tree, "precision"))
    return {"mbs": first(tree, "train_micro_batch_size_per_gpu"), "gbs": first(tree, "train_batch_size"),
            "seq": first(tree, "seq_length"), "tp": first(tree, "model_parallel_size"),
            "pp": max(first(tree, "pipe_parallel_size") or 1, 1), "accumulation": first(tree, "gradient_accumulation_steps"),
            "dtype": precision or ("bf16" if bf16 else "fp16" if fp16 else None)}


def nanotron(tree, path):
    model = at(tree, "model.model_config") or {}
    h, layers, ffn = (number(model.get(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size"))
    heads, kv, vocab = (number(model.get(key)) for key in ("num_attention_heads", "num_key_value_heads", "vocab_size"))
    params = None
    if all((h, layers, ffn, heads, kv, vocab)) and not model.get("moe_config"):
        params = layers * (2 * h * h + 2 * h * h * kv // heads + 3 * h * ffn)
        params += vocab * h * (1 if on(model.get("tie_word_embeddings")) else 2)
    return {"mbs": first(tree, "tokens.micro_batch_size"), "seq": first(tree, "tokens.sequence_length"),
            "accumulation": first(tree, "tokens.batch_accumulation_per_replica"), "tp": first(tree, "parallelism.tp"),
            "pp": first(tree, "parallelism.pp"), "dp": first(tree, "parallelism.dp"), "params": params,
            "dtype": {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(at(tree, "model.dtype"))}


def deepspeed(tree, path):
    return {"mbs": first(tree, "train_micro_batch_size_per_gpu"), "gbs": first(tree, "train_batch_size"),
            "accumulation": first(tree, "gradient_accumulation_steps"), "sharding": first(tree, "zero_optimization.stage") or 0,
            "dtype": "bf16" if on(at(tree, "bf16.enabled")) else "fp16" if on(at(tree, "fp16.enabled")) else None}


def torchtune(tree, path):
    pairs = 2 if str(at(tree, "loss._component_")).endswith("DPOLoss") else 1
    with open(path) as text:
        command = re.search(r"tune run (.*)", text.read())
    gpus = re.search(r"nproc_per_node (\d+)", command.group(1)) if command else None
    builder = at(tree, "model._component_").rsplit(".", 1)[-1]
    size = re.search(r"_(0_[56]|1_[57]|\d+)b", builder)  # in units of 1e9, as the builder's name has it
    return {"mbs": first(tree, "batch_size") * pairs, "accumulation": first(tree, "gradient_accumulation_steps"),
            "seq": first(tree, "tokenizer.max_seq_len"), "dtype": at(tree, "dtype"), "lora": "lora_" in builder,
            "dp": int(gpus.group(1)) // (first(tree, "tensor_parallel_dim") or 1) if gpus else 1,
            "billions": float(size.group(1).replace("_", ".")) if size else None}


def swift_command(path):
    """The settings before the training command of a script of ms-swift, the command's own words, and its flags."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"\\\n", " ", "\n".join(line for line in file.read().split("\n") if not line.lstrip().startswith("#")))
    known = dict(re.findall(r"^(?:export )?(\w+)=(\w+)$", text, re.M))
    text = re.sub(r"\$\{?(\w+)\}?", lambda m: known.get(m.group(1), m.group(0)), text)
    text = re.sub(r"\$\(expr (\d+(?: / \d+)+)\)", lambda m: str(eval(m.group(1).replace("/", "//"))), text)
    found = [m for m in re.finditer(r"^(.*?)(swift|megatron|swift/cli/)[ ]?(sft|pt|rlhf)(?:\.py)?(?= )(.*)$", text, re.M)][-1]
    words = re.findall(r"--(\w+)((?: +(?!-)(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+))*)", found.group(4))
    return (dict(re.findall(r"(\w+)=(\S+)", found.group(1))), found.group(1) + found.group(2), found.group(3),
            {name: value.strip().strip("'\"") for name, value in words})


def ms_swift(tree, path):
    variables, start, command, flags = swift_command(path)
    pick = lambda name, otherwise=None: otherwise if number(flags.get(name)) is None else number(flags[name])
    core, dtype = start.endswith("megatron"), {"bfloat16": "bf16", "float16": "fp16"}.get(flags.get("torch_dtype", "bfloat16"))
    method = flags.get("rlhf_type", "dpo") if command == "rlhf" else None
    pairs = 2 if method in ("dpo", "orpo", "simpo", "cpo", "rm") else 1
    tuner = flags.get("tuner_type", flags.get("train_type", "full" if core else "lora"))
    packed = 2 if pairs == 2 and flags.get("packing") == "true" else 1  # a pack has whole pairs
    facts = {"seq": pick("max_length") and pick("max_length") // packed, "lora": tuner != "full", "network": flags.get("model"),
             "dtype": "fp8" if "fp8_format" in flags else dtype, "ep": pick("expert_model_parallel_size")}
    if method == "grpo" or method == "gkd" and number(flags.get("lmbda")) == 1:
        whole = pick("max_length", 512) + pick("max_completion_length", 512)
        limit = pick("vllm_max_model_len") or whole
        facts["seq"] = min(whole, limit) if limit > pick("max_completion_length", 512) else whole
    if core:
        facts.update(mbs=pick("micro_batch_size", 1) * pairs, gbs=pick("global_batch_size", 16) * pairs,
                     tp=pick("tensor_model_parallel_size", 1), pp=pick("pipeline_model_parallel_size", 1),
                     cp=pick("context_parallel_size", 1))
    else:
        preset = re.fullmatch(r"zero([0-3])(_offload)?", flags.get("deepspeed", ""))
        facts.update(mbs=pick("per_device_train_batch_size", 1) * pairs, cp=pick("sequence_parallel_size", 1),
                     sharding=int(preset.group(1)) if preset else 0 if start.endswith("swift") else None,
                     accumulation=None if "generation_batch_size" in flags else pick("gradient_accumulation_steps"))
    processes = number(variables.get("NPROC_PER_NODE", 1 if "NNODES" not in variables and "launch" not in start else None))
    nodes = number(variables.get("NNODES", 1))
    if processes and nodes and start.endswith(("swift", "megatron")):
        facts["gpus"] = processes * nodes
    return facts


class Open(Exception):
    """A text that only the shell knows, or that a script sets in two ways."""


class Script:
    """Assignments of a shell script, as far as they say the same wherever they are, and its words."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"\\\n\s*", " ", file.read())
        self.lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
        self.text = "\n".join(self.lines)
        self.vars = {}
        for name, value in re.findall(r"(?m)^\s*(?:export |readonly |local )?([A-Za-z_]\w*)=([^(\n].*)?$", self.text):
            value = re.sub(r"\s+#.*$", "", value).strip()
            self.vars.setdefault(name, []).append(value.strip("\"'"))

    def value(self, text, depth=0):
        text = text.strip().strip("\"'")
        if depth > 12 or "$(" in text.replace("$((", "") or "`" in text:
            raise Open(text)
        sums = re.fullmatch(r"\$\(\((.*)\)\)", text)
        if sums:
            inner = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda m: self.variable(m.group(1), None, depth + 1), sums.group(1))
            if not re.fullmatch(r"[\d\s+*/()-]+", inner):
                raise Open(text)
            return str(int(eval(inner.replace("/", "//"))))  # digits and operators alone
        out = ""
        while text:
            found = re.match(r"\$(?:\{(\w+)(?::?-((?:[^{}]|\{[^{}]*\})*))?\}|(\w+))", text)
            if not found:
                out, text = out + text[0], text[1:]
                continue
            out += self.variable(found.group(1) or found.group(3), found.group(2), depth + 1)
            text = text[found.end():]
        return out

    def variable(self, name, default, depth):
        values = {self.value(re.sub(r"^\$\{%s:?-(.*)\}$" % name, r"\1", v), depth) for v in self.vars.get(name, [])
                  if v.strip("\"'") not in ("${%s:-}" % name, "${%s-}" % name)}
        if len(values) > 1 or (not values and default is None):
            raise Open(name)
        return values.pop() if values else self.value(default, depth)

    def given(self, *names):
        """What a flag or setting says; None: nothing, or only the shell knows."""
        for name in names:
            found = re.findall(r"(?:^|[\s(\"'+])(?:--)?%s(?:=|\s+)(\"[^\"]*\"|'[^']*'|\S+)" % re.escape(name), self.text)
            try:
                values = {self.value(one.rstrip(")\"'")) for one in found}
            except Open:
                return None
            if values:
                return values.pop() if len(values) == 1 else None
        return None

    def count(self, *names):
        return number(self.given(*names))


def product(*numbers):
    out = 1
    for one in numbers:
        if one is None:
            return None
        out *= one
    return out


def verl(tree, path):
    script = Script(path)
    engine = script.given("model_engine", "engine") or script.given("actor_rollout_ref.actor.strategy") or ""
    core = "megatron" in engine or "megatron" in (script.given("--config-name") or "")
    if "sft_trainer" in script.text:
        where, facts = "engine.", {"gbs": script.count("data.train_batch_size"), "seq": script.count("data.max_length"),
                                   "network": script.given("model.path")}
    else:
        where = "actor_rollout_ref.actor.megatron."
        facts = {"gbs": product(script.count("actor_rollout_ref.actor.ppo_mini_batch_size"),
                                script.count("actor_rollout_ref.rollout.n") if "rollout.n=" in script.text else 1),
                 "gpus": product(script.count("trainer.nnodes"), script.count("trainer.n_gpus_per_node")),
                 "network": script.given("actor_rollout_ref.model.path")}
        prompt, response = script.count("data.max_prompt_length"), script.count("data.max_response_length")
        facts["seq"] = prompt + response if prompt and response else None
    if core:
        for key, name in (("tp", "tensor"), ("pp", "pipeline"), ("ep", "expert")):
            facts[key] = script.count(f"{where}{name}_model_parallel_size")
        facts["cp"] = script.count(where + "context_parallel_size")
        facts["stack"] = "megatron"
        spread = script.count(where + "expert_tensor_parallel_size") or facts["tp"]
        experts = product(facts["pp"], facts["ep"], spread)
        if experts and facts.get("gpus") and facts["gpus"] % experts:  # Megatron-Core refuses it: more nodes are meant
            facts["gpus"] = None
    elif "megatron" not in script.text and "mlite" not in script.text:
        facts["stack"], facts["tp"] = "fsdp", script.count("engine.tp_size") or 1
    return facts


def openrlhf(tree, path):
    script = Script(path)
    facts = {"mbs": script.count("--train.micro_batch_size"), "gbs": script.count("--train.batch_size"),
             "seq": script.count("--data.max_len"), "sharding": script.count("--ds.zero_stage"),
             "cp": script.count("--ds.ring_attn_size") or 1, "tp": script.count("--ds.tensor_parallel_size") or 1,
             "gpus": product(script.count("--actor.num_nodes"), script.count("--actor.num_gpus_per_node")),
             "dtype": script.given("--ds.param_dtype"), "stack": "deepspeed",
             "network": script.given("--actor.model_name_or_path", "--model.model_name_or_path")}
    if "dynamic_batch_enable" in script.text:
        facts["mbs"] = None
    if re.search(r"openrlhf\.cli\.train_(dpo|rm)", script.text):
        facts["mbs"], facts["gbs"] = product(facts["mbs"], 2), product(facts["gbs"], 2)
    return facts


def trl(tree, path):
    script = Script(path)
    name = re.search(r"(\w+)\.py", script.text)
    pairs = bool(name) and re.match(r"dpo|cpo|orpo|mpo|reward", name.group(1))
    facts = {"mbs": product(script.count("--per_device_train_batch_size", "--per-device-batch-size"), 2 if pairs else 1),
             "accumulation": script.count("--gradient_accumulation_steps"), "seq": script.count("--max_length", "--max_seq_length"),
             "lora": bool(re.search(r"--use_peft\b", script.text)), "gpus": script.count("--num_processes"),
             "network": script.given("--model_name_or_path", "--model"),
             "stack": "deepspeed" if "deepspeed_zero" in script.text else None}
    zero = re.search(r"zero(\d)", script.text)
    facts["sharding"] = int(zero.group(1)) if zero else None
    if re.match(r"grpo|rloo|gspo", name.group(1) if name else ""):
        facts["accumulation"] = None
    return facts


def litgpt(tree, path):
    named = str(at(tree, "checkpoint_dir") or at(tree, "model_name"))
    size = re.search(r"(\d+(?:\.\d+)?)([bm])(?![a-z])", named.lower())  # of the name: 1.1b, 14m
    stated = at(tree, "model_config.n_layer") is not None
    devices = first(tree, "devices")
    precision = at(tree, "precision") or "bf16"
    return {"mbs": first(tree, "train.micro_batch_size"), "gbs": first(tree, "train.global_batch_size"),
            "seq": first(tree, "train.max_seq_length"), "lora": at(tree, "lora_r") is not None,
            "dp": devices * (first(tree, "num_nodes") or 1) if devices else None,
            "dtype": "bf16" if "bf16" in precision else "fp32" if "32" in precision else "fp16",
            "billions": float(size.group(1)) / (1 if size.group(2) == "b" else 1000) if size and not stated else None}


def torchtitan(tree, path):
    with open(path) as text:
        stated = re.search(r"preset for (\d+) ", text.read())  # "... is a preset for 64 A100 GPUs"
    piped = (first(tree, "parallelism.pipeline_parallel_degree") or 1) > 1
    size = re.fullmatch(r"([\d.]+)b", str(at(tree, "model.flavor")).lower())  # 8B, 0.6B, 671B
    return {"mbs": (first(tree, "parallelism.pipeline_parallel_microbatch_size") or 1) if piped else
            first(tree, "training.local_batch_size"), "seq": first(tree, "training.seq_len"),
            "tp": first(tree, "parallelism.tensor_parallel_degree") or 1,
            "pp": first(tree, "parallelism.pipeline_parallel_degree") or 1,
            "cp": first(tree, "parallelism.context_parallel_degree") or 1,
            "ep": first(tree, "parallelism.expert_parallel_degree"), "gpus": int(stated.group(1)) if stated else None,
            "billions": float(size.group(1)) if size else None, "dtype": "bf16"}


def script_lines(path):
    """The commands of a script, with the variables that it sets itself filled in, continued lines joined."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*$", "", file.read(), flags=re.M))
    values = {}
    for line in re.sub(r"(\"[^\"]*)\n", r"\1 ", text).split("\n"):
        line = re.sub(r"\$\{?(\w+)\}?", lambda m: values.get(m.group(1), m.group(0)), line)
        named = re.match(r"\s*(?:export |local )?(\w+)\+?=(['\"]?)(.*)\2\s*$", line)
        if named:
            values[named.group(1)] = (values.get(named.group(1), "") if "+=" in line.split("=")[0] + "=" else "") + named.group(3)
        yield line


def size_of(name):
    """Billions by a network's name, "llama3.1-8b", where it says all parameters."""
    size = re.search(r"-(\d+(?:\.\d+)?)b(?:-a\d+b)?(?=$|-)", name or "")
    return float(size.group(1)) if size else None


def maxtext(tree, path):
    settings = {key: str(at(tree, key)) for key in ("per_device_batch_size", "max_target_length") if at(tree, key)}
    for line in script_lines(path) if path.endswith(".sh") else ():
        program = re.search(r"-m (maxtext\.trainers\.[\w.$]*train[\w.]*|MaxText\.train)", line)
        if program:
            settings = dict(reversed(re.findall(r"(?<![-\w])([a-z_]+)=['\"]?([^'\" ]*)", line[program.end():])))
    axis = lambda *names: math.prod(max(number(settings.get(name)) or 1, 1) for name in names)
    tp = axis("ici_tensor_parallelism", "ici_tensor_sequence_parallelism", "dcn_tensor_parallelism")
    cp, ep = axis("ici_context_parallelism"), axis("ici_expert_parallelism")
    try:
        mbs = float(settings["per_device_batch_size"]) * tp * cp
    except (KeyError, ValueError):
        mbs = None
    shard = number(settings.get("ici_fsdp_parallelism")) or 0
    replicas = number(settings.get("dcn_data_parallelism")) or 0
    all_gpus = shard * max(replicas, 1) * axis("dcn_fsdp_parallelism") * tp * cp * ep if shard > 0 else None
    return {"tp": tp, "cp": cp, "ep": ep, "mbs": mbs, "seq": number(settings.get("max_target_length")), "gpus": all_gpus,
            "billions": size_of(settings.get("model_name"))}


def gpu_recipes(tree, path):
    beside = [os.path.join(os.path.dirname(path), name) for name in ("launch_script.sh", "launcher.sh")]
    text = ""
    for name in [path] + [name for name in beside if os.path.exists(name)]:  # what the script itself launches, or one beside it
        if "--num_gpus" in text:
            break
        with open(name, encoding="utf-8") as file:
            text = re.sub(r"\\\n", " ", file.read())
    pick = lambda name: number((re.search(r"--%s[ =](\w+)" % name, text) or [None, None])[1])
    piped, chunks = pick("pipeline_model_parallel_size"), pick("virtual_pipeline_model_parallel_size")
    kind = (re.search(r"--compute_dtype (\w+)", text) or [None, ""])[1]
    return {"gpus": pick("num_gpus"), "mbs": pick("micro_batch_size"), "gbs": pick("global_batch_size"), "seq": pick("seq_length"),
            "tp": pick("tensor_model_parallel_size"), "pp": piped, "cp": pick("context_parallel_size"),
            "ep": pick("expert_model_parallel_size"), "vp": chunks if piped and piped > 1 else None,
            "narrow": kind.startswith("fp8") if kind else None}


class Recipe:
    """Assignments and flags of a shell script, as a reader sees them: the last one counts, loops run to their last round, and
    arguments are those of the call that a comment shows."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        joined = re.sub(r"\\\n#?", " ", self.text)
        most = max([int(n) for n in re.findall(r"\$\{?(\d+)", self.text)] or [0])
        calls = [line.split() for line in re.findall(r"^# *(?:ba)?sh (.*)", joined, re.M)]
        own = [call for call in calls if call[0] == os.path.basename(path)]
        call = (own + [call for call in calls if len(call) > most > 0] + [[]])[0]
        self.options = dict(zip(call[1::2], call[2::2])) if len(call) > 1 and call[1].startswith("--") else {}
        self.values = {}
        outer = set()  # what a line without indentation sets, no preset inside of a condition replaces
        for blanks, name, value in re.findall(r"(?m)^([ \t]*)(?:export +)?(\w+)=[\"']?([^\s\"'#;]*)", self.text):
            if blanks and name in outer:
                continue
            outer |= set() if blanks else {name}
            number_of = re.fullmatch(r"\$\{?(\d+)\}?", value)
            value = call[int(number_of.group(1))] if number_of and int(number_of.group(1)) < len(call) else value
            if value and (name not in self.values or not re.match(r"\$\(|\$\{?\w+\}?$", value)):
                self.values[name] = value
        for names, listed in re.findall(r"read -r ([\w ]+)<<< *\"?\$\{?(\w+)", self.text):
            lists = re.findall(r"PARALLELISM_CONFIGS?=\(([^)]*)\)", self.text)
            last = re.findall(r'"([^"]*)"', lists[-1])[-1] if lists else self.resolve("$" + listed)
            self.values.update(zip(names.split(), last.split(",")))

    def resolve(self, value, depth=0):
        value = value.strip("\"'")
        found = re.fullmatch(r"\$\{?(\w+)(?::-([^}]*))?\}?", value)
        if not found or depth > 8:
            return value
        held = self.values.get(found.group(1), "")
        own = re.fullmatch(r"\$\{?%s(?::-([^}]*))?\}?" % found.group(1), held)
        return self.resolve(own.group(1) or "" if own else held or found.group(2) or "", depth + 1)

    def pick(self, *names):
        for name in names:
            found = re.findall(r"(?<![\w.-])%s[= ]+([^\s\\]+)" % re.escape(name), self.text)
            if found and number(self.resolve(found[-1])) is not None:
                return number(self.resolve(found[-1]))
        return None

    def gpus(self, per_node):
        nodes = self.pick("#SBATCH --nodes") or 1
        return nodes * per_node if per_node else None


def megatron_flags(script):
    return {"mbs": script.pick("--micro-batch-size"), "gbs": script.pick("--global-batch-size"), "seq": script.pick("--seq-length"),
            "tp": script.pick("--tensor-model-parallel-size"), "pp": script.pick("--pipeline-model-parallel-size"),
            "cp": script.pick("--context-parallel-size")}


def pai(tree, path):
    script = Recipe(path)
    facts = megatron_flags(script)
    if script.options:
        facts.update({"mbs": number(script.options.get("--micro-batch-size")), "seq": number(script.options.get("--sequence-length"))})
        facts["accumulation"] = number(script.options.get("--gradient-accumulation-steps"))
    elif "actor_rollout_ref" in script.text:
        return {"tp": script.pick("actor_rollout_ref.actor.megatron.tensor_model_parallel_size")}
    else:
        facts["accumulation"] = script.pick("--gradient-accumulation-steps")
    facts["dtype"] = {"fp16": "fp16", "bf16": "bf16"}.get(script.resolve("$PR"))
    facts["gpus"] = number(script.values.get("GPUS_PER_NODE"))
    size = re.fullmatch(r"([\d.]+)B", script.resolve("$MODEL_SIZE")) if not script.options else None
    layers = size and re.search(r"MODEL_SIZE = %s \]\D*NUM_LAYERS=(\d+)" % re.escape(size.group(0)), script.text)
    facts["billions"] = float(size.group(1)) if layers and int(layers.group(1)) > 2 else None  # Qwen-VL's 7B has two
    return facts


def aws_samples(tree, path):
    script = Recipe(path)
    if "--hidden_width" not in script.text:
        return {**megatron_flags(script), "gpus": script.gpus(script.pick("--nproc_per_node", "--nproc-per-node"))}
    h, layers, ffn, kv, heads = (script.pick(name) for name in ("--hidden_width", "--num_layers", "--intermediate_size",
                                                                "--num_key_value_heads", "--num_heads"))
    ffn, vocab = ffn or script.pick("--llama_intermediate_size"), script.pick("--vocab_size") or 50432
    experts = 8 if "mixtral" in script.text else 1
    params = layers * (2 * h * h + 2 * h * h * kv // heads + experts * 3 * h * ffn) + 2 * vocab * h
    return {"mbs": script.pick("--train_batch_size"), "seq": script.pick("--max_context_width"), "params": params, "sharding": 3,
            "gpus": script.gpus(number(script.resolve("$GPUS_PER_NODE"))), "dtype": "bf16", "accumulation": 1}


def nemo_bridge(tree, path):
    script = Recipe(path)
    per_node = script.pick("#SBATCH --gpus-per-node", "--nproc_per_node", "--nproc-per-node")
    recipe = script.resolve((re.findall(r"--recipe[= ]+([^\s\\]+)", script.text) or [""])[-1])
    facts = {key: script.pick("model.%s_model_parallel_size" % name) for key, name in
             (("tp", "tensor"), ("pp", "pipeline"), ("ep", "expert"))}
    return {**facts, "cp": script.pick("model.context_parallel_size"), "mbs": script.pick("train.micro_batch_size"),
            "gbs": script.pick("train.global_batch_size"), "seq": script.pick("model.seq_length", "dataset.seq_length"),
            "gpus": script.gpus(per_node), "lora": "_peft" in recipe}


FRAMEWORKS = {f.__name__: f for f in (axolotl, llama_factory, automodel, primus, nemo_rl, megatron_ci, gpt_neox, nanotron,
                                      deepspeed, torchtune, ms_swift, verl, openrlhf, trl, litgpt, torchtitan, maxtext,
                                      gpu_recipes, pai, aws_samples, nemo_bridge)}


def differences(facts, job, own_network):
    """Each fact that the file states and the job has otherwise."""
    out = []
    gpus, shard = int(job["gpus"]), int(job["tp"]) * int(job["pp"]) * int(job["cp"])
    dp = max(gpus // shard, 1)
    for key, value in facts.items():
        if value is None or key == "network":
            continue
        if key == "dp":
            seen = dp
        elif key == "accumulation":
            if facts.get("gbs"):
                continue
            seen = int(job["gbs"]) / (int(job["mbs"]) * dp)
        elif key == "narrow":
            seen = job["dtype"] in ("fp8", "mxfp8", "nvfp4")
        elif key == "lora":
            seen = job["lora"] == "1"
        elif key == "stack":
            seen = job["stack"]
        elif key == "params":
            if abs(float(job["params"]) / value - 1) > 0.01:
                out.append(f"params {job['params']}, stated {value:.4g}")
            continue
        elif key == "billions":  # rounded in names: 0.5 is 0.49, 7 is 8.5 of Gemma
            if not 0.8 < float(job["params"]) / 1e9 / value < 1.6:
                out.append(f"{job['params']} parameters, named {value} G")
            continue
        elif key == "dtype":
            narrow = job[key] in ("fp8", "mxfp8", "nvfp4") and value == "bf16"
            seen = value if narrow else job[key]
        else:
            seen = int(job[key])
        if seen != value:
            out.append(f"{key} {seen}, stated {value}")
    known = PUBLISHED.get(facts.get("network") or "")
    if known and own_network and abs(float(job["params"]) / 1e9 / known - 1) > 0.01:
        out.append(f"{job['params']} parameters, published {known} G")
    return out


# The least share answered rightly, in per cent of the files that state a job: that of November 2026, AutoModel's a bar.
FLOORS = {"automodel": 95.0, "axolotl": 95.7, "llama_factory": 96.1, "nemo_rl": 98.0, "megatron_ci": 100.0, "gpt_neox": 100.0,
          "nanotron": 100.0, "primus": 100.0, "deepspeed": 100.0, "torchtune": 98.9, "ms_swift": 94.0,
          "verl": 92.0, "openrlhf": 99.0, "trl": 99.0, "litgpt": 99.0, "torchtitan": 99.0, "maxtext": 88.0, "gpu_recipes": 61.0,
          "pai": 95.0, "aws_samples": 99.0, "nemo_bridge": 98.0}
NETWORKS = {"deepspeed": "bert-large"}  # of sets whose files state none


def answers(program, folder, name):
    """What the program prints of each file of a set: (path, the fields of its lines)."""
    network = NETWORKS.get(name)
    command = [program, "-v"] + (["-m", network] if network else []) + [folder, name]
    found = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split("\t")
        if len(fields) >= 3:
            found.setdefault(fields[0], []).append(fields)
    return found.items()


def judge(folder, name, path, lines):
    """The state of a file and what there is to say of it."""
    first_line = lines[0]
    if first_line[1] == "REFUSED":
        reason = re.sub(r"^%s: " % re.escape(path), "", first_line[2]).replace(folder + "/", "")
        return ("no job" if name in FRAMEWORKS and NO_JOB.search(reason) else "refused"), reason
    said = [fields for fields in lines if fields[1] == "ROLLOUT"]
    whole = "whole step" if any(fields[1] == "PHASE" for fields in lines) else "; ".join(fields[2] for fields in said)
    if name not in FRAMEWORKS:
        return "answered", whole
    job = dict(zip(COLUMNS, first_line))
    try:
        wrong = differences(FRAMEWORKS[name](load(path), path), job, name not in NETWORKS)
    except (KeyError, StopIteration, ValueError, FileNotFoundError) as error:
        wrong = [f"not compared: {error!r}"]
    return ("otherwise", "; ".join(wrong)) if wrong else ("rightly", whole)


def read_set(program, folder, name):
    """{file, from the folder of all sets on: (state, what)} of a set."""
    return {os.path.relpath(path, folder): judge(folder, name, path, lines) for path, lines in answers(program, folder, name)}


def shares(rows):
    """A line for each set: files, those that state a job, and of them the shares answered and answered rightly."""
    for name in sorted({file.split("/")[0] for file in rows}):
        states = [state for file, (state, _) in rows.items() if file.split("/")[0] == name]
        jobs = len(states) - states.count("no job")
        answered = jobs - states.count("refused")
        right = answered - states.count("otherwise")
        yield name, len(states), jobs, 100.0 * answered / max(jobs, 1), 100.0 * right / max(jobs, 1)
