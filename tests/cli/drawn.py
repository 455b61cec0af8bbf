"""drawn.py: random jobs as options of predict, for tests that ask several verbs of one job."""
import json

GPUS = ["h100-sxm", "a100-sxm-80", "b200", "h200", "l40s", "mi300x", "v100-sxm-32", "a10g"]
SMALL = ["gpt2", "gpt2-medium", "gpt2-xl", "bert-large", "t5-base", "vit-l16-224", "llama3.2-1b", "pythia-1b", "opt-350m", "gemma3-1b"]
LARGE = ["llama3.1-8b", "llama2-13b", "mixtral-8x7b", "qwen3-30b-a3b", "llama3.1-70b", "deepseek-v2-lite", "gemma2-9b", "flan-t5-xl"]
EXPERTS = ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite"]
IMAGES = ["resnet50", "mobilenet-v2"]
COUNTS = [1, 1, 2, 2, 3, 4, 4, 8, 8, 8, 16, 24, 32, 64, 128]
LAYOUT = ["tp", "pp", "mbs", "zero", "recompute", "vp", "cp", "ep"]


def config(draw, seed, folder):
    """A network that is no preset."""
    heads = draw.choice([8, 12, 16, 32])
    shape = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": heads * draw.choice([64, 128]),
             "intermediate_size": 256 * draw.randint(8, 40), "num_hidden_layers": draw.randint(4, 40), "num_attention_heads": heads,
             "num_key_value_heads": heads // draw.choice([1, 2, 4]), "vocab_size": draw.randint(1000, 150000), "max_position_embeddings": 8192,
             "tie_word_embeddings": draw.random() < 0.5, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
    path = f"{folder}model{seed}.json"
    with open(path, "w") as file:
        json.dump(shape, file)
    return path


def draw_job(draw, seed, folder=""):
    """A job as options of predict; of the layout nothing, something or much is stated."""
    count = draw.choice(COUNTS)
    kind = draw.random()
    job = {"model": config(draw, seed, folder) if kind < 0.2 else draw.choice(IMAGES) if kind < 0.28 else
           draw.choice(LARGE if count >= 8 and draw.random() < 0.6 else SMALL), "gpu": draw.choice(GPUS), "gpus": count}
    job["gbs"] = count * draw.choice([1, 2, 3, 4, 8, 16]) if draw.random() < 0.9 else draw.randint(1, 4 * count)
    images = job["model"] in IMAGES
    if not images and "vit" not in job["model"] and draw.random() < 0.7:
        job["seq"] = draw.choice([256, 512, 1024] + [2048, 4096] * (job["model"] in LARGE))
    if draw.random() < 0.3:
        job["dtype"] = draw.choice(["bf16", "fp16", "fp32"])
    if not images and draw.random() < 0.2:
        job["optimizer"] = draw.choice(["sgd", "adafactor", "lamb"])
    if not images and draw.random() < 0.1:
        job["task"] = "sft"
    stated = {"tp": draw.choice([1, 2, 4, 8]), "pp": draw.choice([1, 2, 4]), "mbs": draw.choice([1, 2, 4]), "zero": draw.randint(0, 3),
              "recompute": draw.choice(["none", "selective", "full"]), "vp": draw.choice([1, 2]), "cp": 1, "ep": draw.choice([1, 2, 4])}
    for name in draw.sample(LAYOUT, draw.choice([0, 0, 0, 1, 2, 4, 8])) if not images else []:
        job[name] = stated[name]
    return job
