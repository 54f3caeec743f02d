package otherlauncher_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/conformance"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/testing/otherlauncher"
	"rollcall.training/internal/vet"
)

// TestConformance runs the rules for all injectors.
func TestConformance(t *testing.T) { conformance.RunSuite(t, otherlauncher.Injector{}) }

const job = `
apiVersion: batch/v1
kind: Job
metadata:
  name: train-launcher
  labels: {rollcall.training/framework: ringmaster, rollcall.training/role: launcher}
  annotations: {rollcall.training/roles: "launcher=1,worker=4", rollcall.training/slots-per-worker: "2"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: proxy, image: proxy}
      - {name: main, image: main, command: [ringrun, -np, "9", -mca, plm_rsh_args, "-p 22", ./a]}
`

// TestVet checks that the launcher of a new framework is recognized: it is the training container, and its flags
// are compared with the slots of the hosts and the port of ssh.
func TestVet(t *testing.T) {
	docs, unreadable := manifest.ReadAll("a.yaml", strings.NewReader(job))
	report := vet.Run(docs, unreadable, vet.Options{Engine: otherlauncher.NewEngine()})
	var messages []string
	for _, f := range report.Findings {
		messages = append(messages, f.Field+": "+f.Message)
	}
	for _, want := range []string{
		"ringrun starts 9 processes, but 4 hosts with 2 slots each have only 8 slots",
		"ringrun uses SSH port 22, but sshd of the workers listens on port 2222",
	} {
		if !slices.ContainsFunc(messages, func(m string) bool {
			return strings.Contains(m, "containers[1].command: "+want) || strings.Contains(m, "containers[main].command: "+want)
		}) {
			t.Errorf("no finding about the container main: %s\nfindings:\n%s", want, strings.Join(messages, "\n"))
		}
	}
}

// TestMigration checks that programs of a new framework are detected, and that their names suggest roles.
func TestMigration(t *testing.T) {
	frameworks := otherlauncher.NewEngine().Frameworks()
	for name, c := range map[string]corev1.Container{
		"a launcher":                {Command: []string{"bash", "-c", "exec ringrun -np 8 python train.py"}},
		"a variable":                {Env: []corev1.EnvVar{{Name: "RINGMASTER_HOSTS"}}},
		"a launcher and a variable": {Command: []string{"ringrun"}, Env: []corev1.EnvVar{{Name: "MASTER_ADDR"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.PodSpec{Containers: []corev1.Container{c}}
			if got, _ := detection.FindFramework(frameworks, pod); got.Name != otherlauncher.Name {
				t.Errorf("detected %q", got.Name)
			}
			isLauncher := len(c.Command) > 0
			if f, _ := detection.FindLauncher(frameworks, pod); f.HasLauncher != isLauncher {
				t.Errorf("it runs a launcher: %t, want %t", f.HasLauncher, isLauncher)
			}
		})
	}
	f, _ := frameworks.Find(otherlauncher.Name)
	if got := ir.FrameworkRole(f, ir.SuggestRole(frameworks, "ringmaster-master")); got != gang.RoleLauncher {
		t.Errorf("the name ringmaster-master suggests the role %q", got)
	}
}
