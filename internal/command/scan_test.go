package command

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScanLauncher(t *testing.T) {
	for command, want := range map[string]string{
		"torchrun|train.py":                                 "torchrun",
		"/opt/conda/bin/torchrun|train.py":                  "torchrun",
		"python|-m|torch.distributed.run|train.py":          "torchrun",
		"uv|run|torchrun|train.py":                          "torchrun",
		"bash|-c|set -e\nnumactl --all mpirun -np 2 ./a":    "mpirun",
		"bash|-c|cd /app && accelerate launch train.py":     "accelerate",
		"bash|-c|pip install deepspeed; python train.py":    "",
		"pip|install|deepspeed":                             "",
		"bash|-c|# torchrun train.py\necho torchrun":        "",
		"python|train.py|--output=torchrun":                 "",
		"sh|-c|tail -f /logs/torchrun.log":                  "",
		strings.Repeat("a;", 1<<20) + "|" + "exec torchrun": "torchrun",
	} {
		if got := ScanLauncher(strings.Split(command, "|")); got != want {
			t.Errorf("the launcher of %.40q is %q, want %q", command, got, want)
		}
	}
}

// TestScanKnownLaunchers checks that admission finds the training container by every launcher of the table.
func TestScanKnownLaunchers(t *testing.T) {
	for _, l := range launchers {
		for _, program := range l.programs {
			if got := ScanLauncher([]string{program, l.subcommand, "train.py"}); got != program {
				t.Errorf("the launcher of %s is %q", program, got)
			}
		}
		for _, module := range l.modules {
			if got := ScanLauncher([]string{"python", "-m", module, "train.py"}); got != string(l.name) {
				t.Errorf("the launcher of the module %s is %q, want %q", module, got, l.name)
			}
		}
	}
}

func TestScanProcessCounts(t *testing.T) {
	numbers, variables := ScanProcessCounts([]string{"bash", "-c", "torchrun --nproc_per_node=4 a.py; " +
		"torchrun --nproc-per-node \"${GPUS}\" b.py", "--nproc_per_node", "$(N)"})
	if diff := cmp.Diff([]string{"4", "", ""}, numbers); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "GPUS", "N"}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}
