"""An estimate of pi by three roles that exchange messages, with the standard library only.

Samplers draw points and send them to the counters. Counters count the points within the unit circle, and send
the numbers to the coordinator, which prints the result.
"""

import json
import os
import random
import socket
import time

ROUNDS, POINTS = 30, 1000  # of each sampler
HOSTFILE = "/etc/hostfile"  # the annotation rollcall.training/hostfile

env = os.environ
role, index, port = env["ROLLCALL_ROLE"], int(env["ROLLCALL_INDEX"]), int(env["ROLLCALL_MASTER_PORT"])
sizes = {name: int(pods) for name, pods in (item.split("=") for item in env["ROLLCALL_ROLES"].split(","))}


def addresses(of):
    """Return the addresses of all pods of a role."""
    return [env["ROLLCALL_ADDR_FORMAT"].format(role=of, index=i) for i in range(sizes[of])]


def connect(host):
    """Connect to a pod. All pods start at the same time, so its program may not listen yet."""
    deadline = time.monotonic() + 300
    while True:
        try:
            return socket.create_connection((host, port), timeout=5).makefile("w")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def accept(peers):
    """Return a stream for each pod that connects to this pod."""
    with socket.create_server(("", port)) as server:
        return [server.accept()[0].makefile("r") for _ in range(peers)]


def send(stream, message):
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def receive(stream):
    line = stream.readline()
    if not line:
        raise ConnectionError("a peer has closed its connection")  # the failure restarts the gang
    return json.loads(line)


def coordinate():
    counters = accept(sizes["counter"])
    inside = total = 0
    for _ in range(ROUNDS):
        for counter in counters:
            message = receive(counter)
            inside, total = inside + message["inside"], total + message["total"]
    print(f"attempt {env['ROLLCALL_ATTEMPT']}: {total} points, pi is about {4 * inside / total:.3f}")


def count():
    coordinator = connect(env["ROLLCALL_MASTER_ADDR"])  # rank 0
    samplers = accept(sizes["sampler"])
    for _ in range(ROUNDS):
        points = [point for sampler in samplers for point in receive(sampler)]
        send(coordinator, {"inside": sum(x * x + y * y < 1 for x, y in points), "total": len(points)})


def sample():
    counters = [connect(host) for host in addresses("counter")]
    generator = random.Random(index)
    for _ in range(ROUNDS):
        points = [(generator.random(), generator.random()) for _ in range(POINTS)]
        for i, counter in enumerate(counters):
            send(counter, points[i :: len(counters)])
        time.sleep(0.5)


with open(HOSTFILE) as hostfile:
    hosts = hostfile.read().split()
rank = int(env["ROLLCALL_RANK"])
assert hosts == [host for name in sizes for host in addresses(name)], "the hostfile lists the ranks in order"
assert hosts[rank] == addresses(role)[index] == socket.getfqdn(), "the pod has the address of its rank"
print(f"{role} {index} is rank {rank} of {env['ROLLCALL_SIZE']}", flush=True)
{"coordinator": coordinate, "counter": count, "sampler": sample}[role]()
