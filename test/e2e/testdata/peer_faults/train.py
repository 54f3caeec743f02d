"""Trains until a test makes a rank fail. Each rank writes a file that shows with whom it trains."""

import itertools
import json
import os
import pathlib
import threading
import time
import uuid

import torch
import torch.distributed as dist

RESULTS = pathlib.Path("/results")


def load_batch(rank):
    fault = RESULTS / f"fault-{rank}"
    if not fault.exists():
        return
    kind = fault.read_text()
    fault.unlink()  # once, not in each attempt
    if kind == "exit":
        os._exit(1)
    hoard = []
    while kind == "memory":
        hoard.append(b"x" * (16 << 20))
    wait_for_batch(kind)


def wait_for_batch(kind):
    """Hangs as the workers of data loaders do."""
    while kind == "loop":
        pass
    if kind == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if kind == "pipe":
        os.read(os.pipe()[0], 1)
    time.sleep(100_000)


dist.init_process_group("gloo")
rank = dist.get_rank()
session = [uuid.uuid4().hex]
dist.broadcast_object_list(session)
state = {"session": session[0], "pod": os.environ["POD_NAME"], "node": os.environ["NODE_NAME"],
         "device": os.environ.get("DEVICE", "")}
for step in itertools.count():
    load_batch(rank)
    dist.all_reduce(torch.ones(1000))
    file = RESULTS / f"new-{rank}"
    file.write_text(json.dumps(state))
    file.rename(RESULTS / f"rank-{rank}")
    pathlib.Path("/tmp/progress").touch()
    time.sleep(0.5)
