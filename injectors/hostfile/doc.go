// Package hostfile plans the variables through which MPI launchers find the list of hosts.
//
// # The idea
//
// Every MPI launcher reads its settings from variables with its own prefix. The plan contains the
// variables of all launchers, so an image can change its MPI implementation without a change of the
// workload. The list of hosts has two formats, and both files exist: "host slots=n" for Open MPI, and
// "host:n" at /etc/mpi/hostfile.hydra for MPICH and Intel MPI. Each implementation rejects the other format.
//
// Open MPI has two families of variables. Up to version 4, its run-time system is ORTE. Version 5.0.6
// and newer use a PRRTE that ignores the variables of ORTE. Without the variables of PRRTE, it finds no
// hostfile, starts all ranks on the launcher, and succeeds (kubeflow/trainer#4028). ORTE must keep the
// full names of the hosts, because it would otherwise connect to the first label. PRRTE must shorten the
// names, because it would otherwise not recognize its own host (openpmix/prrte, src/util/proc_info.c).
package hostfile
