"""Elastic training: when hosts are added or removed, all processes continue from the last committed state."""

import os
import time

import horovod.torch as hvd
import torch

BATCHES = int(os.environ.get("BATCHES", "40"))
# Batches count only with at least this number of processes, for a test that adds a host.
FULL = int(os.environ.get("FULL", "0"))

hvd.init()
model = torch.nn.Linear(4, 1)
state = hvd.elastic.TorchState(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), batch=0)


@hvd.elastic.run  # called again with a synchronized state when the hosts change
def train(state):
    print(f"rank {hvd.rank()} size {hvd.size()} continues from batch {state.batch}", flush=True)
    while state.batch < BATCHES:
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="ones")
        assert total.item() == hvd.size()
        if hvd.size() >= FULL:
            state.batch += 1
        time.sleep(0.2)
        state.commit()  # also checks for changed hosts


train(state)
print(f"rank {hvd.rank()} size {hvd.size()} done after batch {state.batch}", flush=True)
