"""Trains a model with DistributedDataParallel: each process has one GPU, the whole model and its part of the data."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

has_gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if has_gpu else "gloo")  # reads the variables of torchrun
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(7)  # all processes have the same data, and the sampler distributes them
x = torch.randn(4096, 32)
data = TensorDataset(x, x.sum(dim=1, keepdim=True) / 6)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=sampler, pin_memory=has_gpu)

torch.manual_seed(rank)  # DistributedDataParallel starts with the weights of rank 0
model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 1)).to(device)
model = DistributedDataParallel(model, device_ids=[device.index] if has_gpu else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
means = []
for epoch in range(5):
    sampler.set_epoch(epoch)
    total = torch.zeros((), device=device)
    for inputs, wanted in loader:
        inputs, wanted = inputs.to(device, non_blocking=True), wanted.to(device, non_blocking=True)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()  # also averages the gradients of all ranks
        optimizer.step()
        total += loss.detach()
    means.append(total.item() / len(loader))

weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
# A single write: the processes of a pod share one log.
print(f"rank {rank} world_size {world_size} loss {means[0]:.3f} -> {means[-1]:.3f} model {digest}\n", end="", flush=True)
assert means[-1] < means[0] / 2, "the loss has to fall"
dist.barrier()
dist.destroy_process_group()
