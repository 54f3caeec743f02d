"""LightGBM on several ranks. Each rank has its own rows, and all ranks get the same model."""

import hashlib
import os
import socket
import time

import lightgbm as lgb
import numpy as np

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
hosts = [os.environ["MASTER_ADDR"]]
if size > 1:
    hosts += os.environ["WORKER_ADDRS"].split(",")


def address(name, patience=300):
    """Wait until the name of a rank is in the DNS: ranks start in any order, and LightGBM needs IP addresses."""
    end = time.monotonic() + patience
    while True:
        try:
            return socket.gethostbyname(name)
        except socket.gaierror:
            if time.monotonic() > end:
                raise
            time.sleep(1)


rng = np.random.default_rng(seed=rank)
x = rng.normal(size=(500, 4))
y = x @ np.array([1.0, -2.0, 3.0, 0.5]) + rng.normal(scale=0.1, size=500)
data = lgb.Dataset(x, y)

# LightGBM has no parameter for the rank. It finds its own address in the list of machines.
parameters = {
    "objective": "regression",
    "metric": "rmse",
    "tree_learner": "data",  # distribute rows, not columns
    "pre_partition": True,  # the rows are already distributed
    "machines": ",".join(f"{address(host)}:{port}" for host in hosts),
    "local_listen_port": port,
    "time_out": 5,  # minutes
    "verbosity": -1,
}
history = {}
model = lgb.train(parameters, data, num_boost_round=20, valid_sets=[data], valid_names=["train"],
                  callbacks=[lgb.record_evaluation(history)])

loss = history["train"]["rmse"]  # of the rows of this rank
trees, _, _ = model.model_to_string().partition("end of trees")
digest = hashlib.sha256(trees.encode()).hexdigest()[:16]
print(f"rank {rank} world_size {size} loss {loss[0]:.3f} -> {loss[-1]:.3f} model {digest}")
assert loss[-1] < loss[0] / 2, "the loss has to fall"
