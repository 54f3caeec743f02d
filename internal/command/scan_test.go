package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/injectors"
	"rollcall.training/internal/command"
)

// launchers are those of the frameworks that Rollcall ships.
var launchers = injectors.Builtin().Frameworks().Launchers()

func TestScanLauncher(t *testing.T) {
	for line, want := range map[string]string{
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
		if got := launchers.NewScanner().Scan(strings.Split(line, "|")); got != want {
			t.Errorf("the launcher of %.40q is %q, want %q", line, got, want)
		}
	}
}

// TestScanKnownLaunchers checks that admission finds the training container by every launcher of the table.
func TestScanKnownLaunchers(t *testing.T) {
	for _, l := range launchers {
		for _, program := range l.Programs {
			if got := launchers.NewScanner().Scan([]string{program, l.Subcommand, "train.py"}); got != program {
				t.Errorf("the launcher of %s is %q", program, got)
			}
		}
		for _, module := range l.Modules {
			if got := launchers.NewScanner().Scan([]string{"python", "-m", module, "train.py"}); got != l.Name {
				t.Errorf("the launcher of the module %s is %q, want %q", module, got, l.Name)
			}
		}
	}
}

func TestScanProcessCounts(t *testing.T) {
	numbers, variables := command.ScanProcessCounts([]string{"bash", "-c", "torchrun --nproc_per_node=4 a.py; " +
		"torchrun --nproc-per-node \"${GPUS}\" b.py", "--nproc_per_node", "$(N)"})
	if diff := cmp.Diff([]string{"4", "", ""}, numbers); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "GPUS", "N"}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestScanFlags(t *testing.T) {
	var got []string
	words := []string{
		"sh", "-c", "torchrun --nnodes=2 \\\n --num_machines \"3\" --nnodesx=4; a --nnodes 1:3",
		"--map-by", "ppr:8:node", "--nnodes",
	}
	for _, f := range command.ScanFlags(words, "nnodes num-machines map-by") {
		got = append(got, fmt.Sprintf("%s %s %d", f.Name, f.Value, f.Number()))
	}
	want := []string{
		"--nnodes 2 2", "--num_machines 3 3", "--nnodes 1:3 1", "--map-by ppr:8:node 8", "--nnodes  0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}
