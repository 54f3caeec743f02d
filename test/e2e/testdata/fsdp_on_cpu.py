"""Lets fully_shard of PyTorch 2.6, which supports only GPUs, run on CPUs with gloo."""

import functools

import torch.cpu
import torch.distributed as dist
from torch.distributed import fsdp

torch.cpu.Stream.record_event = lambda self, event=None: None
torch.cpu.Stream.wait_event = lambda self, event: None
# Parameters that are collected a second time on a CPU count as modified in place.
fsdp.fully_shard = functools.partial(fsdp.fully_shard, reshard_after_forward=False)
reduce_scatter = dist.reduce_scatter_tensor


def reduce_scatter_mean(output, input, op, group):
    """Divides the sum, because gloo has no mean."""
    assert op == dist.ReduceOp.AVG
    reduce_scatter(output, input, dist.ReduceOp.SUM, group)
    output /= dist.get_world_size(group)


dist.reduce_scatter_tensor = reduce_scatter_mean
