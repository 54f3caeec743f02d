"""Trains with DistributedDataParallel, and continues from its newest checkpoint after a restart.

Rank 0 saves every SAVE_EVERY steps, on SIGTERM, and if a peer is lost. All ranks load the same checkpoint.
Start one process in each pod with python3, or several with torchrun.
"""

import os
import signal
import time
import traceback

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import checkpoint

STEPS = int(os.environ.get("STEPS", "200"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "20"))
DIRECTORY = os.environ.get("CHECKPOINTS", "/checkpoints/" + os.environ["ROLLCALL_GANG"])

terminating = False


def on_sigterm(_signum, _frame):
    global terminating
    terminating = True  # the loop saves between two steps


signal.signal(signal.SIGTERM, on_sigterm)

has_gpu = torch.cuda.is_available()
local_rank = int(os.environ.get("LOCAL_RANK", "0"))  # torchrun sets it; the only process of a pod has GPU 0
device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if has_gpu else "gloo")
rank = dist.get_rank()
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

# Rank 0 chooses the checkpoint, because another rank could see a different newest file.
newest = torch.tensor([checkpoint.newest(DIRECTORY)[0]], device=device)
dist.broadcast(newest, src=0)
step = newest.item()
if step > 0:
    state = torch.load(os.path.join(DIRECTORY, f"step-{step}.pt"), map_location="cpu", weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
print(f"rank {rank}, attempt {os.environ.get('ROLLCALL_ATTEMPT', '0')}: starts at step {step}", flush=True)


def save():
    if rank == 0 and checkpoint.newest(DIRECTORY)[0] != step:
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        checkpoint.save(DIRECTORY, step, lambda file: torch.save(state, file))
        print(f"rank 0: saved step {step}", flush=True)


try:
    while step < STEPS and not terminating:
        torch.manual_seed(1000 * step + rank)  # the data of a step is the same in each attempt
        x = torch.randn(32, 8).to(device)
        loss = ((model(x) - x.sum(dim=1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % SAVE_EVERY == 0:
            save()
        time.sleep(float(os.environ.get("SECONDS_PER_STEP", "0.1")))
except RuntimeError:  # such as a lost peer; the model is that of the last complete step
    traceback.print_exc()  # os._exit does not print it
    save()
    os._exit(128 + signal.SIGTERM if terminating else 1)

if terminating:
    save()  # without a collective operation: the peers may have exited already
    os._exit(128 + signal.SIGTERM)

save()
print(f"rank {rank}: ends at step {step}", flush=True)
dist.barrier()
dist.destroy_process_group()
