// Package deepspeed injects DeepSpeed programs, with or without the DeepSpeed launcher.
//
// # The idea
//
// Without a launcher, a gang is a single workload. Its ranks get the variables of torch.distributed,
// which deepspeed.init_distributed and torchrun read (see package pytorch).
//
// With a launcher, the pod of the launcher runs the deepspeed command. The command starts the processes
// of the workers by ssh and sets their variables. It reads its hostfile from /job/hostfile
// (deepspeed/launcher/runner.py, DLTS_HOSTFILE), so the hostfile is mounted in /job as well.
package deepspeed
