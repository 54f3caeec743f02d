"""A linear model with ZeRO stage 1: each rank stores a part of the state of the optimizer."""

import hashlib

import deepspeed
import deepspeed.comm as dist
import torch

deepspeed.init_distributed("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(11)
model = torch.nn.Linear(4, 1)
engine, _, _, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
    config={
        "train_micro_batch_size_per_gpu": 50,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    },
)

torch.manual_seed(rank)  # each rank has its own rows
x = torch.randn(50, 4)
y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
losses = []
for _ in range(40):
    loss = torch.nn.functional.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())

weights = b"".join(p.detach().float().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights).hexdigest()[:16]
print(f"rank {rank} world_size {world_size} loss {losses[0]:.3f} -> {losses[-1]:.3f} model {digest}\n", end="", flush=True)
assert losses[-1] < losses[0] / 2, "the loss has to fall"
dist.barrier()
