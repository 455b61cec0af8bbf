"""Remote calls, which no other rank answers."""
import os
import torch.distributed.rpc as rpc

rpc.init_rpc("worker%s" % os.environ["RANK"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
