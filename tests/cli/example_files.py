"""The files that examples of help texts and documents name."""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
TRAIN = """#!/bin/sh
# A training program that finds its data, and takes the options of the examples.
ranks=${LOCKSTEP_RECORD_WORLD:-${OMPI_COMM_WORLD_SIZE:-1}}
[ "$1" = --dp ] || set -- --dp $ranks
exec ./training --data data.bin --quiet --steps 12 --layers 8 --batch $((8 * ranks)) "$@"
"""


def run(program, words):
    return subprocess.run([program, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def make_files(program, data, has_mpi):
    """Files under the names that examples have, in the current folder: what the repository has, and what the program writes."""
    os.makedirs("traces", exist_ok=True)
    for rank in range(2):
        with gzip.open(os.path.join(ROOT, "examples", "traces", f"rank{rank}.json.gz"), "rt") as trace:
            text = re.sub(r"(ProfilerStep#)(\d+)", lambda step: step[1] + str(int(step[2]) - 7), trace.read())
        for name in (f"rank{rank}.json.gz", f"traces/rank{rank}.json.gz"):
            with gzip.open(name, "wt") as out:
                out.write(text)
    shutil.copytree(os.path.join(ROOT, "examples", "lang"), "examples/lang", dirs_exist_ok=True)
    for source, name in (("examples/llama-3.1-70b/config.json", "config.json"), ("tests/data/runs_small.csv", "llm_runs.csv"),
                         ("tests/data/snapshot.pickle", "snapshot.pickle")):
        shutil.copy(os.path.join(ROOT, source), name)
    shutil.copytree(os.path.join(ROOT, "tests", "data", "hang"), "dumps", dirs_exist_ok=True)
    for name in ("before", "after"):
        os.makedirs(name, exist_ok=True)
        source = os.path.join(ROOT, "tests", "data", f"trace_{name}.json")
        shutil.copy(source, f"{name}.json")
        shutil.copy(source, f"{name}/rank0.json")
        with open(source, "rb") as trace, gzip.open(f"{name}.json.gz", "wb") as packed:
            packed.write(trace.read())
    for name in ("trace.json", "other.json"):
        shutil.copy("before.json", name)
        shutil.copy("before.json.gz", name + ".gz")

    def put(name, text):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w", encoding="utf-8") as out:
            out.write(text)

    put("train.log", "".join(
        f" [2025-05-01 12:00:00] iteration {n:8}/     500 | consumed samples: {128 * n:12} | elapsed time per iteration (ms): {2500 + 7 * (n * n % 11)}.0 |"
        f" global batch size:   128 | lm loss: 1.0E+01 |\n" for n in range(1, 81)))

    for name in ("axolotl.yml", "pretrain.yaml"):
        put(name, "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
            "bf16: true\ndatasets:\n  - path: data\n    type: alpaca\n")
    put("train.sh", "#!/bin/bash\n"
        "torchrun --nproc_per_node 8 --nnodes ${NNODES:-1} pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
        "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 --tensor-model-parallel-size 2 --tokenizer-type NullTokenizer "
        "--vocab-size 128000 --bf16\n")
    put("tables.csv", "name,rows,dim,pooling,count,skew\nuser,20000000,64,1,1,0\nitem,1000000,128,20,4,0.9\ntag,500,16,3,1,\n")
    put("queue.csv", "job,submit_h,model,samples,batch,gpus,batch_max\na,0,resnet50,3.6M,32,2,64\nb,1,resnet50,720k,32,2,64\n")
    put("measured.csv", "model,gpus,batch,samples_per_s\nresnet50,1,32,100\nresnet50,2,32,180\nresnet50,2,64,190\n")
    put("cluster_log.csv", "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n" + "".join(
        f"{n},ann,v,{8 << n % 3},8,1,COMPLETED,2020-04-{n // 24 + 1:02d} {n % 24:02d}:00:00,,,{600 + 60 * n},0\n" for n in range(72)))
    put("home/.sky/catalogs/v8/aws/vms.csv", "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"
        "p4d.24xlarge,A100,8,96,1152,32.77,9.8,here\n")
    with gzip.open("ops_fp16.csv.gz", "wt") as ops:
        ops.write("gpu,op,m,n,k,dtype,time_ms,n_meas,model\n" + "".join(
            f"A100-SXM-80,gemm,{m},{n},{k},fp16,{2e3 * m * n * k / 2.4e14 + 0.006:.5f},4,made\n"
            for m in (1024, 2048, 4096, 8192) for n in (1024, 4096, 8192) for k in (1024, 4096)))
    made = {"nccl.log": "collective --op all_reduce --gpu a100-sxm-40 --gpus 16 -b 8M -e 64M -f 2 -o nccl-tests --file nccl.log",
            "overheads.csv": "replay before.json --overheads-out overheads.csv",
            "hosts.json": "calibrate host --seconds 0.1 -f hosts.json"}
    for name, words in made.items():
        if not os.path.exists(name):
            run(program, words)
        if not os.path.exists(name):
            sys.exit(f"example_files.py: {name} could not be made: {run(program, words)}")
    tensor = '[7,8,0,1048576,4,"cuda:0"]'
    thread = {"name": "[pytorch|profiler|execution_graph|thread]", "id": 1, "rf_id": 0, "parent": 1, "seq_id": -1, "scope": 7, "tid": 1,
              "inputs": [], "input_shapes": [], "input_types": [], "outputs": [], "output_shapes": []}
    product = {**thread, "name": "aten::mm", "id": 2, "rf_id": 2, "scope": 0, "inputs": [json.loads(tensor)] * 2,
               "input_shapes": [[1024, 1024]] * 2, "input_types": ["Tensor(float)"] * 2}
    put("et.json", json.dumps({"schema": "1.0.1", "nodes": [thread, product]}))
    if os.path.isdir(os.path.join(data, "traces", "dlrm8")):
        for name in ("kineto", "et"):
            os.symlink(os.path.join(data, "traces", "dlrm8", name), name)
    put("train.py", "total = sum(i * i for i in range(200000))\n")
    if has_mpi:
        subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "examples", "train"), f"OUT={os.getcwd()}"], check=True)
        shutil.move("train", "training")
        subprocess.run(["./training", "--data", "data.bin", "--write-data", "64", "--steps", "0"], stdout=subprocess.DEVNULL, check=True)
        put("train", TRAIN)
        os.chmod("train", 0o755)
    put("run.sh", "#!/bin/sh\nexec python3 train.py\n")
    os.chmod("run.sh", 0o755)
