"""Elastic training: when ranks are added or removed, torchrun restarts the processes, which continue from the latest step."""

import os
import pathlib
import time

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "60"))
# Steps count only with at least this number of processes, for a test that adds a pod.
FULL = int(os.environ.get("FULL", "0"))
checkpoint = pathlib.Path("/tmp/step")  # a real program stores its model in a volume that all ranks share

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
step = torch.tensor([int(checkpoint.read_text()) if checkpoint.exists() else 0])
dist.all_reduce(step, op=dist.ReduceOp.MAX)
print(f"rank {rank} world_size {world_size} continues from step {step.item()}", flush=True)

while step.item() < STEPS:
    ones = torch.ones(1)
    dist.all_reduce(ones)  # fails if a rank terminated; torchrun then restarts all processes
    assert ones.item() == world_size
    if world_size >= FULL:
        step += 1
    checkpoint.write_text(str(step.item()))
    time.sleep(0.2)

print(f"rank {rank} world_size {world_size} done after step {step.item()}", flush=True)
dist.barrier()
dist.destroy_process_group()
