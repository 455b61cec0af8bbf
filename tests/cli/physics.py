#!/usr/bin/env python3
"""What holds of any step, whatever the numbers: parts add up, --exact changes nothing, less work or faster hardware is never slower.
Usage: physics.py PROGRAM [JOBS [FIRST]]; JOBS random jobs (40; with LOCKSTEP_LONG=1 2,000) from seed FIRST on; works in the current folder."""
import collections, concurrent.futures, json, os, pathlib, random, re, shlex, subprocess, sys

from drawn import config

program, first = sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 0
most = int(sys.argv[2]) if len(sys.argv) > 2 else 2000 if os.environ.get("LOCKSTEP_LONG") else 40
GPUS = ["h100-sxm", "a100-sxm-80", "b200", "l40s", "mi300x", "mi355x", "v100-sxm-32", "rtx-4090", "t4", "h100-pcie", "h20", "mi250x", "rtx-5090"]
MODELS = ["gpt2", "bert-large", "t5-base", "vit-l16-224", "qwen1.5-moe-a2.7b", "deepseek-v2-lite", "zamba2-1.2b", "mamba2-2.7b", "qwen2-vl-2b",
          "wav2vec2-base", "pixart-sigma", "resnet50", "efficientnet-b0", "swin-tiny", "clip-vit-b32", "gpt-oss-20b", "rwkv-4-169m", "lfm2-1.2b"]
STATES = ["weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes", "workspace_bytes", "buffers_bytes"]
# A GPU and what replaced it, no worse by any number of its data sheet.
NEWER = {"v100-sxm-32": "a100-sxm-80", "a100-sxm-80": "h100-sxm", "h100-sxm": "h200", "h200": "b200", "b200": "b300", "h100-pcie": "h100-sxm",
         "mi250x": "mi300x", "mi300x": "mi325x", "mi325x": "mi355x", "rtx-4090": "rtx-5090", "t4": "l40s"}
IN_8_BITS = {"h100-sxm", "h100-pcie", "b200", "mi300x", "mi355x", "h20", "l40s", "rtx-4090", "rtx-5090"}
# The releases whose features differ, by stack: rows "| nemo | 25.09 | ..." of the table.
RELEASES = collections.defaultdict(list)
for stacks, release in re.findall(r"^\| ([a-z, -]+) \| (v?\d[\d.]+) \|", (pathlib.Path(__file__).parents[2] / "docs/reference/tables.md").read_text(), re.M):
    RELEASES[stacks].append(release)
CHUNKED = {"zamba2-1.2b", "mamba2-2.7b"}  # few tokens in a chunk: fewer operations than the recurrence counts (docs/method/step.md)


def draw(seed):
    draw = random.Random(seed)
    count = draw.choice([1, 2, 4, 8, 16])
    gpu = draw.choice(GPUS)
    job = {"model": config(draw, seed, "") if draw.random() < 0.4 else draw.choice(MODELS), "gbs": count * draw.choice([1, 2, 4, 8])}
    if draw.random() < 0.4:
        each = min(count, draw.choice([1, 2, 4, 8]))
        job["cluster"] = f"{count // each} node * {each} {gpu}, nic {draw.choice([1, 2, 4])}*{draw.choice([10, 25, 100, 400])}g"
    else:
        job["gpu"], job["gpus"] = gpu, count
    choices = {"seq": [128, 512, 2048], "dtype": ["bf16", "fp16", "fp32"], "stack": ["megatron", "nemo", "fsdp", "ddp", "deepspeed", "torchtitan"],
               "task": ["sft", "lora"], "tp": [1, 2, 4], "pp": [1, 2], "mbs": [1, 2], "zero": [0, 1, 3], "recompute": ["none", "selective", "full"]}
    for name in draw.sample(list(choices), draw.randint(1, 7)):
        job[name] = draw.choice(choices[name])
    return job


def ask(words):
    done = subprocess.run([program, "predict", *words, "--no-fixes", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else None


def changed(words, **changes):
    """The command with options changed; True: a switch."""
    words = list(words)
    for name, value in changes.items():
        option = "--" + name.replace("_", "-")
        if option in words:
            words[words.index(option) + 1] = str(value)
        else:
            words += [option] if value is True else [option, str(value)]
    return words


def near(a, b, part=1e-6):
    return abs(a - b) <= part * max(abs(a), abs(b)) + 1e-12


def adds_up(said, words):
    """What is wrong with an answer by itself."""
    step, layout = said["step_time_s"], said["layout"]
    parts = sum(part["exposed_s"] for part in said["breakdown"].values())
    yield near(parts, step), f"parts take {parts} s, the step {step} s"
    yield said["step_time_low_s"] <= step <= said["step_time_high_s"], "the step is out of its range"
    yield near(said["samples_per_s"] * step, layout["gbs"]), "samples/s times the step is not the batch"
    if said["mfu"] is not None:
        yield said["mfu"] <= 1, f"MFU {said['mfu']}"
        # MFU counts a gradient of the pixels too
        yield CHUNKED & set(words) or said["hfu"] >= said["mfu"] * (1 - 2e-3), f"HFU {said['hfu']}, MFU {said['mfu']}"
    for stage in said["memory"]:
        yield near(sum(stage[key] for key in STATES), stage["allocated_bytes"]), f"parts of stage {stage['stage']} are not its memory"
        total = stage["reserved_bytes"] + stage["context_bytes"] + stage["nccl_bytes"]
        yield near(total, stage["total_bytes"]), f"stage {stage['stage']}: {total} bytes, {stage['total_bytes']} in all"
    yield said["peak_bytes"] == max(stage["total_bytes"] for stage in said["memory"]), "the peak is of no stage"
    yield layout["tp"] * layout["pp"] * layout["cp"] * layout["dp"] == layout["gpus"], "degrees do not multiply to the GPUs"


def slower(before, after):
    return after["step_time_s"] >= before["step_time_s"] * (1 - 1e-9)


def larger(before, after):
    # what PyTorch's allocator holds of it depends on how sizes fit into its blocks
    taken = [max(stage["allocated_bytes"] for stage in said["memory"]) for said in (before, after)]
    return taken[1] >= taken[0] - 1


def parts_of(said):
    """Seconds of each part. In a pipeline, which of the host's gaps count as bubble depends on folding (docs/method/simulation.md)."""
    parts = collections.Counter()
    for key, part in said["breakdown"].items():
        parts["host" if key == "bubble" else key] += part["exposed_s"]
    return parts


def products(said):
    return sum(said["breakdown"][part]["exposed_s"] for part in ("gemm", "attention") if part in said["breakdown"])


def exact(before, after):
    one, other = parts_of(before), parts_of(after)
    same = all(abs(one[key] - other[key]) < 2e-3 * before["step_time_s"] for key in one | other)
    return before["step_time_s"] == after["step_time_s"] and before["peak_bytes"] == after["peak_bytes"] and same


def stays(before, after):
    """One step lies in the other's range, at least without what releases are known to change: gaps of the host (CUDA graphs) and attention."""
    rest = [said["step_time_s"] - sum(said["breakdown"].get(part, {"exposed_s": 0})["exposed_s"] for part in ("host", "attention"))
            for said in (before, after)]
    times = [after["step_time_s"] / before["step_time_s"], rest[1] / rest[0]]
    return any(said["step_time_low_s"] <= moved * said["step_time_s"] <= said["step_time_high_s"]
               for moved in times for said, moved in ((before, moved), (after, 1 / moved)))


def relations(said, words):
    """(name, changed command, what must hold of before and after)."""
    yield "--exact is the same", changed(words, exact=True), exact
    yield "no contention is no slower", changed(words, no_contention=True), lambda a, b: slower(b, a)
    yield "a straggler is no faster", changed(words, straggler="0:1.5"), slower
    yield "twice the batch takes longer", changed(words, gbs=2 * said["layout"]["gbs"]), slower
    yield "full recomputation takes longer, and no more memory", changed(words, recompute="full"), lambda a, b: (
        "none" not in words or slower(a, b) and larger(b, a))
    # in MXFP8 graphs with the experts run other kernels, as measured (docs/reference/tables.md)
    for release in RELEASES[words[words.index("--stack") + 1]] if "--stack" in words and "mxfp8" not in words else []:
        yield f"release {release} moves a step within its range", changed(words, release=release), stays
    gpu = words[words.index("--gpu") + 1] if "--gpu" in words else ""
    if gpu in NEWER:
        yield "a newer GPU is no slower", changed(words, gpu=NEWER[gpu]), lambda a, b: slower(b, a)
    if gpu in IN_8_BITS and said["layout"]["dtype"] == "bf16":
        yield "products in 8 bits take no longer", changed(words, dtype="fp8"), lambda a, b: products(b) <= products(a) + 0.02 * a["step_time_s"]
    yield "offloaded states take no memory", changed(words, offload_optimizer=True), lambda a, b: larger(b, a)
    cluster = words[words.index("--cluster") + 1] if "--cluster" in words else ""
    if cluster:
        yield "a slower network is no faster", changed(words, cluster=cluster + ", oversub 4"), slower
    if words[1].startswith("model") and os.path.exists(words[1]):
        with open(words[1]) as file:
            shape = json.load(file)
        # three times an odd vocabulary is as little aligned
        for key, times in [("num_hidden_layers", 2), ("intermediate_size", 2), ("vocab_size", 3)]:
            name = f"{key}.{words[1]}"
            with open(name, "w") as file:
                json.dump({**shape, key: times * shape[key]}, file)
            # a larger vocabulary may overlap with what waits otherwise, and fill its last wave of tiles better
            yield f"{times} times the {key} takes longer and more memory", changed(words, model=name), lambda a, b: (
                b["step_time_s"] >= a["step_time_s"] * (1 - 5e-3) and larger(a, b))


def judge(seed):
    job = draw(seed)
    said = ask([word for name, value in job.items() for word in ("--" + name, str(value))])
    if not said:
        return [], []
    words = shlex.split(said["reproduce"].replace("\\\n", " "))[2:]
    wrong = [what for holds, what in adds_up(said, words) if not holds]
    held = []
    for name, other, holds in relations(said, words):
        answer = ask(other)
        if not answer:
            continue
        held.append(name)
        if not holds(said, answer):
            wrong.append(f"{name}: {said['step_time_s']} s, {said['peak_bytes']} bytes; {answer['step_time_s']} s, {answer['peak_bytes']} bytes")
    return [f"{shlex.join(words)}\n  {what}" for what in wrong], held


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    found = list(pool.map(judge, range(first, first + most)))
wrong, held = [what for some, _ in found for what in some], collections.Counter(name for _, some in found for name in some)
print(*wrong[:20], sep="\n", end="\n" if wrong else "")
print(f"{sum(1 for _, some in found if some)} jobs, {sum(held.values())} changes, {len(wrong)} wrong")
sys.exit(bool(wrong))
