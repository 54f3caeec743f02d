"""Submit a gang, print its phases, and print the log of each rank."""

import argparse
import sys

from kubernetes import client, config

import gangs

PROGRAM = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
result = torch.tensor([1])
dist.all_reduce(result)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the sum is {result.item()}")
dist.destroy_process_group()
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="from-python", help="name of the Job")
    parser.add_argument("--namespace", default="default", help="namespace of the Job")
    parser.add_argument("--image", required=True, help="an image with PyTorch")
    parser.add_argument("--pods", type=int, default=2, help="number of pods")
    arguments = parser.parse_args()

    config.load_kube_config()
    name, namespace = arguments.name, arguments.namespace
    try:
        gangs.create_gang(name, arguments.image, ["python3", "-c", PROGRAM], pods=arguments.pods, namespace=namespace)
    except client.ApiException as error:
        sys.exit(f"creating the Job {name}: {error.body}")
    for status in gangs.follow_gang(name, namespace):
        print(status.get("phase"), status.get("message", ""), flush=True)
    for rank, log in gangs.read_logs(name, namespace).items():
        print(f"--- rank {rank}\n{log}", end="")
    if status["phase"] != "Succeeded":
        sys.exit(1)


if __name__ == "__main__":
    main()
