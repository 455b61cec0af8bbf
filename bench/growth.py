#!/usr/bin/env python3
"""How the work of one answer grows: with GPUs, layers, experts, micro-batches, the batch of a plan. A picture and a table.

    python3 bench/growth.py [--program build/release/lockstep] [--picture docs/pictures/growth.svg] [--points N] [--against docs/notes/figures.md]

Instructions of the whole process, counted by valgrind's callgrind, which no load changes. Each axis doubles one number of a
prediction and keeps the others; --points takes the first N numbers of each. --against says where a count is more than 30 % off
the one in the table of a page (exit status 1); so is growth steeper than the power 1.1. The table goes to standard output as Markdown.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

STEEPEST = 1.1  # growth of instructions, as a power of what grows
GPT = ["--model", "gpt3-175b", "--gpu", "h800-sxm", "--tp", "8", "--mbs", "1", "--seq", "2048"]


def network(folder, **changes):
    """A network as Hugging Face describes it, in a file."""
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 2048,
              "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
              "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 4096}
    config.update(changes)
    path = pathlib.Path(folder) / ("_".join(f"{k}{v}" for k, v in changes.items()) + ".json")
    path.write_text(json.dumps(config))
    return str(path)


def gpus(n, folder):
    return GPT + ["--gpus", str(n), "--pp", "16", "--gbs", str(n)]


def gpus_in_racks(n, folder):
    """Racks of 72 GPUs, on which no number of GPUs of this table ends."""
    return [word if word != "h800-sxm" else "gb200" for word in gpus(n, folder)]


def layers(n, folder):
    return ["--model", network(folder, num_hidden_layers=n), "--gpu", "h100-sxm", "--gpus", "64", "--tp", "4", "--pp", "1", "--ep", "4",
            "--mbs", "1", "--gbs", "256", "--seq", "4096"]


def layers_in_stages(n, folder):
    return [word if word != "1" or before != "--pp" else "4" for before, word in zip([""] + layers(n, folder), layers(n, folder))]


def experts(n, folder):
    return ["--model", network(folder, num_local_experts=n), "--gpu", "h100-sxm", "--gpus", "64", "--tp", "2", "--pp", "2", "--ep", "8",
            "--mbs", "1", "--gbs", "256", "--seq", "4096"]


def microbatches(n, folder):
    return GPT + ["--gpus", "128", "--pp", "16", "--gbs", str(n)]


def microbatches_of(schedule):
    """Those of a mixture of experts in one schedule."""
    def words(n, folder):
        return ["--model", network(folder), "--gpu", "h100-sxm", "--gpus", "32", "--tp", "1", "--pp", "4", "--ep", "8", "--mbs", "1",
                "--gbs", str(8 * n), "--seq", "4096", "--schedule", schedule, *(["--vp", "2"] if schedule == "interleaved" else [])]
    return words


def batch_of_plan(n, folder):
    return ["plan", "--model", network(folder), "--gpu", "h100-sxm", "--gpus", "32", "--gbs", str(n), "--seq", "4096",
            "--threads", "1"]


AXES = [("GPUs", gpus, [256, 1024, 4096, 16384, 65536, 131072]),
        ("GPUs, racks of 72", gpus_in_racks, [4096, 16384, 65536]),
        ("layers", layers, [16, 32, 64, 128, 256, 512]),
        ("layers, 4 stages", layers_in_stages, [16, 32, 64, 128, 256, 512]),
        ("experts", experts, [8, 16, 32, 64, 128, 256]),
        ("micro-batches", microbatches, [64, 128, 256, 512, 1024, 2048, 4096])] + [
            (f"micro-batches, {schedule}, experts", microbatches_of(schedule), [256, 1024, 4096])
            for schedule in ("interleaved", "zb-v", "dualpipev")] + [
                ("batch of a plan", batch_of_plan, [512, 2048, 8192])]


def instructions(program, words):
    """Millions."""
    asks = words if words[0] == "plan" else ["predict", *words, "--no-fixes"]
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *asks]
    ran = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode > 1 or not found:
        raise SystemExit(f"growth.py: {' '.join(command)}: {ran.stderr[-400:]}")
    return int(found.group(1)) / 1e6


def picture(curves):
    """Both axes logarithmic to base 2: times the first number, against millions of instructions."""
    width, height, left, bottom, top = 640, 360, 60, 44, 16
    colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#17becf"]
    most_x = max(xs[-1] / xs[0] for _, xs, _ in curves)
    most_y = max(max(ys) for _, _, ys in curves)

    def log2(value):
        count, rest = 0, value
        while rest >= 2:
            count, rest = count + 1, rest / 2
        return count + (rest - 1)  # straight between powers of two

    x_of = lambda v: left + (width - left - 130) * log2(v) / log2(most_x)
    y_of = lambda v: height - bottom - (height - bottom - top) * log2(max(v / 8, 1)) / log2(most_y / 8 * 1.2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    tick = 1
    while tick <= most_x:
        out.append(f'<text x="{x_of(tick):.1f}" y="{height - bottom + 16}" text-anchor="middle">{tick}</text>')
        tick *= 4
    tick = 8
    while tick <= most_y * 1.2:
        out.append(f'<line x1="{left}" x2="{width - 130}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
        tick *= 2
    out.append(f'<text x="{left}" y="{height - 6}">times the first number of the row in the table</text>')
    out.append(f'<text transform="translate(14 {height - bottom}) rotate(-90)">millions of instructions</text>')
    for (name, xs, ys), colour in zip(curves, colours):
        points = " ".join(f"{x_of(x / xs[0]):.1f},{y_of(y):.1f}" for x, y in zip(xs, ys))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{x_of(xs[-1] / xs[0]) + 6:.1f}" y="{y_of(ys[-1]) + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def table_of(page):
    """The curves of the table that a page shows."""
    text = page.read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([\d, ]+) \| ([\d,. ]+) \|$", text[text.index("| what grows |"):text.index("](../pictures/growth.svg)")], re.M)
    return [(name, [int(number.replace(",", "")) for number in numbers.split(", ")], [float(count) for count in counts.split(", ")])
            for name, numbers, counts in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/lockstep")
    parser.add_argument("--picture", default="docs/pictures/growth.svg")
    parser.add_argument("--points", type=int, default=max(len(numbers) for _, _, numbers in AXES), help="at least 2")
    parser.add_argument("--against", type=pathlib.Path)
    args = parser.parse_args()
    curves = []
    print("| what grows | numbers | millions of instructions |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, words, numbers in ((name, words, numbers[:args.points]) for name, words, numbers in AXES):
            counts = [round(instructions(args.program, words(n, folder)), 1) for n in numbers]  # as the table has them
            curves.append((name, numbers, counts))
            print(f"| {name} | {', '.join(f'{n:,}' for n in numbers)} | {', '.join(f'{c:.1f}' for c in counts)} |", flush=True)
    pathlib.Path(args.picture).write_text(picture(curves))
    for name, numbers, counts in curves:
        exponent = math.log(counts[-1] / counts[0]) / math.log(numbers[-1] / numbers[0])
        if exponent > STEEPEST:
            sys.exit(f"growth.py: {name}: exponent {exponent:.2f} from {numbers[0]} to {numbers[-1]}, at most {STEEPEST}")
    for (name, numbers, counts), (_, _, shown) in zip(curves, table_of(args.against) if args.against else []):
        for number, count, old in zip(numbers, counts, shown):
            if not 1 / 1.3 < count / old < 1.3:
                sys.exit(f"growth.py: {number} {name}: {count:.1f} million instructions, {args.against} says {old}")


if __name__ == "__main__":
    main()
