package jobset

import "rollcall.training/migrate/ledger"

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
