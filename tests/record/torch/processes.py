"""One process for each rank, which is told its number: only one of them is emulated."""
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29500"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    tensor = torch.ones(1)
    for step in range(8):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    print("processes: rank %d of %d," % (rank, size), tensor.item(), flush=True)


if __name__ == "__main__":
    processes = [mp.Process(target=run, args=(rank, int(sys.argv[1]))) for rank in range(int(sys.argv[1]))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
