"""ddp.py: PyTorch's DistributedDataParallel over gloo, unmodified, as stalls reports it: how much of the step its ranks wait for data.

    ddp.py LOCKSTEP [--workers N,...] [--samples made|shards] [--rounds N] [--points P]

Two ranks train a small network; its forward pass and each of its samples sleep for a known time, so that the answer does not
depend on what else the machine does. Each run times itself: the mean over steps of the longest wait of a rank for its batch. Right
is a share of preparation and fetching within the points, or an interval that holds it, as on a machine that others use. Exits with 1
where something is wrong.
"""
import argparse, glob, io, json, os, subprocess, sys, tarfile, tempfile

PROGRAM = '''
import glob, os, socket, subprocess, sys, tarfile, time
STEPS, WORKERS, SAMPLE_S, MODEL_S = int(sys.argv[1]), int(sys.argv[2]), 0.05, 0.06
WARMUP = 5
if "RANK" not in os.environ:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    ranks = [subprocess.Popen([sys.executable] + sys.argv, env=dict(os.environ, RANK=str(r), **group)) for r in range(2)]
    sys.exit(max(r.wait() for r in ranks))
import torch
from torch import distributed, nn

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, i):
        time.sleep(SAMPLE_S)
        return torch.full((64,), float(i % 7))

class Shards(torch.utils.data.IterableDataset): # tar archives read from their beginning to their end, as by WebDataset
    def __iter__(self):
        loader = torch.utils.data.get_worker_info()
        count, own = (loader.num_workers, loader.id) if loader else (1, 0)
        while True:
            for path in sorted(glob.glob("shards/*.tar"))[distributed_rank * count + own :: 2 * count]:
                with tarfile.open(path, "r|") as archive:
                    for member in archive:
                        sample = archive.extractfile(member).read()
                        time.sleep(SAMPLE_S)
                        yield torch.frombuffer(bytearray(sample[:64]), dtype=torch.uint8).float()

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 8))
    def forward(self, x):
        time.sleep(MODEL_S)
        return self.layers(x)

torch.set_num_threads(1)
distributed.init_process_group("gloo")
distributed_rank = distributed.get_rank()
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(Network())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = iter(torch.utils.data.DataLoader((Shards if sys.argv[3] == "shards" else Samples)(), batch_size=4, num_workers=WORKERS))
before = time.perf_counter()
for step in range(STEPS + WARMUP):
    x = next(batches)
    came = time.perf_counter()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    now = time.perf_counter()
    if step >= WARMUP: # in one write: the run may be stopped at any moment
        os.write(1, f"step {step} waited {came - before} of {now - before}\\n".encode())
    before = now
'''


def truth(folder):
    """Of all cold runs: the mean of the longest wait of a step, over the mean step."""
    waited = length = 0
    for path in glob.glob(f"{folder}/*-cold.output"):
        steps = {}
        for words in map(str.split, open(path)):
            if len(words) == 6 and words[0] == "step":
                steps.setdefault(int(words[1]), []).append((float(words[3]), float(words[5])))
        waited += sum(max(w for w, _ in ranks) for ranks in steps.values()) / max(1, len(steps))
        length += sum(sum(l for _, l in ranks) / len(ranks) for ranks in steps.values()) / max(1, len(steps))
    return waited / length if length else None


def write_shards(folder):
    """16 archives of 32 samples of 64 KiB."""
    os.mkdir(folder)
    for shard in range(16):
        with tarfile.open(f"{folder}/{shard:02d}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(32):
                member = tarfile.TarInfo(f"{shard:02d}{i:04d}.bin")
                member.size = 1 << 16
                archive.addfile(member, io.BytesIO(os.urandom(1 << 16)))


def judge(lockstep, workers, samples, rounds, points, folder):
    kept, answer = os.path.join(folder, f"kept-{workers}"), os.path.join(folder, "answer.json")
    command = [lockstep, "stalls", "--yes", "--steps", "24", "--warmup", "5", "--repeats", str(rounds), "--out", kept, "-o", "json",
               "-f", answer, "--", "/usr/bin/python3", "train.py", "24", str(workers), samples]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    waited = truth(kept)
    if done.returncode or waited is None:
        print(f"{workers} loaders: exit status {done.returncode}\n{done.stderr}")
        return 1
    x = json.load(open(answer))
    parts = {p["part"]: p for p in x["parts"]}
    seen = ((parts["preparation"]["seconds"] or 0) + (parts["fetch"]["seconds"] or 0)) / x["step_s"]
    summed = sum(p["seconds"] or 0 for p in x["parts"])
    near, holds = abs(seen - waited) < 0.01 * points, parts["preparation"]["low_s"] <= waited * x["step_s"] <= parts["preparation"]["high_s"]
    good = (near or holds) and abs(summed - x["step_s"]) < 1e-9 * x["step_s"]
    print(f"{workers} loader processes: waited {100 * waited:.1f} % of the step, reported {100 * seen:.1f} % of {1e3 * x['step_s']:.1f} ms"
          f" (preparation {100 * parts['preparation']['low_s'] / x['step_s']:.1f} to {100 * parts['preparation']['high_s'] / x['step_s']:.1f})"
          f"{'' if good else '  <--'}", flush=True)
    return not good


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lockstep")
    options.add_argument("--workers", default="2,0")
    options.add_argument("--samples", default="made", choices=("made", "shards"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--points", type=float, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "train.py"), "w").write(PROGRAM)
        write_shards(os.path.join(folder, "shards"))
        wrong = sum(judge(os.path.abspath(given.lockstep), int(w), given.samples, given.rounds, given.points, folder) for w in given.workers.split(","))
    print(f"{wrong} wrong; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    sys.exit(wrong > 0)


main()
