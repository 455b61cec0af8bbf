#!/usr/bin/env python3
"""Random recommendation models with their tables placed at random: shard, predict --plan and the simulated step graph (whatif)
say the same step, to the last digit. Usage: dlrm_plans.py PROGRAM [MODELS]; works in the current folder."""
import json, random, subprocess, sys

program, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
GPUS = ["v100-sxm-32", "a100-sxm-80", "h100-sxm", "b200"]


def ask(*words):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 2 or not done.stdout:
        sys.exit(f"{' '.join(words)}\n  {done.stderr.strip()}")
    return json.loads(done.stdout)


def model(draw):
    dim = draw.choice([16, 32, 64, 128])
    out = {"model_type": "dlrm", "embedding_dim": dim, "bottom_mlp": [draw.randint(1, 512), draw.choice([64, 256, 512]), dim],
           "top_mlp": [draw.choice([64, 256, 1024]), draw.choice([64, 512]), 1], "interaction": draw.choice(["dot", "cat", "cross"]),
           "loss": draw.choice(["mse", "bce"]), "optimizer": draw.choice(["sgd", "adagrad", "adam"]),
           "tables": [{"count": draw.randint(1, 4), "rows": int(10 ** draw.uniform(1, 6.5)), "pooling": draw.randint(1, 40)}
                      for _ in range(draw.randint(1, 12))]}
    if out["interaction"] == "cross":
        out.update(cross_layers=draw.randint(1, 3), cross_rank=draw.choice([32, 128]))
    return out


def plan(draw, config, ranks):
    out = {}
    tables = [kind["rows"] for kind in config["tables"] for _ in range(kind["count"])]
    for place, rows in enumerate(tables):
        kind = draw.choice(["table_wise", "column_wise", "row_wise", "data_parallel"] if rows < 1e5 else
                           ["table_wise", "column_wise", "row_wise"])
        parts = {"table_wise": 1, "column_wise": config["embedding_dim"] // 8, "row_wise": rows}.get(kind, ranks)
        chosen = draw.sample(range(ranks), draw.randint(1, min(parts, ranks)) if kind != "data_parallel" else ranks)
        out[f"t{place}"] = {"sharding_type": kind, "compute_kernel": "dense" if kind == "data_parallel" else "fused", "ranks": chosen}
    return out


wrong = 0
for seed in range(most):
    draw = random.Random(seed)
    config, ranks, gpu = model(draw), draw.choice([1, 2, 4, 8, 16, 24]), draw.choice(GPUS)
    json.dump(config, open("model.json", "w"))
    json.dump(plan(draw, config, ranks), open("plan.json", "w"))
    where = ["--model", "model.json", "--gpu", gpu, "--gpus", str(ranks)] + draw.choice([[], ["--cuda-graphs"]])
    batch = str(ranks * draw.choice([16, 512, 4096]))
    placed = ask("shard", *where, "--batch", batch, "--placement", "plan.json", "--graph", "graph.json", "-o", "json")
    said = ask("predict", *where, "--gbs", batch, "--plan", "plan.json", "-o", "json")
    simulated = ask("whatif", "graph.json", "--gpu", gpu, "-o", "json")["changes"][0]
    times = {placed["step_s"], said["step_time_s"], simulated["step_time_s"]}
    searched = ask("shard", *where, "--batch", batch, "--plan", "found.json", "-o", "json")
    again = ask("predict", *where, "--gbs", batch, "--plan", "found.json", "-o", "json")
    unsaid = ask("predict", *where, "--gbs", batch, "-o", "json")
    found = {searched["step_s"], again["step_time_s"], unsaid["step_time_s"]}
    if len(times) != 1 or len(found) != 1:
        wrong += 1
        print(f"seed {seed}: given {times}, searched {found}: {' '.join(where)} {batch}")
print(f"{most} models, {wrong} differ")
sys.exit(wrong > 0)
