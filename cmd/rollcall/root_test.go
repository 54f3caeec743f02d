package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/buildinfo"
)

// TestUsageErrors verifies that every invalid command has the exit code that the help promises.
func TestUsageErrors(t *testing.T) {
	const kubeconfig = "--kubeconfig=testdata/kubeconfig.yaml"
	for name, c := range map[string]struct {
		args []string
		want string // part of the error
	}{
		"an unknown command": {args: []string{"injekt"}, want: "inject"},
		"an unknown command of policy": {
			args: []string{"policy", "tset", "tests/"}, want: `unknown command "tset" for "rollcall policy"`,
		},
		"diff of manifests with a context": {
			args: []string{"diff", "-f", "job.yaml", "--context", "team"}, want: "--context: requires --cluster",
		},
		"explain of an object with a flag of the engine": {
			args: []string{"explain", "job/train", "--cluster-domain", "example.com"}, want: "--cluster-domain: must not be set",
		},
		"an unknown shell":           {args: []string{"completion", "basch"}, want: "basch"},
		"runtimes of standard input": {args: []string{"migrate", "-f", "job.yaml", "--runtimes", "-"}, want: "--runtimes: "},
		"an unknown flag of inject":  {args: []string{"inject", "--file", "a.yaml"}, want: "--file"},
		"an unknown flag of status":  {args: []string{"status", "--form"}, want: "--form"},
		"inject without a file":      {args: []string{"inject"}, want: "--filename"},
		"inject with a missing file": {args: []string{"inject", "-f", "missing.yaml"}, want: "missing.yaml"},
		"inject with files as arguments": {
			args: []string{"inject", "a.yaml", "b.yaml"}, want: "rollcall inject -f a.yaml -f b.yaml",
		},
		"vet with a file as an argument":     {args: []string{"vet", "a.yaml"}, want: "rollcall vet -f a.yaml"},
		"migrate with a file as an argument": {args: []string{"migrate", "a.yaml"}, want: "rollcall migrate -f a.yaml"},
		"migrate to an unknown framework": {
			args: []string{"migrate", "-f", "-", "--framework", "caffe"}, want: "pytorch, tensorflow",
		},
		"inject for an unsupported Kubernetes": {
			args: []string{"inject", "-f", "-", "--kubernetes-version", "1.20"}, want: gang.MinKubernetesVersion + " or newer",
		},
		"an unknown framework": {args: []string{"frameworks", "caffe"}, want: "pytorch, tensorflow"},
		"two frameworks":       {args: []string{"frameworks", "jax", "mpi"}, want: "one name"},
		"an unknown format":    {args: []string{"frameworks", "-o", "table"}, want: "text, json or yaml"},
		"status of two gangs":  {args: []string{"status", "a", "b", kubeconfig}, want: "one name"},
		"the log of all gangs": {
			args: []string{"status", "--watch", "--log-rank", "0", kubeconfig}, want: "--log-rank: needs --watch and the name",
		},
		"logs without a gang":      {args: []string{"logs", kubeconfig}, want: "requires a name"},
		"logs of an invalid range": {args: []string{"logs", "train", "--rank", "x", kubeconfig}, want: "x"},
		"a report without a file":  {args: []string{"report", "train", kubeconfig}, want: "--output: required"},
		"check with an argument":   {args: []string{"check", "team", kubeconfig}, want: "unknown command"},
		"check --pre --wait":       {args: []string{"check", "--pre", "--wait", kubeconfig}, want: "--wait"},
		"check without time":       {args: []string{"check", "--timeout=0s", kubeconfig}, want: "--timeout"},
		"check of an unknown status": {
			args: []string{"check", "--fail-on=info", kubeconfig}, want: "error, warning, unknown or never",
		},
		"explain an object of an unknown kind": {
			args: []string{"explain", "pod/train", kubeconfig}, want: "use job/NAME or statefulset/NAME",
		},
		"diff with a policy and a cluster": {
			args: []string{"diff", "-f", "-", "--cluster", "--policy", "a.yaml", kubeconfig}, want: "--policy: must not be set",
		},
		"diff of a cluster that does not answer": {
			args: []string{"diff", "-f", "../../examples/pytorch/job.yaml", "--cluster", kubeconfig}, want: "connection refused",
		},
		"version with an argument": {args: []string{"version", "1"}, want: "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := runCommand(t, "", c.args...)
			if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want exit code %d and a text that contains %q", err, exitUsage, c.want)
			}
		})
	}
}

// TestUnlabeledInput verifies that a lost label is visible, and fails a command with --require.
func TestUnlabeledInput(t *testing.T) {
	const missing = "no object has the label rollcall.training/framework"
	pytorchJob := newPyTorchJob("train", "")
	for name, c := range map[string]struct {
		command, stdin string
		want           string // part of standard error
	}{
		"inject reports the Jobs without the label": {
			command: "inject", stdin: unlabeledJob, want: missing + "; found 1 Job",
		},
		"inject suggests a migration": {
			command: "inject", stdin: pytorchJob, want: "convert with rollcall migrate",
		},
		"inject reports an empty input":             {command: "inject", want: "the input contains no object"},
		"migrate reports objects that are not jobs": {command: "migrate", stdin: configMapManifest, want: "1 ConfigMap"},
		"migrate reports an empty input":            {command: "migrate", want: "the input contains no object"},
		"migrate reports a text without an object":  {command: "migrate", stdin: "hello world\n", want: "no object"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := runCommand(t, c.stdin, c.command, "-f", "-")
			if err != nil || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("error %v and standard error %q, want one line that contains %q", err, stderr, c.want)
			}
			if c.stdin != "" && stdout != c.stdin {
				t.Errorf("standard output %q, want the input", stdout)
			}
			_, _, err = runCommand(t, c.stdin, c.command, "-f", "-", "--require")
			if err == nil || exitCode(err) != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v with --require, want exit code 1 and a text that contains %q", err, c.want)
			}
		})
	}
}

// TestPlugin verifies that help and errors of the kubectl plugin show commands that work there.
func TestPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
		not  string
	}{
		"the executable has its own name": {
			args: []string{"/bin/rollcall", "vet", "--help"},
			want: []string{"  rollcall vet -f FILE [flags]", "  rollcall vet -f job.yaml"},
			not:  "kubectl",
		},
		"a plugin is a command of kubectl": {
			args: []string{"/bin/kubectl-rollcall", "vet", "--help"},
			want: []string{
				"  kubectl rollcall vet -f FILE [flags]", "  kubectl rollcall vet -f job.yaml",
				"| kubectl rollcall vet -f - -o json",
			},
			not: "\n  rollcall vet",
		},
		"the examples of a subcommand are commands of kubectl": {
			args: []string{"/bin/kubectl-rollcall", "policy", "audit", "--help"},
			want: []string{
				"  kubectl rollcall policy audit [--policy FILE]", "  kubectl rollcall policy audit --policy policy.yaml",
			},
			not: "\n  rollcall policy",
		},
		"a plugin on Windows is a command of kubectl": {
			args: []string{"kubectl-rollcall.exe", "--help"},
			want: []string{"kubectl rollcall [command]"},
		},
		"kubectl asks for the values of a flag": {
			args: []string{"/bin/kubectl_complete-rollcall", "migrate", "--gang-scheduler", ""},
			want: []string{"volcano\n", "coscheduling\n", ":4\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			cmd := newProgram(c.args)
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			if err := executeCommand(cmd); err != nil {
				t.Fatal(err)
			}
			checkOrder(t, out.String(), c.want)
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("output contains %q:\n%s", c.not, out.String())
			}
		})
	}
}

// TestHelp verifies that each command has a summary and lists its exit codes, and that each text belongs to a command.
func TestHelp(t *testing.T) {
	var used []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		used = append(used, strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), programName+" "), " ", "-")+".txt")
		if hasCodes := strings.Contains(cmd.Long, "\nExit codes:\n"); cmd.Short == "" || !hasCodes && cmd.Name() != "policy" {
			t.Errorf("%s: summary %q and help %q", cmd.CommandPath(), cmd.Short, cmd.Long)
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(newRootCommand())
	slices.Sort(used)
	entries, err := helpTexts.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.Name())
	}
	if diff := cmp.Diff(used, texts); diff != "" {
		t.Errorf("files of the commands, and of the folder (-want +got):\n%s", diff)
	}
}

// TestCompletion verifies that the shell completes flags and arguments with a closed set of values,
// and offers files only for flags that read files.
func TestCompletion(t *testing.T) {
	const noFiles, onlyExtensions = ":4\n", ":8\n" // ShellCompDirective of cobra
	const kubeconfig = "--kubeconfig=testdata/kubeconfig.yaml"
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"frameworks":          {args: []string{"frameworks", "py"}, want: []string{"pytorch\n", noFiles}},
		"formats of inject":   {args: []string{"inject", "-o", ""}, want: []string{"yaml\n", "json\n", noFiles}},
		"formats of vet":      {args: []string{"vet", "-o", ""}, want: []string{"text\n", "json\n", "sarif\n", noFiles}},
		"severities":          {args: []string{"vet", "--fail-on", ""}, want: []string{"error\n", "never\n", noFiles}},
		"checks":              {args: []string{"vet", "--explain", "NoMem"}, want: []string{"NoMemoryLimit\n", noFiles}},
		"target frameworks":   {args: []string{"migrate", "--framework", "j"}, want: []string{"jax\n", noFiles}},
		"a gang for a report": {args: []string{"report", kubeconfig, ""}, want: []string{noFiles}},
		"files of reports":    {args: []string{"report", "train", "-o", ""}, want: []string{"html\n", onlyExtensions}},
		"frameworks of run":   {args: []string{"run", "a", "--framework", "ja"}, want: []string{"jax\n", noFiles}},
		"contexts":            {args: []string{"status", kubeconfig, "--context", ""}, want: []string{"none\n", noFiles}},
		"files of manifests":  {args: []string{"inject", "-f", ""}, want: []string{"yaml\n", onlyExtensions}},
		"objects to explain": {
			args: []string{"explain", kubeconfig, ""}, want: []string{"pytorch\n", "job/\n", "statefulset/\n", ":6\n"},
		},
		"an object without cluster": {args: []string{"explain", kubeconfig, "job/"}, want: []string{noFiles}},
		"a gang without cluster":    {args: []string{"status", kubeconfig, ""}, want: []string{noFiles}},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := runCommand(t, "", append([]string{"__complete"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			checkOrder(t, stdout, c.want)
		})
	}
}

func TestVersion(t *testing.T) {
	stdout, _, err := runCommand(t, "", "version")
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, stdout, []string{"version:", buildinfo.Version(), "go:", "kubernetes:", gang.MinKubernetesVersion})
}

// TestOldestKubernetes verifies that the command and the chart support the same versions.
func TestOldestKubernetes(t *testing.T) {
	text, err := os.ReadFile("../../charts/rollcall/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ KubeVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if want := ">=" + gang.MinKubernetesVersion + ".0-0"; chart.KubeVersion != want {
		t.Errorf("kubeVersion %q of the chart, want %q", chart.KubeVersion, want)
	}
}

func TestWithoutCluster(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	for _, args := range [][]string{{"status"}, {"check", "--pre"}, {"logs", "train"}, {"migrate", "--from-cluster"},
		{"explain", "job/train"}, {"diff", "--cluster", "-f", "-"}} {
		if _, _, err := runCommand(t, "", args...); err == nil || !strings.Contains(err.Error(), "no cluster is selected") {
			t.Errorf("%v: error %v, want that no cluster is selected", args, err)
		}
	}
}
