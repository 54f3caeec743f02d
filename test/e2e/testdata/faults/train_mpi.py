import sys

from mpi4py import MPI

from steps import end, steps

total = 0
for step in steps(sys.argv[1]):  # the processes on workers do not have the variable
    total += MPI.COMM_WORLD.allreduce(step * (MPI.COMM_WORLD.Get_rank() + 1))
if MPI.COMM_WORLD.Get_rank() == 0:
    end(total)
