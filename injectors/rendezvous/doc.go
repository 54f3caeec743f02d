// Package rendezvous plans the variables through which ranks find rank 0, if several frameworks share
// them.
//
// # The idea
//
// torch.distributed introduced MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. training-operator uses them
// for gradient boosting as well, and DeepSpeed reads them. Their values and policies are the same for
// every framework, so they are planned in this package. Variables that differ between frameworks are
// planned in the package of the framework.
package rendezvous
