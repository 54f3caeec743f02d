// Package deepspeed injects DeepSpeed programs, with or without its launcher.
//
// # The idea
//
// Without a launcher a gang is one workload whose ranks have the variables of
// torch.distributed, which deepspeed.init_distributed reads, and torchrun as well: see
// package pytorch.
//
// With one, the launcher's pod runs the deepspeed command, which starts the workers'
// processes by ssh and gives them their variables itself. It looks for its hostfile at
// /job/hostfile (deepspeed/launcher/runner.py, DLTS_HOSTFILE), so that is one more
// place where it is.
package deepspeed
