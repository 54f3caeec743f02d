"""Linear regression with DistributedDataParallel: every process has its own part of the points."""

import hashlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")  # reads the variables of torchrun
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(7)  # all processes have the same points, and the sampler distributes them
x = torch.randn(400, 1)
points = TensorDataset(x, 2 * x + 1 + 0.1 * torch.randn_like(x))
sampler = DistributedSampler(points)

torch.manual_seed(rank)  # DistributedDataParallel starts with the weights of rank 0
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
means = []
for epoch in range(5):
    sampler.set_epoch(epoch)
    total = 0.0
    for inputs, wanted in DataLoader(points, batch_size=10, sampler=sampler):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()  # also averages the gradients of all ranks
        optimizer.step()
        total += loss.item() * len(inputs)
    means.append(total / len(sampler))

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
# A single write: the processes of a pod share one log.
print(f"rank {rank} world_size {world_size} loss {means[0]:.3f} -> {means[-1]:.3f} model {digest}\n", end="", flush=True)
assert means[-1] < means[0] / 2, "the loss has to fall"
dist.barrier()
dist.destroy_process_group()
