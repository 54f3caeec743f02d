"""A linear model. Horovod averages its gradients over all processes."""

import hashlib

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())  # each process has its own rows and initial weights
x = torch.randn(400, 4)
y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]])

model = torch.nn.Linear(4, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # use the weights of rank 0
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), named_parameters=model.named_parameters())
losses = []
for _ in range(40):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
# A single write: the processes of a pod share one log.
print(f"rank {hvd.rank()} world_size {hvd.size()} loss {losses[0]:.3f} -> {losses[-1]:.3f} model {digest}\n", end="", flush=True)
assert losses[-1] < losses[0] / 2, "the loss has to fall"
