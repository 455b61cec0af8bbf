#!/usr/bin/env python3
"""Numbers over their whole documented range, on a logarithmic scale: the answer goes one way, or the end is refused in one line.
Usage: ranges.py PROGRAM [POINTS]; POINTS values of each range (9; with LOCKSTEP_LONG=1 40). `acts`: it must differ over the range's upper and
lower half; `may`: it may stay where something else limits."""
import concurrent.futures, json, math, os, subprocess, sys

program = sys.argv[1]
points = int(sys.argv[2]) if len(sys.argv) > 2 else 40 if os.environ.get("LOCKSTEP_LONG") else 9
JOB = ["llama3.1-8b", "--gbs", "64", "--seq", "2048"]
NODES = [*JOB, "--cluster"]
GPUS = [*JOB, "--gpu", "h100-sxm", "--gpus", "16"]
STEP, GROWS, FALLS = "step_time_s", 1, -1
# name, words with {} for the value, lowest and highest, the field, its direction, whether both halves must act, whole numbers
RANGES = [
    ("rate of a NIC, Gbit/s", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 8*{}g"], 1e-3, 8e6, STEP, FALLS, "acts", False),
    ("rate of one NIC for all", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 1*{}g"], 1e-3, 8e6, STEP, FALLS, "acts", False),
    ("NIC by sockets", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 8*{}g sockets"], 1e-3, 8e6, STEP, FALLS, "acts", False),
    ("pipeline by a slow NIC", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 8*{}g", "--pp", "2", "--tp", "8"], 1e-3, 8e6, STEP, FALLS, "acts", False),
    ("latency of a NIC, us", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 8*400g {}us"], 1e-3, 1e6, STEP, GROWS, "acts", False),
    ("oversubscription", [*NODES, "2 node * 8 h100-sxm nvlink4, nic 8*400g, oversub {}"], 1, 1e4, STEP, GROWS, "acts", False),
    ("links, GB/s", [*NODES, "1 node * 8 h100-sxm nvlink4 {}GB/s, nic 8*400g"], 1e-3, 1e6, STEP, FALLS, "acts", False),
    ("--straggler", [*GPUS, "--straggler", "1:{}"], 1, 1000, STEP, GROWS, "acts", False),
    ("--straggler, twice", [*GPUS, "--straggler", "1:{0},1:{0}"], 1, 1000, STEP, GROWS, "acts", False),
    ("--gbs", ["llama3.1-8b", "--seq", "2048", "--gpu", "h100-sxm", "--gpus", "16", "--gbs", "{}"], 16, 268435456, STEP, GROWS, "acts", 16),
    ("--seq", ["llama3.1-8b", "--gbs", "16", "--gpu", "h100-sxm", "--gpus", "16", "--seq", "{}"], 64, 1 << 20, STEP, GROWS, "acts", 64),
    ("--power", [*GPUS, "--power", "{}"], 100, 1000000, STEP, FALLS, "may", 1),
    ("--bucket, MiB: memory", [*GPUS, "--zero", "0", "--bucket", "{}"], 0.001, 1048576, "peak_bytes", GROWS, "may", False),
    ("--checkpoint-write", [*GPUS, "--tokens", "1T", "--mtbf", "5000", "--checkpoint-write", "{}"], 1e-6, 1e6, "goodput", GROWS, "may", False),
    ("--mtbf", [*GPUS, "--tokens", "1T", "--mtbf", "{}"], 1e-3, 1e9, "goodput", GROWS, "may", False),
    ("--moe-imbalance", ["mixtral-8x7b", "--gbs", "64", "--gpu", "h100-sxm", "--gpus", "16", "--ep", "8", "--moe-imbalance", "{}"], 1, 8, STEP, GROWS, "acts", False),
    ("--lora-rank", ["llama3.1-8b", "--task", "lora", "--gbs", "16", "--gpu", "h100-sxm", "--gpus", "8", "--lora-rank", "{}"], 16, 65536, STEP, GROWS, "may", 16),
]


def values(low, high, whole):
    for i in range(points):
        value = math.exp(math.log(low) + (math.log(high) - math.log(low)) * i / (points - 1))
        yield repr(max(int(whole), round(value / whole) * int(whole))) if whole else f"{min(max(value, low), high):.6g}"


def ask(words, field):
    """The field, or why not: None where it is refused in one line."""
    done = subprocess.run([program, "predict", *words, "--no-fixes", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode in (0, 1):
        return json.loads(done.stdout)[field]
    if done.returncode == 2 and done.stderr.count("\n") == 1:
        return None
    return f"exit status {done.returncode}: {done.stderr[:200]}"


def judge(row):
    name, words, low, high, field, way, halves, whole = row
    given = list(dict.fromkeys(values(low, high, whole)))
    found = [(value, ask([word.replace("{0}", value).replace("{}", value) for word in words], field)) for value in given]
    for value, said in found:
        if isinstance(said, str):
            yield f"{name} {value}: {said}"
    said = [(value, number) for value, number in found if isinstance(number, (int, float))]
    for (value, before), (other, after) in zip(said, said[1:]):
        if (after - before) * way < -1e-9 * abs(before):
            yield f"{name}: {field} is {before} with {value}, {after} with {other}"
    middle = len(given) // 2
    for part, of in (("lower", given[:middle + 1]), ("upper", given[middle:])):
        numbers = {number for value, number in said if value in of}
        if halves == "acts" and part == "lower" and len(numbers) < 2 or len(said) < 2:
            yield f"{name}: the {part} half of its range changes nothing: {numbers}"


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    wrong = [line for lines in pool.map(lambda row: list(judge(row)), RANGES) for line in lines]
for line in wrong:
    print(line)
print(f"{len(RANGES)} ranges, {points} values each, {len(wrong)} wrong")
