// Package horovod injects Horovod programs, started by horovodrun or by mpirun.
//
// # The idea
//
// Horovod is launched as MPI is: a launcher, workers with sshd, a hostfile (see
// package mpi). horovodrun reads "host slots=n" whatever MPI it runs over, so that is
// the form of its hostfile.
//
// An elastic run asks a script every second for the hosts that are there (horovod,
// runner/elastic/driver.py). discover_hosts.sh asks the hosts themselves: each that
// answers with the gang's key is printed as host:slots, in numeric order, up to the
// largest size of the gang. mpi-operator's script was a ConfigMap, which reaches a
// pod up to a minute late, and named no slots (kubeflow/mpi-operator#445).
package horovod
