"""Trains a model whose parameters, gradients and optimizer states are divided among all ranks (FSDP)."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

has_gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if has_gpu else "gloo")  # reads the variables of torchrun
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(7)  # all ranks create the same parameters, and each rank keeps its part
blocks = [nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(2)]
model = nn.Sequential(*blocks, nn.Linear(32, 1)).to(device)
parameters = sum(p.numel() for p in model.parameters())
mesh = init_device_mesh(device.type, (world_size,))
for block in blocks:
    fully_shard(block, mesh=mesh)  # its parameters are whole only while the block is used
fully_shard(model, mesh=mesh)  # the rest
shard = sum(p.to_local().numel() for p in model.parameters())
assert shard < parameters or world_size == 1, "each rank has only a part of the model"

optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(1000 + rank)  # each rank has other data
means = []
for epoch in range(5):
    total = torch.zeros((), device=device)
    for _ in range(20):
        x = torch.randn(64, 32).to(device)
        loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True) / 6)
        optimizer.zero_grad()
        loss.backward()  # also averages the gradients of all ranks, and keeps the part of this rank
        optimizer.step()
        total += loss.detach()
    means.append(total.item() / 20)

# full_tensor() collects the parts of all ranks. For a large model, save the parts with torch.distributed.checkpoint.
weights = b"".join(p.full_tensor().detach().cpu().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
# A single write: the processes of a pod share one log.
print(f"rank {rank} of {world_size}: {shard} of {parameters} parameters\n"
      f"rank {rank} world_size {world_size} loss {means[0]:.3f} -> {means[-1]:.3f} model {digest}\n", end="", flush=True)
assert means[-1] < means[0] / 2, "the loss has to fall"
dist.barrier()
dist.destroy_process_group()
