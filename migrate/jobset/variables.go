package jobset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/migrate/ledger"
)

// variable is where a variable of the job's containers stands in the manifest: the last
// place that has it, since later ones win. It is the pod template itself where the
// manifest has none of the name.
func (j *Job) variable(name string) ledger.Node {
	found := j.pod()
	spec := j.pod().Get("spec")
	lists := []ledger.Node{}
	for _, field := range []string{"initContainers", "containers"} {
		for _, c := range spec.Get(field).Items() {
			lists = append(lists, c.Get("env"))
		}
	}
	for _, list := range append(lists, j.Variables...) {
		for _, e := range list.Items() {
			if e.Get("name").String() == name {
				found = e
			}
		}
	}
	return found
}

// Overwritten leaves out variables of a container that a controller set whatever the user
// wrote: they never had an effect, and would have one now.
func (j *Job) Overwritten(container string, names ...string) {
	containers := j.Template.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name != container {
			continue
		}
		containers[i].Env = slices.DeleteFunc(containers[i].Env, func(e corev1.EnvVar) bool {
			if !slices.Contains(names, e.Name) {
				return false
			}
			j.variable(e.Name).Remark(ledger.Changed, "", fmt.Sprintf("left out: the trainer overwrote %s, so this value never reached the program, and Rollcall would heed it", e.Name), "")
			return true
		})
	}
}
