import os

import torch
import torch.distributed as dist

from steps import end, steps

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
# An elastic gang goes on with the ranks that remain. Torchrun restarts the processes when all are back.
is_incomplete = size < int(os.environ.get("FULL", size))
total = 0
for step in steps(forever=is_incomplete):
    value = torch.tensor([step * (rank + 1)])
    dist.all_reduce(value)
    total += value.item()
end(total)
dist.barrier()
dist.destroy_process_group()
