"""waits.py: programs whose main thread waits for a known time, and what stalls says of it.

    waits.py LOCKSTEP [--only NAME,...]

Each program is recorded once and analysed. Work is counted in processor time, so that what is injected does not depend on what
else the machine does: being preempted is a part of its own, which is left out of the comparison. A loader works while the step does, the
longer the more that is preempted: what is waited for it has a range. Right is a part that is off its truth or range by less than a tenth
of the step without what is preempted. Each is printed with truth and answer. Exits with 1 where something is wrong.
"""
import argparse, json, os, subprocess, sys, tempfile

PYTHON = "/usr/bin/python3"
HEAD = """
import multiprocessing, os, queue, sys, threading, time
def work(ms):
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass
def read(i):
    with open("data", "rb", buffering=0) as f:
        f.seek(i % 64 * 65536)
        return f.read(65536)
"""
SCRIPTS = {
    "loop": "for i in range(60): read(i); work(20)",
    "python-threads": """
q = queue.Queue(2)
def load():
    i = 0
    while True:
        read(i); work(20); time.sleep(0.02); q.put(i); i += 1
threading.Thread(target=load, daemon=True).start()
for i in range(40):
    open("step-%d" % (i % 4), "w").close()
    q.get(); work(8)
""",
    "python-processes": """
def load(q, context):
    for i in range(44): read(i); work(40); q.put(bytes(9))
if __name__ == "__main__":
    c = multiprocessing.get_context("fork")
    q = c.Queue(2)
    c.Process(target=load, args=(q, 0), daemon=True).start()
    for i in range(40): q.get(); work(8)
""",
    "dataloader": """
import torch
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 160
    def __getitem__(self, i): work(10); return torch.zeros(8)
torch.set_num_threads(1)
for batch in torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1): work(8)
""",
}
SCRIPTS["python-marks"] = '''
sys.path.insert(0, os.environ["LOCKSTEP_MARKS"])
import _marks as lockstep
@lockstep.mark("quantise")
def quantise(): work(6)
for i in range(60):
    read(i); work(8)
    with lockstep.mark("compress"): work(10); quantise(); work(4)
'''
SCRIPTS["record-function"] = '''
import torch
torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for i in range(60):
    read(i); work(8)
    with torch.profiler.record_function("compress"): work(14)
    weight.grad = torch.ones(4)
    optimizer.step()
'''
SCRIPTS["python-spawned"] = SCRIPTS["python-processes"].replace('"fork"', '"spawn"')

# name: the command's words after the recorder's; options of record; parts in ms, and the largest
C = "./waits {} 40"
PROGRAMS = {
    "device": (["mpirun", "-n", "2", "--oversubscribe", "./waits-mpi", "device", "40"], [], {"compute": 46, "imbalance": 18, "preparation": 6}),
    "semaphore": (C.format("semaphore").split(), [], {"compute": 46, "preparation": 0}),
    "event": (C.format("event").split(), [], {"compute": 46, "preparation": 0}),
    "join": (C.format("join").split(), [], {"compute": 46, "preparation": 0}),
    "pipe": (C.format("pipe").split(), [], {"compute": 46, "preparation": 0}),
    "futex": (C.format("futex").split(), [], {"compute": 46, "preparation": 0}),
    "futex-loader": (C.format("futex-loader").split(), [], {"preparation": (0, 40), "compute": 10}),
    "tokenizer": (C.format("tokenizer").split(), [], {"preparation": (0, 40), "compute": 10}),
    "reader": (C.format("reader").split(), ["--slow", "latency=40000us over ."], {"fetch": (0, 40), "compute": 10}),
    "decoder": (C.format("decoder").split(), [], {"preparation": (0, 40), "compute": 10}),
    "child": (C.format("child").split(), [], {"preparation": (0, 40), "compute": 10}),
    "reads": (C.format("reads").split(), ["--slow", "latency=38000us over ."], {"fetch": 38, "compute": 10}),
    "loop": ([PYTHON, "loop.py"], [], {"compute": 20}),
    "python-threads": ([PYTHON, "python-threads.py"], [], {"preparation": (0, 44), "compute": 8}),
    "python-processes": ([PYTHON, "python-processes.py"], [], {"preparation": (0, 44), "compute": 8}),
    "python-spawned": ([PYTHON, "python-spawned.py"], [], {"preparation": (0, 44), "compute": 8}),
    "dataloader": ([PYTHON, "dataloader.py"], [], {"preparation": (0, 44), "compute": 8}),
    "marks": (C.format("marks").split(), [], {"compress": 26, "compute": 8, "pack": 6}),
    "nvtx": (C.format("nvtx").split(), [], {"compress": 14, "compute": 8, "quantise": 6}),
    "python-marks": ([PYTHON, "python-marks.py"], [], {"compress": 14, "compute": 8, "quantise": 6}),
    "record-function": ([PYTHON, "record-function.py"], None, {"compress": 14, "compute": 8}),
}


def judge(name, lockstep, folder):
    command, options, truth = PROGRAMS[name]
    out = os.path.join(folder, name)
    # the module that Python loads before a program comes with stalls
    verb = ["stalls", "--configurations", "first"] if options is None else ["record", *options]
    done = subprocess.run([lockstep, *verb, "--out", out, "--", *command], cwd=folder, capture_output=True, text=True)
    out = os.path.join(out, "first") if options is None else out
    if done.returncode:
        print(f"{name}: exit status {done.returncode}\n{done.stderr}")
        return 1
    said = subprocess.run([lockstep, "stalls", "--recording", out, "-o", "json"], capture_output=True, text=True)
    if said.returncode:
        print(f"{name}: {said.stderr}")
        return 1
    x = json.loads(said.stdout)
    parts = {p["part"]: p["seconds"] or 0 for p in x["parts"]}
    step = x["step_s"] - parts["preempted"]
    ranges = {part: of if isinstance(of, tuple) else (of, of) for part, of in truth.items()}
    wrong = [part for part, (low, high) in ranges.items()
             if not 1e-3 * low - 0.1 * step <= parts[part] <= 1e-3 * high + 0.1 * step]
    if all(low == high for low, high in ranges.values()):
        largest = max(ranges, key=lambda part: ranges[part])
        found = max((part for part in parts if part not in ("preempted", "bursts")), key=lambda part: parts[part])
        wrong += [f"largest {found}"] if found != largest else []
    print(f"{name}: step {1e3 * x['step_s']:.1f} ms, preempted {1e3 * parts['preempted']:.1f}; "
          + ", ".join(f"{part} {truth[part]} reported {1e3 * parts[part]:.1f}" for part in truth)
          + (f"  <-- {wrong}" if wrong else ""), flush=True)
    return len(wrong)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lockstep")
    options.add_argument("--only", default=",".join(PROGRAMS))
    given = options.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LOCKSTEP_MARKS=os.path.join(root, "python/lockstep"))
    source, include = os.path.join(root, "tests/record/waits.c"), "-I" + os.path.join(root, "include")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-O1", include, source, "-o", f"{folder}/waits", "-lpthread", "-ldl"], check=True)
        if "device" in given.only.split(","):
            subprocess.run(["mpicc", "-O1", "-DWITH_MPI", include, source, "-o", f"{folder}/waits-mpi", "-lpthread", "-ldl"], check=True)
        with open(f"{folder}/data", "wb") as data:
            data.write(os.urandom(1 << 22))
        for name, text in SCRIPTS.items():
            with open(f"{folder}/{name}.py", "w") as script:
                script.write(HEAD + text)
        wrong = sum(judge(name, os.path.abspath(given.lockstep), folder) for name in given.only.split(","))
    print(f"{wrong} wrong; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    sys.exit(wrong > 0)


main()
