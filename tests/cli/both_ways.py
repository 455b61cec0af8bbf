#!/usr/bin/env python3
"""What whatif says of a saved graph on another GPU or network is what predict says of the job there, or a note says why not.
Usage: both_ways.py PROGRAM [JOBS [FIRST]]; JOBS random jobs (12; with LOCKSTEP_LONG=1 200) from seed FIRST on; works in the current folder."""
import concurrent.futures, json, os, random, subprocess, sys

program, first = sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 0
most = int(sys.argv[2]) if len(sys.argv) > 2 else 200 if os.environ.get("LOCKSTEP_LONG") else 12
GPUS = ["h100-sxm", "a100-sxm-80", "b200", "l40s", "mi300x", "v100-sxm-32", "h200"]
MODELS = ["llama3.1-8b", "gpt2", "qwen3-1.7b", "bert-large"]
WITHIN = 0.02


def ask(words):
    done = subprocess.run([program, *words, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode < 2 else None


def judge(seed):
    """(changes compared, what differs) of a job."""
    draw = random.Random(seed)
    count, (old, new) = draw.choice([2, 8, 16]), draw.sample(GPUS, 2)
    nodes, each = (2, 8) if count == 16 else (1, count)
    rates = draw.sample([25, 100, 200, 400], 2)
    job = ["--model", draw.choice(MODELS), "--gbs", str(count * draw.choice([1, 2, 4])), "--seq", str(draw.choice([512, 2048])), "--dtype", "fp16",
           "--zero", draw.choice(["0", "1", "3"]), "--stack", draw.choice(["megatron", "nemo", "fsdp", "torchtitan", "deepspeed"])]
    cluster = lambda gpu, rate: ["--cluster", f"{nodes} node * {each} {gpu}, nic {each}*{rate}g"]
    name, found, compared = f"{seed}.json", [], 0
    if not ask(["predict", *job, *cluster(old, rates[0]), "--graph", name]):
        return 0, []
    for value, there in ((f"cluster={cluster(new, rates[0])[1]}", cluster(new, rates[0])), (f"nic={each}*{rates[1]}g", cluster(old, rates[1]))):
        said, right = ask(["whatif", name, *cluster(old, rates[0]), "--set", value]), ask(["predict", *job, *there, "--no-fixes"])
        if not said or not right or said["changes"][1]["refused"] or said["changes"][1]["notes"]:
            continue
        compared += 1
        here = said["changes"][1]["step_time_s"]
        if abs(here - right["step_time_s"]) > WITHIN * right["step_time_s"]:
            found.append(f"seed {seed}: {' '.join(job)}, {cluster(old, rates[0])[1]}, {value}: {here} s, by predict {right['step_time_s']} s")
    os.remove(name)
    return compared, found


with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    results = list(pool.map(judge, range(first, first + most)))
for compared, found in results:
    for line in found:
        print(line)
print(f"{sum(compared for compared, found in results)} changes from seed {first} on, {sum(len(found) for compared, found in results)} differ")
