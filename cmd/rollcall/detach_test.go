package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
)

func TestDetachFlags(t *testing.T) {
	args := []string{"detach", "--kubeconfig", filepath.Join("testdata", "kubeconfig.yaml"), "train", "-A"}
	_, _, err := runCommand(t, "", args...)
	if err == nil || !strings.Contains(err.Error(), "use --namespace") || exitCode(err) != exitUsage {
		t.Errorf("error %v with code %d, want a usage error", err, exitCode(err))
	}
}

func TestDetachPrints(t *testing.T) {
	restarting := newAdmittedJob(t, 2, lifecycle.Running)
	for name, c := range map[string]struct {
		namespace, gang                 string
		dryRun                          bool
		wantOut, wantStderr, wantFailed string // parts of the texts; empty for none
	}{
		"results": {
			namespace: "team", wantOut: "team/job/train detached\n",
		},
		"dry run": {
			namespace: "team", dryRun: true, wantOut: "team/job/train detached", wantStderr: "dry run: nothing is changed",
		},
		"namespace without gangs": {namespace: "other", wantStderr: "no gangs to detach"},
		"unknown gang":            {namespace: "team", gang: "other", wantFailed: `gang "other" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			d := detach.Detacher{
				Client:     fake.NewClientset(restarting.DeepCopy()),
				Engine:     injectors.NewEngine(injectors.Builtin(), gang.Config{}),
				Namespaces: []string{c.namespace},
				DryRun:     c.dryRun,
				Clock:      clock.RealClock{},
			}
			if c.gang != "" {
				d.Gangs = []string{c.gang}
			}
			var stdout, stderr bytes.Buffer
			err := runDetach(t.Context(), d, &stdout, &stderr)
			if (err != nil) != (c.wantFailed != "") || err != nil && !strings.Contains(err.Error(), c.wantFailed) {
				t.Errorf("error %v, want %q", err, c.wantFailed)
			}
			for got, want := range map[string]string{stdout.String(): c.wantOut, stderr.String(): c.wantStderr} {
				if (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("the output is %q, want a text with %q", got, want)
				}
			}
		})
	}
}
