// Package jax plans the variables that jax.distributed.initialize needs.
//
// # The idea
//
// Process 0 serves as the coordinator, at the address of rank 0. JAX has only one variable of its
// own, JAX_COORDINATOR_ADDRESS. The number of processes and the index of a process are arguments,
// or JAX detects them from the environment of a launcher (jax/_src/distributed.py and
// jax/_src/clusters in version 0.10.2). The plan therefore contains these variables:
//
//   - JAX_NUM_PROCESSES and JAX_PROCESS_ID, for programs that pass them as arguments;
//   - JAX_COORDINATOR_PORT, which MaxText reads (MaxText/max_utils.py);
//   - in migrated gangs, COORDINATOR_ADDRESS, NUM_PROCESSES and others, which the JAXJob of
//     training-operator sets and the examples of training-operator read;
//   - the variables of a launcher that JAX detects, so that initialize() works without arguments.
//
// The launcher is Slurm. JAX detects several launchers only by their variables. The variables of Slurm are
// the only ones that no MPI library in the same process misinterprets (docs/adr/0009).
package jax
