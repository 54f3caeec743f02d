"""Batches that go on when hosts come and go: what was committed last is what all begin with."""

import os
import time

import horovod.torch as hvd
import torch

BATCHES = int(os.environ.get("BATCHES", "40"))
# Batches count only with so many processes at work; for a test that waits until the gang has grown.
FULL = int(os.environ.get("FULL", "0"))

hvd.init()
model = torch.nn.Linear(4, 1)
state = hvd.elastic.TorchState(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), batch=0)


@hvd.elastic.run  # called anew, with the state of the others, whenever the hosts have changed
def train(state):
    print(f"rank {hvd.rank()} size {hvd.size()} goes on from batch {state.batch}", flush=True)
    while state.batch < BATCHES:
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="ones")
        assert total.item() == hvd.size()
        if hvd.size() >= FULL:
            state.batch += 1
        time.sleep(0.2)
        state.commit()  # and look whether there are other hosts by now


train(state)
print(f"rank {hvd.rank()} size {hvd.size()} done after batch {state.batch}", flush=True)
