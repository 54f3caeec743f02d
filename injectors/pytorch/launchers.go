package pytorch

import "rollcall.training/gang"

// launchers are the launchers of programs with torch. The sources of the flags are torch/distributed/run.py,
// accelerate/commands/launch.py and composer/cli/launcher.py.
var launchers = []gang.LauncherProgram{
	{
		Name: "torchrun", Programs: []string{"torchrun"},
		Modules:        []string{"torch.distributed.run", "torch.distributed.launch"},
		Switches:       "standalone no-python m module run-path use-env virtual-local-rank h help",
		AddressFlags:   "master-addr rdzv-endpoint",
		ReadsVariables: true, NodesFlag: "nnodes", RankFlag: "node-rank",
	},
	{
		Name: "accelerate", Programs: []string{"accelerate", "accelerate-launch"}, Subcommand: "launch",
		Modules: []string{"accelerate.commands.launch"},
		Switches: "cpu multi-gpu tpu ipex use-xpu use-mps-device use-deepspeed use-fsdp use-megatron-lm " +
			"use-parallelism-config debug m module no-python q quiet same-network tpu-cluster no-tpu-cluster " +
			"tpu-use-sudo downcast-bf16 enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic " +
			"dynamo-use-regional-compilation h help",
		AddressFlags: "main_process_ip", NodesFlag: "num_machines", RankFlag: "machine_rank",
	},
	{
		Name: "composer", Programs: []string{"composer"}, Modules: []string{"composer", "composer.cli.launcher"},
		Switches:     "v verbose m module-mode c command-mode version h help",
		AddressFlags: "master_addr",
	},
	{Name: "colossalai", Modules: []string{"colossalai.cli"}},
	{Name: "torch_xla.distributed.xla_spawn", Modules: []string{"torch_xla.distributed.xla_spawn"}},
}
