package jobset

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// maxPods bounds a role, as it does each gang (gang.maxPods).
const maxPods = 100_000

// maxBeside bounds the plain Jobs that one replicated job becomes. A driver or a server
// has one; hundreds that are no part of a gang are a mistake.
const maxBeside = 64

// Set is a JobSet on its way to a gang. [New] reads its jobs, the caller or
// [Set.Choose] says which of them play which part, and [Set.Finish] does the rest.
type Set struct {
	origin.Object
	// Blueprint is filled in by [Set.Finish]. Its framework has to be known before; empty
	// means that there is no gang, and that all jobs become plain ones.
	Blueprint *blueprint.Blueprint
	// Spec is where the JobSet's spec stands.
	Spec ledger.Node
	// Jobs are the replicated jobs that have pods, in their order.
	Jobs []*Job
}

// Job is a replicated job.
type Job struct {
	// Name is its name within the set.
	Name string
	// Node is where it stands.
	Node ledger.Node
	// Replicas is the number of Jobs, and Pods that of each Job's pods; both at least 1.
	Replicas, Pods int32
	// Template is that of its Jobs.
	Template batchv1.JobTemplateSpec
	// Role is its part in the gang; empty for what stands beside it.
	Role string
	// Container is the container that trains; empty for the first.
	Container string
	// Alone is true for the only job of a set without a gang: its Job bears the name of
	// the set itself.
	Alone bool
	// Variables are further places in which variables of its containers are written.
	Variables []ledger.Node

	waits  []wait
	group  string
	place  string // the workload's name
	first  int32  // the index of its first pod in the workload
	domain string // the Service in which its pods have names
	called bool   // some text calls its pods
}

// wait is one entry of dependsOn.
type wait struct {
	name     string
	complete bool
	node     ledger.Node
}

// New reads the replicated jobs of a set.
func New(o origin.Object, b *blueprint.Blueprint, spec ledger.Node) *Set {
	s := &Set{Object: o, Blueprint: b, Spec: spec}
	list := spec.Get("replicatedJobs")
	if len(list.Items()) == 0 {
		list.Required("there is no gang without jobs")
	}
	for _, n := range list.Items() {
		if j := s.read(n); j != nil {
			s.Jobs = append(s.Jobs, j)
		}
	}
	return s
}

// read reads one replicated job; nil for one that has no pods or cannot be read.
func (s *Set) read(n ledger.Node) *Job {
	j := &Job{Name: n.Get("name").String(), Node: n, Replicas: ptr.Deref(n.Get("replicas").Int32(), 1), group: n.Get("groupName").String()}
	if j.Name == "" {
		n.Get("name").Required("jobs are told apart by it")
		return nil
	}
	if s.Job(j.Name) != nil {
		n.Get("name").Invalid("another replicated job has this name")
		return nil
	}
	n.Get("name").Carried("it tells the parts apart")
	if j.groupName() == "default" {
		n.Get("groupName").Carried("the default")
	} else {
		n.Get("groupName").Changed("", "left out: it went into labels that no pod has any more; variables that read them hold its value", "")
	}
	template := n.Get("template")
	if !template.Get("spec").Get("template").Exists() {
		template.At("spec", "template").Required("the pods are made from it")
		return nil
	}
	if !template.Into(&j.Template) {
		return nil
	}
	j.Pods = ptr.Deref(j.Template.Spec.Parallelism, 1)
	if j.Replicas < 0 || j.Pods < 0 || int64(j.Replicas)*int64(j.Pods) > maxPods {
		n.Invalid(fmt.Sprintf("has %d x %d pods; there can be from 0 to %d", j.Replicas, j.Pods, maxPods))
		return nil
	}
	if j.Replicas == 0 || j.Pods == 0 {
		n.Changed("", "left out: there are no pods of it", "")
		return nil
	}
	s.completions(j)
	s.dependsOn(j)
	return j
}

// completions holds a Job to as many completions as pods that run at once.
func (s *Set) completions(j *Job) {
	spec := &j.Template.Spec
	if c := spec.Completions; c != nil && *c < j.Pods {
		j.Pods = max(*c, 1) // a Job never runs more pods than are to complete
	}
}

func (s *Set) dependsOn(j *Job) {
	for _, n := range j.Node.Get("dependsOn").Items() {
		w := wait{name: n.Get("name").String(), complete: n.Get("status").String() == "Complete", node: n}
		n.Only("name", "status")
		if s.Job(w.name) == nil {
			n.Get("name").Invalid("must be the name of a replicated job that stands before this one and has pods")
			continue
		}
		j.waits = append(j.waits, w)
	}
}

// Job is the replicated job of the given name; nil when there is none.
func (s *Set) Job(name string) *Job {
	if i := slices.IndexFunc(s.Jobs, func(j *Job) bool { return j.Name == name }); i >= 0 {
		return s.Jobs[i]
	}
	return nil
}

// members are the jobs that take part in the gang.
func (s *Set) members() []*Job {
	return slices.DeleteFunc(slices.Clone(s.Jobs), func(j *Job) bool { return j.Role == "" })
}

// roles are the parts of the gang, each once, in the order of their ranks.
func (s *Set) roles() []string {
	var out []string
	for _, role := range order {
		if slices.ContainsFunc(s.Jobs, func(j *Job) bool { return j.Role == role }) {
			out = append(out, role)
		}
	}
	for _, j := range s.members() {
		if !slices.Contains(out, j.Role) {
			out = append(out, j.Role)
		}
	}
	return out
}

// order is that of the ranks, in all frameworks.
var order = []string{"launcher", "master", "chief", "worker", "ps", "evaluator"}

// pods is the number of pods of a role.
func (s *Set) pods(role string) int32 {
	var n int32
	for _, j := range s.Jobs {
		if j.Role == role {
			n += j.Replicas * j.Pods
		}
	}
	return n
}

// total is the number of pods of the gang.
func (s *Set) total() int32 {
	var n int32
	for _, j := range s.members() {
		n += j.Replicas * j.Pods
	}
	return n
}

// pod is where the template of the pods stands.
func (j *Job) pod() ledger.Node { return j.Node.At("template", "spec", "template") }

// spec is the pods' own.
func (j *Job) spec() *corev1.PodSpec { return &j.Template.Spec.Template.Spec }

// trainer is the container that trains; nil when there is no container.
func (j *Job) trainer() *corev1.Container {
	all := j.spec().Containers
	for i := range all {
		if all[i].Name == j.Container {
			return &all[i]
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// containers are all containers of the pods, those of init too.
func (j *Job) containers() []*corev1.Container {
	var out []*corev1.Container
	spec := j.spec()
	for i := range spec.InitContainers {
		out = append(out, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		out = append(out, &spec.Containers[i])
	}
	return out
}
