// Package pytorch gives PyTorch what torch.distributed's env:// rendezvous and
// torchrun read.
//
// # The idea
//
// Every rank learns where rank 0 listens and which rank it is; no rank is a
// master. Two families of variables say the same thing: RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT for a program that is started directly, and the
// PET_ variables, which torchrun reads in place of its flags
// (torch/distributed/argparse_util.py), for one that torchrun starts. torchrun
// sets the first family anew for the processes that it starts, so both can stand
// side by side.
//
// Names and meanings follow training-operator's PyTorchJob
// (pkg/controller.v1/pytorch/envvar.go), where programs were written for them;
// docs/frameworks/pytorch.md lists the departures.
package pytorch
