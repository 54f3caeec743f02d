// Package jax gives JAX what jax.distributed.initialize needs.
//
// # The idea
//
// Process 0 serves as the coordinator, at rank 0's address. JAX itself reads only
// the coordinator's address from a variable of its own, JAX_COORDINATOR_ADDRESS;
// number and index of the processes it takes from its arguments, or from a launcher
// whose environment it recognizes (jax/_src/distributed.py and jax/_src/clusters,
// read at 0.10.2). So there are three families of variables:
//
//   - JAX_NUM_PROCESSES and JAX_PROCESS_ID, for programs that pass them on;
//   - COORDINATOR_ADDRESS, NUM_PROCESSES and so on, which training-operator's JAXJob
//     sets and its examples read;
//   - the five variables by which JAX recognizes a launcher, so that
//     initialize() works without arguments.
//
// The launcher is Slurm's: of those that JAX recognizes by variables alone, it is
// the one whose variables no MPI library in the same process takes for its own
// (docs/adr/0010).
package jax
