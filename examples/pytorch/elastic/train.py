"""Steps that go on when ranks come and go: torchrun starts the processes anew, and they take up where the furthest was."""

import os
import pathlib
import time

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "60"))
# Steps count only with so many processes at work; for a test that waits until the gang has grown.
FULL = int(os.environ.get("FULL", "0"))
checkpoint = pathlib.Path("/tmp/step")  # a real program would keep its model in a volume that all ranks share

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
step = torch.tensor([int(checkpoint.read_text()) if checkpoint.exists() else 0])
dist.all_reduce(step, op=dist.ReduceOp.MAX)
print(f"rank {rank} world_size {world_size} goes on from step {step.item()}", flush=True)

while step.item() < STEPS:
    ones = torch.ones(1)
    dist.all_reduce(ones)  # fails when a rank is gone, and torchrun starts anew
    assert ones.item() == world_size
    if world_size >= FULL:
        step += 1
    checkpoint.write_text(str(step.item()))
    time.sleep(0.2)

print(f"rank {rank} world_size {world_size} done after step {step.item()}", flush=True)
dist.barrier()
dist.destroy_process_group()
