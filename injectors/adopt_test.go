package injectors_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

func findEnvValue(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// TestAdoptedPort checks that the reconciler finds the port of the gang in a variable of the user, as
// admission did, and that an earlier injection is not a value of the user.
func TestAdoptedPort(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	set := newStatefulSet("train", nil, 2)
	set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MASTER_PORT", Value: "29500"}}
	w := gang.Workload{StatefulSet: set}
	if _, err := engine.Admit(w); err != nil {
		t.Fatal(err)
	}
	described, err := engine.Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	if port := described.Children.Service.Port; port != 29500 || described.Gang.Port != 29500 {
		t.Errorf("the Service has port %d, the gang has port %d", port, described.Gang.Port)
	}
	updated := set.DeepCopy()
	c := &updated.Spec.Template.Spec.Containers[0]
	for i := range c.Env {
		if c.Env[i].Name == "MASTER_PORT" {
			c.Env = append(c.Env[:i], c.Env[i+1:]...)
			break
		}
	}
	result, err := engine.AdmitUpdate(set, updated)
	if err != nil {
		t.Fatal(err)
	}
	got := findEnvValue(updated.Spec.Template.Spec.Containers[0], "PET_MASTER_PORT")
	if got != "23456" || result.Gang.Port != 23456 {
		t.Errorf("without the variable, PET_MASTER_PORT is %q and the gang has port %d", got, result.Gang.Port)
	}
}

// TestAdoptedProcesses checks which indications make a world size count processes.
func TestAdoptedProcesses(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		env        []corev1.EnvVar
		command    []string
		annotation string
		world      string
		want       string // PET_NPROC_PER_NODE; empty if the Job is denied
	}{
		"number of pods": {world: "2", want: "1"},
		"flag":           {world: "8", command: []string{"torchrun", "--nproc-per-node=4"}, want: "4"},
		"flag and value": {world: "8", command: []string{"torchrun", "--nproc_per_node", "4"}, want: "4"},
		"flag in a script": {
			world: "8", command: []string{"sh", "-c", "torchrun --nproc_per_node 4 a.py"}, want: "4",
		},
		"flag with a variable": {
			world: "8", command: []string{"sh", "-c", "torchrun --nproc_per_node ${N}"},
			env: []corev1.EnvVar{{Name: "N", Value: "4"}}, want: "4",
		},
		"variable":                      {world: "8", env: []corev1.EnvVar{{Name: "GPUS_PER_NODE", Value: "4"}}, want: "4"},
		"other number in the flag":      {world: "8", command: []string{"torchrun", "--nproc-per-node=2"}},
		"no indication":                 {world: "8"},
		"not a multiple of the pods":    {world: "7", command: []string{"torchrun", "--nproc-per-node=4"}},
		"annotation has another number": {world: "8", command: []string{"torchrun", "--nproc-per-node=4"}, annotation: "2"},
		"annotation has the number":     {world: "8", annotation: "4", want: "4"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if c.annotation != "" {
				annotations[gang.AnnotationNprocPerNode] = c.annotation
			}
			job := newJob(annotations, 2)
			container := &job.Spec.Template.Spec.Containers[0]
			container.Env, container.Command = append(c.env, corev1.EnvVar{Name: "WORLD_SIZE", Value: c.world}), c.command
			_, err := engine.Admit(gang.Workload{Job: job})
			got := findEnvValue(job.Spec.Template.Spec.Containers[0], "PET_NPROC_PER_NODE")
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("PET_NPROC_PER_NODE is %q, want %q; the error is %v", got, c.want, err)
			}
		})
	}
}
