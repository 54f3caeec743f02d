"""Linear regression with accelerate: every process has its own part of the points."""

import hashlib

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()  # reads the variables of Rollcall, or those of torchrun
rank, world_size = accelerator.process_index, accelerator.num_processes

torch.manual_seed(7)  # all processes have the same points, and accelerate distributes them
x = torch.randn(400, 1)
points = DataLoader(TensorDataset(x, 2 * x + 1 + 0.1 * torch.randn_like(x)), batch_size=10, shuffle=True)

torch.manual_seed(rank)  # accelerate starts with the weights of rank 0
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, points = accelerator.prepare(model, optimizer, points)
means = []
for _ in range(5):
    total = torch.zeros(())
    for inputs, wanted in points:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        accelerator.backward(loss)  # also averages the gradients of all ranks
        optimizer.step()
        total += loss.detach().cpu()
    means.append(total.item() / len(points))

ranks = accelerator.reduce(torch.tensor(rank + 1.0, device=accelerator.device), "sum").item()
assert ranks == world_size * (world_size + 1) / 2, f"the sum of all ranks is {ranks}"
weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
# A single write: the processes of a pod share one log.
print(f"rank {rank} world_size {world_size} loss {means[0]:.3f} -> {means[-1]:.3f} model {digest}\n", end="", flush=True)
accelerator.end_training()
