"""Data-parallel training with PyTorch and gloo on processors, to try `lockstep record` on.

    python3 train.py --data data.bin --write-data 2000          writes the data set, then trains
    lockstep record -- python3 train.py --data data.bin --ranks 2
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 python3 train.py ...     on each of several hosts

The data set is a file of records: a class and FEATURES bytes, each the difference to the one before. Loader workers read
and decode it (--workers); each step is timed by the script itself.
"""
import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import time

FEATURES, CLASSES = 1024, 10
RECORD = FEATURES + 1


def write_data(path, count):
    generator = random.Random(1)
    with open(path, "wb") as out:
        for _ in range(count):
            kind, value, record = generator.randrange(CLASSES), 0, bytearray()
            record.append(kind)
            for i in range(FEATURES):
                new = (i * (kind + 1)) % 64 + generator.randrange(16)
                record.append((new - value) % 256)
                value = new
            out.write(record)


def start_ranks(count):
    """Starts this script once for each rank; the first failure ends all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    setting = dict(WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = [subprocess.Popen([sys.executable] + sys.argv, env=dict(os.environ, RANK=str(r), **setting)) for r in range(count)]
    codes = [r.wait() for r in ranks]
    sys.exit(next((c for c in codes if c), 0))


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--write-data", type=int, metavar="RECORDS")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="of a rank")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--checkpoint", help="file, written after every fifth step")
    return parser.parse_args()


def main():
    o = options()
    if o.write_data and "RANK" not in os.environ:
        write_data(o.data, o.write_data)
    if o.ranks > 1 and "RANK" not in os.environ:
        start_ranks(o.ranks)

    import torch
    from torch import distributed, nn

    class Records(torch.utils.data.Dataset):
        def __init__(self, path):
            self.file = open(path, "rb", buffering=0)
            self.count = os.fstat(self.file.fileno()).st_size // RECORD

        def __len__(self):
            return self.count

        def __getitem__(self, index):
            record = torch.frombuffer(bytearray(os.pread(self.file.fileno(), RECORD, index * RECORD)), dtype=torch.uint8)
            return record[1:].cumsum(0).remainder(256).float() / 64 - 1, int(record[0]) % CLASSES

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model = nn.Sequential(nn.Linear(FEATURES, o.width), nn.ReLU(), nn.Linear(o.width, o.width), nn.ReLU(), nn.Linear(o.width, CLASSES))
    if world > 1:
        distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=0.05), nn.CrossEntropyLoss()
    records = Records(o.data)
    sampler = torch.utils.data.distributed.DistributedSampler(records, num_replicas=world, rank=rank)
    loader = torch.utils.data.DataLoader(records, o.batch, sampler=sampler, num_workers=o.workers, drop_last=True)

    times, loss, batches, epoch = [], None, iter(()), 0
    for step in range(o.steps):
        begin = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            sampler.set_epoch(epoch)
            epoch, batches = epoch + 1, iter(loader)
            batch = next(batches)
        loss = loss_of(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        if o.checkpoint and rank == 0 and step % 5 == 4:
            torch.save(model.state_dict(), o.checkpoint + ".tmp")
            os.replace(o.checkpoint + ".tmp", o.checkpoint)
    if rank == 0:
        print("done %d steps, loss %.6f, median %.3f ms" % (o.steps, loss.item(), 1e3 * statistics.median(times)), flush=True)
    del batches
    if world > 1:
        distributed.destroy_process_group()


main()
