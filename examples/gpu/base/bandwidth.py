"""Measures the all_reduce of all ranks, like all_reduce_perf of nccl-tests, with PyTorch only."""

import os
import time

import torch
import torch.distributed as dist

has_gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if has_gpu else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
rounds = int(os.environ.get("ROUNDS", "20"))
mebibytes = int(os.environ.get("MEBIBYTES", "1024"))

values = torch.ones(mebibytes * 2**20 // 4, dtype=torch.float32, device=device)


def measure(count):
    """Returns the mean time of an all_reduce in seconds."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
    if has_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


measure(2)  # the first calls open the connections
seconds = measure(rounds)
# nccl-tests calls this the bus bandwidth. It does not depend on the number of ranks.
bandwidth = values.nbytes * 2 * (ranks - 1) / ranks / seconds / 1e9
assert values.max().item() == 1, "the maximum of ones is one"
print(f"rank {rank} of {ranks}: {mebibytes} MiB in {seconds * 1000:.1f} ms, {bandwidth:.2f} GB/s", flush=True)
dist.destroy_process_group()
