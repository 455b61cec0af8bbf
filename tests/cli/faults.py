#!/usr/bin/env python3
"""What fails inside a command gives the same answer or none: exit status 2 and one line of error, never other numbers.
Usage: faults.py PROGRAM FAULTS.C [POINTS]; in the current folder. Of each command the n-th call of each kind (faults.c) fails, with so
many n (50) over all kinds; allocations take half of them. Commands that need little memory also run with so much address space, from
the least that they start with.
LOCKSTEP_TURN=N, which ./check sets by the commit, takes every third command."""
import errno, hashlib, os, re, resource, shutil, subprocess, sys

program, shim, points = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 50
data = os.path.join(os.path.dirname(shim), "..")
subprocess.run(["cc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-w", "-o", "faults.so", shim], check=True)
with open("tables.csv", "w") as file:
    file.write("name,rows,dim,pooling,count\nuser,1000000,64,2,3\nitem,50000,32,10,4\n")

# Which errors a call may have.
CODES = {"memory": [errno.ENOMEM], "read": [errno.EIO, errno.EINTR], "write": [errno.ENOSPC, errno.EIO, errno.EINTR],
         "open": [errno.EMFILE, errno.ENFILE, errno.EACCES], "mmap": [errno.ENOMEM, errno.EAGAIN], "fork": [errno.EAGAIN, errno.ENOMEM],
         "thread": [errno.EAGAIN]}
JOB = "--model gpt2-xl --gpu a100-sxm-80 --gpus 8"
TRACE = f"{data}/data/trace_small.json"
SMALL = [f"predict {JOB} --dp 8 --gbs 8", f"predict {JOB} --gbs 64 -o json", f"predict {JOB},16 --dp 8 --gbs 8",
         f"plan {JOB} --gbs 64 --threads 1", "predict --model dlrm-ddp --gpu v100-sxm-32 --gpus 4 -o md",
         "collective --gpu h100-sxm --gpus 64 -b 1M -e 16M -o json",
         "shard tables.csv --gpu a100-sxm-80 --gpus 4 --graph step.json -o json", "whatif step.json --gpu a100-sxm-80 --set link=2x"]
COMMANDS = SMALL + [
    f"predict --model gpt2-xl --cluster {data}/data/forms/0.1.0/cluster.json --gbs 64",
    f"predict {JOB} --dp 8 --gbs 8 --html out/r.html", f"predict {JOB} --dp 8 --gbs 8 --trace out/t.json.gz", f"predict {JOB} --dp 8 --gbs 8 --graph out/g.json --chakra out/c",
    f"explain {TRACE}", f"explain {TRACE} -o json", f"explain {TRACE} -o sqlite -f out/e.db", f"explain {TRACE} --html out/e.html",
    f"stalls --recording {data}/data/forms/0.1.0/recording -o json", f"explain {data}/data/forms/0.1.0/recording -o json",
    f"replay {TRACE} -o json", f"whatif {TRACE} -o csv", f"diff {data}/data/trace_before.json {data}/data/trace_after.json",
    f"validate {data}/data/runs_small.csv -o csv", "jobs --draw 2 --gpu h100-sxm --gpus 8 -o json",
    "rent --model gpt2 --seq 1024 --gbs 256 --tokens 1B --most-gpus 1 --provider aws", "machines -o json", "devices h100 -o jsonl", "models gpt -o md",
    f"compile verify {data}/../examples/lang/sgd.lk", f"compile check {data}/../examples/lang/sgd.lk -o json",
    f"compile run {data}/../examples/lang/sgd.lk --sizes dp=2,N=10", f"compile emit {data}/../examples/lang/sgd.lk"]


def files_in_out():
    found = {}
    for folder, _, names in os.walk("out"):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                bytes_ = file.read()
            # a database holds the time of its writing
            found[os.path.join(folder, name)] = "" if name.endswith(".db") else hashlib.sha256(plain(bytes_)).hexdigest()
    return found


def plain(out):
    """Without how long it took, which is the same in no two runs, and without the sizes and hashes of a report's inputs, which are
    left out where those cannot be read a second time."""
    out = re.sub(rb'"inputs":\[[^]]*\]', b"", out)
    return re.sub(rb'"(simulation_s|seconds)": ?[0-9.e-]+|in [0-9.]+ [mu]?s\b|[0-9]+ threads?', b"", out)


def run(words, limit=None, **settings):
    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("out")
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, **settings}, preexec_fn=confine if limit else None)
    return done.returncode, plain(done.stdout), files_in_out(), done.stderr.decode(errors="replace")


def is_honest(got, wanted, kind):
    if got[:3] == wanted[:3]:
        return True
    lines = got[3].strip().split("\n")
    clear = lines[-1].startswith("lockstep: ") and (kind != "memory" or "out of memory" in got[3])
    return got[0] == 2 and clear and not [name for name in got[2] if name.endswith(".part")]


def points_of(counts):
    """(kind, n) of a command: half of the points are allocations, the others are shared by what else it calls."""
    others = [kind for kind in counts if kind != "memory" and counts[kind]]
    for kind in ["memory"] + others:
        share = points // 2 if kind == "memory" else max(points // 2 // len(others), 1)
        step = max(counts[kind] // share, 1)
        yield from ((kind, at) for at in range(1 + counts[kind] % 7 % step, counts[kind] + 1, step))


wrong = tried = 0


def tell(command, what, got):
    global wrong
    wrong += 1
    print(f"{command}\n  {what}: status {got[0]} {got[3].strip()[:200]}")


run("shard tables.csv --gpu a100-sxm-80 --gpus 4 --graph step.json".split())  # what whatif reads
turn = None if len(sys.argv) > 3 else os.environ.get("LOCKSTEP_TURN")
if turn:
    COMMANDS = COMMANDS[int(turn) % 3::3]
for command in COMMANDS:
    words = command.split()
    wanted = run(words)
    again = run(words)
    assert wanted[0] in (0, 1) and again[:3] == wanted[:3], (command, wanted, again)
    said = run(words, LD_PRELOAD="./faults.so", FAIL_COUNT="1")[3]
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) calls of (\w+)", said)}
    for number, (kind, at) in enumerate(points_of(counts)):
        code = CODES[kind][number % len(CODES[kind])]
        got = run(words, LD_PRELOAD="./faults.so", FAIL_CALL=kind, FAIL_AT=str(at), FAIL_CODE=str(code))
        tried += 1
        if not is_honest(got, wanted, kind):
            tell(command, f"{kind} {at} of {counts[kind]} fails, {errno.errorcode[code]}", got)
    if command not in SMALL or "--threads" in command:
        continue  # a search takes long, and allocates more than these limits allow
    for limit in [kib << 10 for kib in range(8000, 60000, 52000 // points)]:
        got = run(words, limit=limit)
        # below some limit the loader itself cannot start the program
        if not is_honest(got, wanted, "memory") and got[0] != 127 and "error while loading" not in got[3] and got[0] >= 0:
            tell(command, f"{limit >> 10} KiB of address space", got)
print(f"{len(COMMANDS)} commands, {wrong} answers that a fault changed")
print(f"{tried} calls failed", file=sys.stderr)
sys.exit(wrong > 0)
