// Package mpi injects programs of Open MPI 4 and 5, MPICH and Intel MPI.
//
// # The idea
//
// A gang consists of a launcher and workers. The launcher is a Job of one pod, which runs the mpirun of the
// user. The workers are a StatefulSet or a Job, whose pods run sshd until the launcher finishes. The
// annotation roles on each workload contains the sizes of both, so neither workload depends on the
// other. Packages hostfile and ssh plan the setup. A launcher without workers runs its processes in its
// own pod.
//
// A gang with names of Kubeflow also gets the variable K_MPI_JOB_ROLE of mpi-operator
// (pkg/controller/mpi_job_controller.go, v2beta1). Entry points of its images read it, and no
// implementation of MPI does.
package mpi
