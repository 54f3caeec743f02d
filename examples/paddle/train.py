"""A linear model that stays equal on all ranks, because an all_reduce averages the gradients."""

import hashlib

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
rank, world_size = dist.get_rank(), dist.get_world_size()
paddle.seed(rank)  # each rank has its own rows
x = paddle.randn([400, 4])
y = x @ paddle.to_tensor([[1.0], [-2.0], [3.0], [0.5]])

weights = paddle.zeros([4, 1])
weights.stop_gradient = False
losses = []
for _ in range(40):
    loss = paddle.mean((x @ weights - y) ** 2)
    loss.backward()
    gradient = weights.grad
    dist.all_reduce(gradient)  # the sum over all ranks
    with paddle.no_grad():
        weights = weights - 0.05 * gradient / world_size
    weights.stop_gradient = False
    losses.append(float(loss))

digest = hashlib.sha256(weights.detach().numpy().tobytes()).hexdigest()[:16]
print(f"rank {rank} world_size {world_size} loss {losses[0]:.3f} -> {losses[-1]:.3f} model {digest}", flush=True)
assert losses[-1] < losses[0] / 2, "the loss has to fall"
