// Package horovod injects Horovod programs that horovodrun or mpirun starts.
//
// # The idea
//
// Horovod needs the same setup as MPI: a launcher, workers with sshd, and a hostfile (see package mpi).
// horovodrun expects the format "host slots=n" for every MPI implementation, so the hostfile has this
// format.
//
// An elastic run executes a script every second to list the available hosts (horovod,
// runner/elastic/driver.py). The script discover_hosts.sh queries the hosts. It prints host:slots for
// each host that responds with the key of the gang, in numeric order, up to the maximum size of the
// gang. The script of mpi-operator was a ConfigMap, which reaches a pod with a delay of up to a minute,
// and did not contain slots (kubeflow/mpi-operator#445).
package horovod
