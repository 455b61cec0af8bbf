#!/usr/bin/env python3
"""The step of an 8-rank TorchRec job, from its model and sharding plan, against its trace. Usage: dlrm8.py PROGRAM FOLDER.

The tables are those of the Criteo multi-hot data (data/recommenders/dlrm-dcnv2.json) with 16 columns: the trace's weights and
indices of each rank add up to these three tables each, and 112 numbers of two copied ones. The last rank to start waits for
none at the first exchange: its step is what a step takes. The trace was recorded with a profiler; of what that adds, Lin et al.
(arXiv 2201.07821) measured 2 us for each event of the host and 4 us for each of a launch."""
import gzip, json, math, subprocess, sys

program, folder = sys.argv[1:3]
ROWS = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976, 14, 40000000,
        40000000, 40000000, 590152, 12973, 108, 36]
POOLING = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
OF_RANK = [[0, 1, 7], [9, 4, 17], [19, 2, 15], [20, 23, 24], [21, 14, 8], [10, 3, 25], [22, 6, 18], [11, 13, 12]]

json.dump({"model_type": "dlrm", "bottom_mlp": [13, 256, 128, 16], "top_mlp": [512, 512, 256, 1], "embedding_dim": 16,
           "interaction": "dot", "loss": "bce", "optimizer": "adagrad",
           "tables": [{"rows": r, "pooling": p} for r, p in zip(ROWS, POOLING)]}, open("dlrm8.json", "w"))
plan = {f"t{t}": {"sharding_type": "table_wise", "compute_kernel": "fused", "ranks": [r]} for r, tables in enumerate(OF_RANK) for t in tables}
for t in (5, 16):
    plan[f"t{t}"] = {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": list(range(8))}
json.dump(plan, open("plan8.json", "w"))


def events(rank):
    with gzip.open(f"{folder}/kineto/rank{rank}.json.gz") as file:
        return json.load(file)["traceEvents"]


for rank, tables in enumerate(OF_RANK):
    lookup = next(e for e in events(rank) if "lookup_adagrad" in e.get("name", "") and e.get("cat") == "cpu_op")["args"]["Input Dims"]
    assert sum(ROWS[t] for t in tables) * 16 == lookup[1][0] and sum(POOLING[t] for t in tables) * 128 == lookup[11][0]

last = max((events(rank) for rank in range(8)),
           key=lambda trace: next(e["ts"] for e in trace if e.get("name", "").startswith("ProfilerStep") and e.get("cat") == "user_annotation"))
step = next(e for e in last if e.get("name", "").startswith("ProfilerStep") and e.get("cat") == "user_annotation")
inside = [e for e in last if step["ts"] <= e.get("ts", -1) < step["ts"] + step["dur"]]
host = sum(e.get("cat") in ("cpu_op", "user_annotation") for e in inside)
launches = sum(e.get("cat") == "cuda_runtime" and e["name"] == "cudaLaunchKernel" for e in inside)
reader = next(e for e in inside if "DataLoader" in e["name"])
read = sum(e.get("cat") == "cpu_op" and reader["ts"] <= e["ts"] < reader["ts"] + reader["dur"] for e in inside)
measured = step["dur"] - 2 * host - 4 * launches - (reader["dur"] - 2 * read)

said = json.loads(subprocess.run([program, "predict", "--model", "dlrm8.json", "--plan", "plan8.json", "--gpu", "v100-sxm-32", "--gpus", "8",
                                  "--mbs", "16", "-o", "json"], stdout=subprocess.PIPE, text=True).stdout)
error = math.log(said["step_time_s"] * 1e6 / measured)
print(f"step under the profiler {step['dur']} us: {host} events of the host, {launches} launches, {reader['dur']} us of reading a batch")
print(f"without these {measured} us, predicted {said['step_time_s'] * 1e6:.0f} us", file=sys.stderr)
print("within 10 %" if abs(error) < 0.1 else f"off by {error:.3f}")
