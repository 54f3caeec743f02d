package jobset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/migrate/ledger"
)

// Prefixes of the labels and annotations that JobSet's controllers write and read.
const (
	prefix      = "jobset.sigs.k8s.io/"
	alphaPrefix = "alpha.jobset.sigs.k8s.io/"
)

// marks sees to the labels and annotations of the templates and of the set itself:
// those that JobSet acts on mean nothing to others.
func (s *Set) marks() {
	for _, key := range slices.Sorted(maps.Keys(s.Blueprint.Annotations)) {
		if strings.HasPrefix(key, alphaPrefix) || strings.HasPrefix(key, prefix) {
			delete(s.Blueprint.Annotations, key)
			n := s.Root.At("metadata", "annotations", key)
			n.Retract()
			lostMark(n, key)
		}
	}
	for _, j := range s.Jobs {
		meta := j.Node.At("template", "metadata")
		own(j.Template.Labels, meta.Get("labels"))
		own(j.Template.Annotations, meta.Get("annotations"))
		for _, of := range []struct {
			name string
			left map[string]string
		}{{"labels", j.Template.Labels}, {"annotations", j.Template.Annotations}} {
			if n := meta.Get(of.name); len(of.left) > 0 {
				n.Carried(of.name + " of the workload")
			} else {
				n.Ignore() // what was there is accounted for
			}
		}
		for _, name := range meta.Keys() {
			if name != "labels" && name != "annotations" {
				meta.Get(name).Changed("", "left out: JobSet names the Jobs itself, and takes no more than labels and annotations", "")
			}
		}
		pod := j.pod().Get("metadata")
		own(j.Template.Spec.Template.Labels, pod.Get("labels"))
		own(j.Template.Spec.Template.Annotations, pod.Get("annotations"))
	}
}

// own takes the marks of JobSet away from a map of the user's.
func own(m map[string]string, n ledger.Node) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(key, alphaPrefix) || strings.HasPrefix(key, prefix) {
			delete(m, key)
			lostMark(n.Get(key), key)
		}
	}
}

func lostMark(n ledger.Node, key string) {
	switch key {
	case alphaPrefix + "exclusive-topology":
		n.Lost("nothing gives each Job a topology domain of its own", fmt.Sprintf(
			"let Kueue's topology-aware scheduling place the gang, by annotations of the pod template: kueue.x-k8s.io/podset-required-topology: %[1]q for one domain for all pods, "+
				"or kueue.x-k8s.io/podset-slice-required-topology: %[1]q with kueue.x-k8s.io/podset-slice-size, the pods of one Job, for one domain each; neither keeps others out of it", n.String()))
	case alphaPrefix + "node-selector":
		n.Lost("it goes with exclusive-topology", "")
	default:
		n.Lost("it speaks to the controllers of JobSet", "")
	}
}

// index are the values of a pod's labels that JobSet writes, for the pods of one Job.
// A value that differs from pod to pod within the workload is a path of a field.
type index struct{ job, global, group string }

// labels puts the values of JobSet's labels in the place of variables that read them
// from the pod, which has them no more.
func (s *Set) labels() {
	for _, j := range s.members() {
		at := index{"0", s.before(j, ""), s.before(j, j.groupName())}
		if j.Replicas > 1 {
			at = index{}
			if j.Pods == 1 && j.first == 0 { // one pod a Job: its index is that of the Job
				at.job = indexPath
			}
			if at.job != "" && s.before(j, "") == "0" {
				at.global = indexPath
			}
			if at.job != "" && s.before(j, j.groupName()) == "0" {
				at.group = indexPath
			}
			s.through(j)
		}
		s.literals(j, at)
	}
	s.groups()
}

// indexPath is the pod's index in its workload.
const indexPath = "metadata.labels['batch.kubernetes.io/job-completion-index']"

// groupName is JobSet's default where the user names no group.
func (j *Job) groupName() string {
	if j.group == "" {
		return "default"
	}
	return j.group
}

// before counts the Jobs before a job's first, among those of one group or of all.
func (s *Set) before(j *Job, group string) string {
	n := 0
	for _, o := range s.Jobs {
		if o == j {
			break
		}
		if group == "" || o.groupName() == group {
			n += int(o.Replicas)
		}
	}
	return fmt.Sprint(n)
}

// count is the number of Jobs, of one group or of all.
func (s *Set) count(group string) string {
	n := 0
	for _, o := range s.Jobs {
		if group == "" || o.groupName() == group {
			n += int(o.Replicas)
		}
	}
	return fmt.Sprint(n)
}

// through refuses a template that reads the index of a pod within its Job, where the pods
// of several Jobs come into one workload.
func (s *Set) through(j *Job) {
	if j.Pods == 1 {
		return
	}
	text, err := json.Marshal(j.Template.Spec.Template.Spec)
	if err != nil {
		return // it came from JSON
	}
	for _, word := range []string{"job-completion-index", "JOB_COMPLETION_INDEX"} {
		if strings.Contains(string(text), word) {
			j.Node.Get("replicas").Invalid(fmt.Sprintf(
				"the template reads %s, which is the index within one of %d Jobs, and a gang's workload has one index for all %d pods; compute it from that one (%%%d within a Job, /%d for the Job), or set replicas to 1",
				word, j.Replicas, j.Replicas*j.Pods, j.Pods, j.Pods))
			return
		}
	}
}
