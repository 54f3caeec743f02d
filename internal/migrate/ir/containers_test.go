package ir_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/injectors/pytorch"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// recordReasons returns the reasons that a function records at the root of a manifest.
func recordReasons(record func(root source.Field)) string {
	var recorder source.Recorder
	record(recorder.Root(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}}))
	var reasons []string
	for _, e := range recorder.Entries() {
		reasons = append(reasons, e.Reason)
	}
	return strings.Join(reasons, "\n")
}

func TestReportHostnameReads(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // the quoted part of the text; empty if there is no report
	}{
		"command substitution":        {text: "run --rank $(hostname | cut -d- -f3)", want: "$(hostname | cut -d- -f3)"},
		"backquotes":                  {text: "run `hostname`", want: "`hostname"},
		"pipe":                        {text: "hostname | sed s/x//", want: "hostname |"},
		"variable of the shell":       {text: "run ${HOSTNAME##*-}", want: "${HOSTNAME"},
		"expansion by the kubelet":    {text: "$(HOSTNAME)", want: "$(HOSTNAME)"},
		"file":                        {text: "cat /etc/hostname", want: "/etc/hostname"},
		"function of Python":          {text: "import socket; socket.gethostname()", want: "gethostname"},
		"name of the node in Python":  {text: "platform.node()", want: "platform.node"},
		"option called hostname":      {text: "run --hostname=x"},
		"variable with a longer name": {text: "run $MY_HOSTNAME"},
		"word in a sentence":          {text: "echo the hostname is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"sh", "-c", c.text}}}}
			inPod := recordReasons(func(root source.Field) {
				ir.ReportHostnameReads(spec, nil, root, "train-worker-0", "train-1")
			})
			inScript := recordReasons(func(root source.Field) {
				ir.ReportHostnameReads(&corev1.PodSpec{}, []string{c.text}, root, "train-worker-0", "train-1")
			})
			want := ""
			if c.want != "" {
				want = `a text reads the hostname of the pod with "` + c.want + `", which was train-worker-0 and is train-1`
			}
			if inPod != want || inScript != want {
				t.Errorf("in the command: %q\nin a script: %q\nwant: %q", inPod, inScript, want)
			}
		})
	}
}

func TestReportJoinedPods(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		env     []corev1.EnvVar
		pods    int32
		want    bool
	}{
		"torchrun without a number of nodes": {command: []string{"torchrun", "train.py"}, pods: 4, want: true},
		"module of torch": {
			command: []string{"python", "-m", "torch.distributed.run", "x"}, pods: 2, want: true,
		},
		"one pod":                   {command: []string{"torchrun", "train.py"}, pods: 1},
		"number of nodes":           {command: []string{"torchrun", "--nnodes=4", "train.py"}, pods: 4},
		"request for separate pods": {command: []string{"torchrun", "--standalone", "train.py"}, pods: 4},
		"number of nodes in a variable": {
			command: []string{"torchrun", "x"}, env: []corev1.EnvVar{{Name: "PET_NNODES"}}, pods: 4,
		},
		"program that does not use torchrun": {command: []string{"python", "train.py"}, pods: 4},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &corev1.PodSpec{Containers: []corev1.Container{{Command: c.command, Env: c.env}}}
			torch := pytorch.Injector{}.Framework()
			got := recordReasons(func(root source.Field) { ir.ReportJoinedPods(torch, spec, root, c.pods) })
			if (got != "") != c.want {
				t.Errorf("report %q, want one: %v", got, c.want)
			}
		})
	}
}
