"""XGBoost on several ranks. Each rank has its own rows, and all ranks get the same model."""

import hashlib
import os
import socket
import time

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tracker_uri, tracker_port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])


def address(name, patience=300):
    """Wait until the name of a rank is in the DNS: ranks start in any order, and XGBoost resolves the name only once."""
    end = time.monotonic() + patience
    while True:
        try:
            return socket.gethostbyname(name)
        except socket.gaierror:
            if time.monotonic() > end:
                raise
            time.sleep(1)


# Rank 0 also runs the tracker, to which all ranks connect.
if rank == 0:
    tracker = RabitTracker(n_workers=size, host_ip=tracker_uri, port=tracker_port, sortby="task")
    tracker.start()

# XGBoost does not read these variables itself. It assigns ranks in the order of the task IDs. It compares them as text,
# so they need leading zeros. 20 retries give rank 0 about six minutes to start the tracker.
meeting = collective.CommunicatorContext(
    dmlc_tracker_uri=address(tracker_uri), dmlc_tracker_port=tracker_port, dmlc_task_id=f"{rank:04}", dmlc_retry=20)

with meeting:
    assert (collective.get_rank(), collective.get_world_size()) == (rank, size)

    rng = np.random.default_rng(seed=rank)
    x = rng.normal(size=(500, 4))
    y = x @ np.array([1.0, -2.0, 3.0, 0.5]) + rng.normal(scale=0.1, size=500)
    data = xgb.DMatrix(x, y)

    history = {}
    model = xgb.train({"objective": "reg:squarederror"}, data, num_boost_round=20,
                      evals=[(data, "train")], evals_result=history, verbose_eval=False)

loss = history["train"]["rmse"]  # of the rows of all ranks
digest = hashlib.sha256(model.save_raw()).hexdigest()[:16]
print(f"rank {rank} world_size {size} loss {loss[0]:.3f} -> {loss[-1]:.3f} model {digest}")
assert loss[-1] < loss[0] / 2, "the loss has to fall"

if rank == 0:
    tracker.wait_for(timeout=60)
