// Package hostfile holds the variables by which MPI launchers find the list of a
// gang's hosts.
//
// # The idea
//
// Every launcher reads its settings from variables with a prefix of its own, so the
// variables of all of them stand side by side, and an image may change its MPI
// without a word to Rollcall. Two forms of the file exist, and both are there:
// "host slots=n" at [Path] for Open MPI, "host:n" at [HydraPath] for MPICH and Intel
// MPI, which refuse the other.
//
// Open MPI has two families of names. Up to version 4 its run-time is ORTE; from 5.0.6
// on it is a PRRTE that no longer listens to ORTE's names, finds no hostfile, starts
// all ranks on the launcher, and succeeds (kubeflow/trainer#4028). The names of hosts
// are kept whole for the one, which would else connect to the first label alone, and
// cut for the other, which would else not know itself (openpmix/prrte,
// src/util/proc_info.c).
package hostfile
