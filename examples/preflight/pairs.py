"""Measures the network between pairs of ranks, and exits with code 20 on a node whose network is slow.

Each rank exchanges data with another partner in each round. A rank is slow with all partners if its own node is slow,
and only with one if the node of that partner is. So the best round of each rank counts, compared with the other ranks.
Ranks on the same node do not measure each other, because their data does not leave the node.
"""

import datetime
import os
import time

import torch
import torch.distributed as dist

ROUNDS = 3  # a rank without a partner in one round has two others
EXCHANGES = 3  # in each round; the fastest one counts, because something else may use the network or the CPU
BYTES = int(os.environ.get("PREFLIGHT_BYTES", 4 << 20))
MIN_SHARE = float(os.environ.get("PREFLIGHT_MIN_SHARE", 0.5))  # of the median of all ranks
NODE_FAILED = 20


def partners(size, round_):
    """Returns the partner of each rank in a round of a round-robin tournament; None for the rank that pauses."""
    slots = list(range(size)) + [None] * (size % 2)
    rotated = slots[:1] + slots[1:][round_:] + slots[1:][:round_]
    return {a: b for a, b in zip(rotated, reversed(rotated)) if a is not None}


def measure(partner):
    """Returns the bytes per second of the fastest exchange with a partner."""
    sent, received = torch.zeros(BYTES, dtype=torch.uint8), torch.zeros(BYTES, dtype=torch.uint8)
    seconds = []
    for _ in range(EXCHANGES):
        start = time.monotonic()
        operations = [dist.isend(sent, partner), dist.irecv(received, partner)]
        for operation in operations:
            operation.wait()
        seconds.append(time.monotonic() - start)
    return 2 * BYTES / min(seconds)


def slow_ranks(speeds):
    """Returns the ranks whose best round is slower than a share of the median of the ranks that measured."""
    best = {rank: max(s) for rank, s in enumerate(speeds) if any(s)}
    median = sorted(best.values())[len(best) // 2] if best else 0
    return [rank for rank, speed in best.items() if speed < MIN_SHARE * median]


def main():
    # The training uses MASTER_PORT. A rank that already trains must not join a check that has not ended.
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=2))
    rank, size = dist.get_rank(), dist.get_world_size()
    nodes = [None] * size
    dist.all_gather_object(nodes, os.environ["NODE_NAME"])
    speeds = [0.0] * ROUNDS
    for round_ in range(ROUNDS):
        partner = partners(size, round_)[rank]
        dist.barrier()
        if partner is not None and nodes[partner] != nodes[rank]:
            speeds[round_] = measure(partner)
    gathered = [None] * size
    dist.all_gather_object(gathered, speeds)
    dist.barrier()
    print(f"rank {rank}: {', '.join(f'{s / 1e6:.1f} MB/s' for s in speeds)}", flush=True)
    is_slow = rank in slow_ranks(gathered)
    if is_slow:
        print(f"the network of the node {nodes[rank]} is slow", flush=True)
    # destroy_process_group can hang: it waits for a thread of gloo, which frees a tensor of all_gather_object and waits
    # for the GIL. Without it, the usual exit can crash.
    os._exit(NODE_FAILED if is_slow else 0)


if __name__ == "__main__":
    main()
