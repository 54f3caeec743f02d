"""The first process prints the hosts of all processes and the sum of their ranks."""

import socket

from mpi4py import MPI

comm = MPI.COMM_WORLD
hosts = comm.gather(socket.gethostname(), root=0)
total = comm.allreduce(comm.Get_rank())
if comm.Get_rank() == 0:
    print(f"processes {comm.Get_size()} sum {total} hosts {' '.join(sorted(set(hosts)))}", flush=True)
assert total == comm.Get_size() * (comm.Get_size() - 1) // 2
