#!/usr/bin/env python3
"""State files with one changed bit: every verb that reads one answers as before or refuses it in one line with exit status 2.
Usage: state.py PROGRAM [BYTES]; at least BYTES bytes of each kind, evenly spread (40; with LOCKSTEP_LONG=1 all of them), and all of the
first and the last 48; the bit goes by the byte's place; works in the current folder."""
import concurrent.futures, os, shutil, subprocess, sys

program = sys.argv[1]
most = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 30 if os.environ.get("LOCKSTEP_LONG") else 40


def run(words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=600, **more)


def make(words, **more):
    done = run([program, *words], **more)
    if done.returncode not in (0, 1):
        sys.exit(f"{words}: {done.stderr.decode()}")


JOB = ["--model", "gpt2", "--gpu", "h100-sxm", "--gpus", "2", "--gbs", "8"]
MPI = [program + "-mpi", "predict", *JOB, "--mbs", "1,2", "--resume", "FILE", "-o", "json"]
PROGRAM = "input a : f32[N] @ P(sum, dp)\n"


def kinds():
    """(name, file, the question that reads it, whose FILE is the changed copy)."""
    make(["predict", *JOB, "--graph", "graph.json"])
    yield "graph", "graph.json", ["whatif", "FILE", "--gpu", "h100-sxm", "--set", "nic=2x", "-o", "json"]
    make(["predict", *JOB, "--graph", "graph.json.gz"])
    yield "packed graph", "graph.json.gz", ["whatif", "FILE", "--gpu", "h100-sxm", "--set", "nic=2x", "-o", "json"]
    make(["predict", *JOB, "--measured", "0.1 s", "--calibrated", "calibration.csv"])
    yield "calibration", "calibration.csv", ["predict", *JOB, "--calibration", "FILE", "-o", "json"]
    shard = ["--model", "dlrm.json", "--gpu", "h100-sxm", "--gpus", "2", "--batch", "1024"]
    with open("dlrm.json", "w") as out:
        out.write('{"model_type": "dlrm", "dense_features": 13, "embedding_dim": 16, "bottom_mlp": [32, 16], "top_mlp": [32, 1], '
                  '"tables": [{"rows": 1000, "pooling": 1}, {"rows": 200000, "pooling": 4}]}')
    if run([program, "shard", *shard, "--plan", "placement.json"]).returncode == 0:
        yield "placement", "placement.json", ["predict", "--model", "dlrm.json", "--gpu", "h100-sxm", "--gpus", "2", "--plan", "FILE", "-o", "json"]
    make(["record", "--out", "recording", "--program", "cat", "--", "cat", program], cwd=".")
    name = os.path.join("recording", sorted(n for n in os.listdir("recording") if n.endswith(".lkrec"))[0])
    yield "recording", name, ["explain", "FILE", "-o", "json"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    tune = [os.path.join(root, "examples/lang/sgd.lk"), "--gpu", "h100-sxm", "--sizes", "dp=8,N=1000000", "--top", "1"]
    make(["compile", "tune", *tune, "--wisdom", "wisdom.txt"])
    yield "wisdom", "wisdom.txt", ["compile", "tune", *tune, "--wisdom", "FILE", "-o", "json"]
    if os.path.exists(MPI[0]) and run([word.replace("FILE", "parts") for word in MPI], env=ALONE).returncode == 0:
        yield "finished parts", "parts", MPI


ALONE = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def answer(question, path):
    words = [word.replace("FILE", path) for word in question]
    words = words if words[0].endswith("-mpi") else [program, *words]
    done = run(words, env=ALONE)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def changed(kind, path, question, before, data, at, bit):
    name = os.path.join("changed", f"{at}.{bit}", os.path.basename(path))
    os.makedirs(os.path.dirname(name))
    with open(name, "wb") as out:
        out.write(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:])
    status, said, why = answer(question, name)
    shutil.rmtree(os.path.dirname(name))
    same = status == before[0] and said.replace(name.encode(), b"FILE") == before[1]
    refused = status == 2 and why.count("\n") == 1 and (not said or said.startswith(b'{\n  "error": {'))
    return None if same or refused else f"{kind}: byte {at}, bit {bit}: exit status {status}: {why.strip()[:200]}"


total = wrong = 0
for kind, path, question in kinds():
    with open(path, "rb") as file:
        data = file.read()
    shutil.copy(path, "copy")
    os.makedirs("whole", exist_ok=True)
    whole = os.path.join("whole", os.path.basename(path))
    shutil.copy(path, whole)
    before = answer(question, whole)
    before = (before[0], before[1].replace(whole.encode(), b"FILE"))
    if before[0] not in (0, 1):
        sys.exit(f"{kind}: {question}: exit status {before[0]}")
    step = max(1, len(data) // most)
    places = sorted({*range(0, len(data), step), *range(min(48, len(data))), *range(max(0, len(data) - 48), len(data))})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = [line for line in pool.map(lambda at: changed(kind, path, question, before, data, at, at % 8), places) if line]
    for line in found[:5]:
        print(line)
    total, wrong = total + len(places), wrong + len(found)
    print(f"{kind}: {len(places)} of {len(data)} bytes changed", file=sys.stderr)
print(f"{total} changed bits, {wrong} answered as another file")
