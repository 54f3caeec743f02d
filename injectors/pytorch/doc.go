// Package pytorch plans the variables of torch.distributed's env:// rendezvous and of torchrun.
//
// # The idea
//
// Every rank gets the address of rank 0 and its own rank. A master role is not required. The plan contains
// two families of variables with the same meaning. A program that is started directly reads RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT. torchrun reads the PET_ variables in place of its flags
// (torch/distributed/argparse_util.py). torchrun overrides the first family for the processes that it
// starts, so the two families do not conflict. NODE_RANK and LOCAL_RANK are for accelerate, Lightning
// and composer, which then need no flags (docs/reference/launchers.md).
//
// Names and meanings are those of training-operator's PyTorchJob
// (pkg/controller.v1/pytorch/envvar.go), for which existing programs were written.
// docs/reference/frameworks/pytorch.md contains the values for sample gangs.
package pytorch
