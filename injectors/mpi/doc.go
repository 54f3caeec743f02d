// Package mpi injects MPI programs of any implementation: Open MPI 4 and 5, MPICH and
// Intel MPI.
//
// # The idea
//
// A gang is a launcher, a Job of one pod that runs the user's mpirun, and workers, a
// StatefulSet or Job whose pods run sshd until the launcher has ended. The two name
// each other's sizes in the annotation roles, and that is all that they know of each
// other. Packages hostfile and ssh do the rest. A launcher without workers runs its
// processes in its own pod.
//
// The variable K_MPI_JOB_ROLE is mpi-operator's (pkg/controller/mpi_job_controller.go,
// v2beta1), whose images' entry points read it.
package mpi
