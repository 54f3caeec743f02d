"""Each rank sends 4 MiB to the next rank, all at the same time. Rank 0 prints the time and the nodes of the ranks."""

import os
import time

from mpi4py import MPI

STEPS = 5

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
sent, received = bytearray(4 << 20), bytearray(4 << 20)


def step():
    comm.Sendrecv(sent, (rank + 1) % size, recvbuf=received, source=(rank - 1) % size)
    comm.Barrier()


step()  # opens the connections
start = time.monotonic()
for _ in range(STEPS):
    step()
seconds = (time.monotonic() - start) / STEPS
nodes = comm.gather(os.environ["NODE_NAME"])
if rank == 0:
    print("result:", seconds, *nodes)
