"""Started by torchrun: ranks from the environment, a store of its own, a checkpoint that it continues from."""
import datetime
import os
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], 29876, world, rank == 0)
    store.set("epoch", "3")
    store.add("arrived", 1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    if os.path.exists("snapshot.pt"):
        net.load_state_dict(torch.load("snapshot.pt"))
    for step in range(8):
        optimizer.zero_grad()
        net(torch.randn(32, 20)).square().mean().backward()
        optimizer.step()
    dist.monitored_barrier()
    if int(os.environ["LOCAL_RANK"]) == 0:
        torch.save(net.state_dict(), "snapshot.pt")
    print("elastic: rank %d of %d," % (rank, world), store.get("epoch").decode(), os.environ["LOCAL_WORLD_SIZE"],
          store.add("arrived", 0) == world)


if __name__ == "__main__":
    main()
