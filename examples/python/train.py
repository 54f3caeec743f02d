"""Submit a function as a gang, print its phases, and print the log of each rank."""

import argparse
import sys

import rollcall


def train(value: int) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    result = torch.tensor([value])
    dist.all_reduce(result)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the sum is {result.item()}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="from-python", help="name of the Job")
    parser.add_argument("--namespace", help="namespace of the Job")
    parser.add_argument("--image", required=True, help="an image with PyTorch")
    parser.add_argument("--pods", type=int, default=2, help="number of pods")
    options = parser.parse_args()

    try:
        gang = rollcall.submit(
            options.name,
            train,
            arguments={"value": 1},
            image=options.image,
            pods=options.pods,
            namespace=options.namespace,
        )
    except rollcall.Denied as error:
        sys.exit(f"{options.name} was {error}")
    for status in gang.follow():
        print(status.phase, status.message, flush=True)
    for rank in range(options.pods):
        print(f"--- rank {rank}")
        for line in gang.logs(rank=rank):
            print(line)
    if status.phase != "Succeeded":
        sys.exit(1)


if __name__ == "__main__":
    main()
