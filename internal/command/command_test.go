package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/command"
)

// formatPrograms returns one program per line. An ellipsis marks an unknown rest of a word.
func formatPrograms(c command.Command) []string {
	var lines []string
	for _, p := range c.Programs {
		words := []string{p.Name}
		for _, a := range p.Args {
			if !a.Known {
				a.Text += "…"
			}
			words = append(words, a.Text)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func parseScript(script string) command.Command {
	return command.Parse([]string{"bash", "-c", script}, nil)
}

// TestWrappers gives each wrapper flags and values that are not its program.
func TestWrappers(t *testing.T) {
	for _, line := range []string{
		"exec torchrun a.py",
		"exec -a trainer torchrun a.py",
		"env torchrun a.py",
		"env -u LOCAL_RANK OMP_NUM_THREADS=1 torchrun a.py",
		"env -- torchrun a.py",
		"nohup torchrun a.py",
		"time torchrun a.py",
		"/usr/bin/time -f %e torchrun a.py",
		"timeout 60 torchrun a.py",
		"timeout --kill-after=5 -s INT 2h torchrun a.py",
		"timeout $LIMIT torchrun a.py",
		"stdbuf -oL -e 0 torchrun a.py",
		"flock /tmp/lock torchrun a.py",
		"chroot /image torchrun a.py",
		"tini -- torchrun a.py",
		"/opt/nvidia/nvidia_entrypoint.sh torchrun a.py",
		"sudo -E -u user torchrun a.py",
		"gosu user torchrun a.py",
		"numactl --cpunodebind=0 -m 0 torchrun a.py",
		"numactl $BINDING torchrun a.py",
		"taskset -c 0-3 torchrun a.py",
		"chrt -r 10 torchrun a.py",
		"nice -n 10 ionice -c 2 -n 7 torchrun a.py",
		"nsys profile -t cuda,nvtx --output report --stats=true torchrun a.py",
		"ncu --set full -o report torchrun a.py",
		"rocprofv3 --hip-trace -d out -- torchrun a.py",
		"perf record -g -o perf.data torchrun a.py",
		"py-spy record -o profile.svg -- torchrun a.py",
		"strace -f -o log torchrun a.py",
		"conda run -n e --no-capture-output torchrun a.py",
		"conda run --prefix /opt/e torchrun a.py",
		"micromamba run -n e torchrun a.py",
		"uv run --with accelerate --frozen torchrun a.py",
		"uv run -- torchrun a.py",
		"poetry run torchrun a.py",
		"pixi run -e cuda torchrun a.py",
		"exec timeout 60 nsys profile -o r numactl -N 0 torchrun a.py",
		"sh -c 'exec torchrun a.py'",
		"$(which torchrun) a.py",
		`"$(command -v torchrun)" a.py`,
	} {
		if diff := cmp.Diff([]string{"torchrun a.py"}, formatPrograms(parseScript(line))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name    string
		command []string
		args    []string
		want    []string
	}{
		{name: "arguments follow the command", command: []string{"/usr/bin/torchrun"}, args: []string{"a.py"},
			want: []string{"torchrun a.py"}},
		{name: "the command of the image is unknown", args: []string{"torchrun"}},
		{name: "a reference of Kubernetes is unknown", command: []string{"torchrun", "--nnodes=$(N)"},
			want: []string{"torchrun --nnodes=$(N)…"}},
		{name: "options of a shell can surround the c", command: []string{"bash", "-cux", "a; b"},
			want: []string{"a", "b"}},
		{name: "a shell option has a name", command: []string{"bash", "-eo", "pipefail", "-c", "a | b"},
			want: []string{"a", "b"}},
		{name: "a shell can run a file", command: []string{"bash", "run.sh", "-c"}, want: []string{"bash run.sh -c"}},
		{name: "a script of Kubernetes references", command: []string{"sh", "-c", "a $(B) c"}, want: []string{"a … c"}},
		{name: "a continued line", command: []string{"sh", "-c", "torchrun \\\n  --nnodes=2 \\\n  a.py"},
			want: []string{"torchrun --nnodes=2 a.py"}},
		{name: "a value with a variable is unknown", command: []string{"sh", "-c", "a --rank=$RANK"},
			want: []string{"a --rank=…"}},
		{name: "a function may never run", command: []string{"sh", "-c", "f() { a; }; b"}, want: []string{"b"}},
		{name: "invalid syntax is unknown", command: []string{"sh", "-c", "if a"}},
		{name: "other subcommands of a wrapper are programs", command: []string{"uv", "sync"}, want: []string{"uv sync"}},
		{name: "uv runs a script", command: []string{"uv", "run", "--with", "torch", "a.py", "-x"},
			want: []string{"python a.py -x"}},
		{name: "uv runs a module", command: []string{"uv", "run", "-m", "torch.distributed.run", "a.py"},
			want: []string{"python -m torch.distributed.run a.py"}},
		{name: "a program in a variable is unknown", command: []string{"sh", "-c", `exec "$@"`}},
		{name: "the output of other commands is unknown", command: []string{"sh", "-c", "$(cat name) a; a $(b c)"},
			want: []string{"cat name", "a …", "b c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, formatPrograms(command.Parse(c.command, c.args))); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParseNestedShells checks that shells within shells do not exhaust the stack.
func TestParseNestedShells(t *testing.T) {
	nested := []string{strings.Repeat("sh -c ", 3) + "true"}
	for range 20 {
		nested = []string{"sh", "-c", strings.Join(nested, " ")}
	}
	if got := formatPrograms(command.Parse(nested, nil)); len(got) > 1 {
		t.Errorf("programs: %q", got)
	}
}

func TestParseAssignments(t *testing.T) {
	c := parseScript("export A=1 B=$C; D='2 3' torchrun a.py; E=$(date)")
	want := []command.Assignment{{Name: "A", Value: "1"}, {Name: "D", Value: "2 3"}}
	if diff := cmp.Diff(want, c.Assignments); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	for script, want := range map[string]bool{"a; b": false, "a & wait": true, "for i in 1 2; do a; done": true} {
		if got := parseScript(script).MayRepeat; got != want {
			t.Errorf("%s: MayRepeat is %v, want %v", script, got, want)
		}
	}
}

func TestLaunch(t *testing.T) {
	known := func(text string) command.Argument { return command.Argument{Text: text, Known: true} }
	for _, c := range []struct {
		name, line string
		want       string
		incomplete bool
		flags      map[string]command.Argument
	}{
		{name: "torchrun", line: "torchrun --nnodes 2 --nproc_per_node=8 a.py --lr=1", want: "torchrun",
			flags: map[string]command.Argument{"nnodes": known("2"), "nproc-per-node": known("8")}},
		{name: "module of torchrun", line: "python3 -u -m torch.distributed.run --standalone a.py",
			want: "torchrun", flags: map[string]command.Argument{"standalone": {}}},
		{name: "former module of torchrun", line: "python -m torch.distributed.launch --use_env a.py", want: "torchrun",
			flags: map[string]command.Argument{"use-env": {}}},
		{name: "script of torchrun", line: "python -X dev /usr/bin/torchrun --nnodes=2 a.py", want: "torchrun",
			flags: map[string]command.Argument{"nnodes": known("2")}},
		{name: "values in variables", line: `torchrun --node_rank=$RANK --nnodes "$N" --max-restarts=1 a.py`,
			want: "torchrun", flags: map[string]command.Argument{
				"node-rank": {Variable: "RANK"}, "nnodes": {Variable: "N"}, "max-restarts": known("1")}},
		{name: "changed variable and output", line: `torchrun --node_rank=${HOSTNAME##*-} --nnodes=$(nproc --all) a.py`,
			want: "torchrun", flags: map[string]command.Argument{"node-rank": {}, "nnodes": {}}},
		{name: "flags in a variable", line: "torchrun --nnodes=2 $FLAGS --node-rank=0 a.py", want: "torchrun",
			incomplete: true,
			flags:      map[string]command.Argument{"nnodes": known("2")}},
		{name: "accelerate", line: "accelerate launch --multi_gpu --num_machines 2 a.py", want: "accelerate",
			flags: map[string]command.Argument{"multi-gpu": {}, "num-machines": known("2")}},
		{name: "accelerate-launch", line: "accelerate-launch --cpu a.py", want: "accelerate",
			flags: map[string]command.Argument{"cpu": {}}},
		{name: "module of accelerate", line: "python -m accelerate.commands.launch a.py", want: "accelerate",
			flags: map[string]command.Argument{}},
		{name: "other command of accelerate", line: "accelerate env"},
		{name: "composer", line: "composer -n 8 --world_size=16 a.py", want: "composer",
			flags: map[string]command.Argument{"n": known("8"), "world-size": known("16")}},
		{name: "deepspeed", line: "deepspeed --no_ssh --node_rank=0 a.py", want: "deepspeed",
			flags: map[string]command.Argument{"no-ssh": {}, "node-rank": known("0")}},
		{name: "horovodrun", line: "horovodrun -np 8 --gloo a.py", want: "horovodrun",
			flags: map[string]command.Argument{"np": known("8"), "gloo": {}}},
		{name: "mpiexec", line: "mpiexec --mca btl tcp --map-by=:OVERSUBSCRIBE -n 8 a.py", want: "mpirun",
			flags: map[string]command.Argument{"mca": known("btl"), "map-by": known(":OVERSUBSCRIBE"), "n": known("8")}},
		{name: "unknown flag of mpirun", line: "mpirun -np 8 --new -n 9 a.py", want: "mpirun", incomplete: true,
			flags: map[string]command.Argument{"np": known("8")}},
		{name: "module of colossalai", line: "python -m colossalai.cli run a.py", want: "colossalai",
			incomplete: true, flags: map[string]command.Argument{}},
		{name: "module of paddle", line: "python -m paddle.distributed.launch a.py", want: "paddle.distributed.launch",
			flags: map[string]command.Argument{}},
		{name: "program of the user", line: "python train.py"},
		{name: "module of the user", line: "python -m composer.datasets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			launches := launchers.FindAll(parseScript(c.line))
			if c.want == "" {
				if len(launches) > 0 {
					t.Errorf("launches: %+v, want none", launches)
				}
				return
			}
			if len(launches) != 1 || launches[0].Name != c.want {
				t.Fatalf("launches: %+v, want one of %s", launches, c.want)
			}
			flags, complete := launches[0].Flags()
			if diff := cmp.Diff(c.flags, flags); diff != "" || complete == c.incomplete {
				t.Errorf("flags (-want +got; complete: %v):\n%s", complete, diff)
			}
		})
	}
}
