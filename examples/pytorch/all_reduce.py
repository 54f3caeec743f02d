"""Every rank contributes a one, and every rank prints the sum."""

import datetime
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
rank, world_size = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {world_size} met the others at {os.environ['MASTER_ADDR']}")

result = torch.tensor([1])
dist.all_reduce(result)
print(f"rank {rank} world_size {world_size} result {result}")
assert result.item() == world_size, "the sum of ones is the number of ranks"

dist.barrier()
dist.destroy_process_group()
