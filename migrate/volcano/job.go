package volcano

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// Group is the API group of Volcano's Job.
const Group = "batch.volcano.sh"

// kind is the only kind of the group that is a training job.
const kind = "Job"

// versions are those that the group has had.
var versions = []string{"v1alpha1", "v1"}

// reader is the reading of one job.
type reader struct {
	origin.Object
	spec      ledger.Node
	blueprint *blueprint.Blueprint
	framework framework
	// plugins are those of the manifest, and those that Volcano's webhook adds.
	plugins map[string]flags
	// hostsInEnv is true where the plugin svc sets variables with the hosts.
	hostsInEnv bool
	// tasks are those that are parts of the gang, in the order of the blueprint's roles.
	tasks []task
	// total is the number of pods of all tasks.
	total int32
	// jobPolicies are those of the whole job.
	jobPolicies []policy
}

// task is a part of the gang as Volcano knows it.
type task struct {
	// name is the task's.
	name string
	// node is where it stands.
	node ledger.Node
	// policies are its own.
	policies []policy
}

// Read describes a Volcano Job. Mistakes of the manifest are in the node's ledger; the
// error is for a kind or a version that cannot be migrated.
func Read(o origin.Object) (*blueprint.Blueprint, error) {
	if o.Kind != kind {
		return nil, fmt.Errorf("kind %s of %s; take the Job out of it, and migrate that: %w", o.Kind, Group, origin.ErrUnknown)
	}
	if !slices.Contains(versions, o.Version) {
		return nil, fmt.Errorf("version %q of %s is unknown; known are %s: %w", o.Version, o.Kind, strings.Join(versions, ", "), origin.ErrUnknown)
	}
	r := &reader{Object: o, spec: o.Root.Get("spec"), blueprint: o.Blueprint(), plugins: map[string]flags{}}
	r.blueprint.Marks = marks()
	r.readPlugins()
	if !r.findFramework() {
		return r.blueprint, nil
	}
	r.readTasks()
	r.end()
	if len(r.blueprint.Roles) == 0 {
		r.mistakes()
		return r.blueprint, nil
	}
	r.templates()
	r.slots()
	r.volumes()
	r.policies()
	r.network()
	r.variables()
	r.scheduling()
	return r.blueprint, nil
}

// mistakes looks for further ones in a job that has no parts, so that the user hears of
// all of them at once.
func (r *reader) mistakes() {
	readPolicies(r.spec.Get("policies"))
	r.volumes()
	r.network()
	for _, field := range []string{"minAvailable", "minSuccess", "maxRetry"} {
		r.spec.Get(field).Int32()
	}
}

// end reads what happens to a job that has ended, or was stopped.
func (r *reader) end() {
	if ttl := r.spec.Get("ttlSecondsAfterFinished"); ttl.Exists() {
		r.blueprint.Job.TTLSecondsAfterFinished, r.blueprint.TimeToLive = ttl.Int32(), ttl
		ttl.Carried("spec.ttlSecondsAfterFinished of each Job")
	}
	r.spec.Get("runningEstimate").Lost("it was a hint to the scheduler, not a limit, and a PodGroup has no place for it",
		"set spec.activeDeadlineSeconds on the Job for a limit")
	if phase := r.phase(); phase == "Aborted" || phase == "Aborting" {
		r.blueprint.Job.Suspend = ptr.To(true)
		r.Root.At("status", "state", "phase").Changed("spec.suspend of each Job",
			"the job was aborted, and waits to be resumed", "set spec.suspend: false to let it run")
	}
}

// phase is the state that the job was in when it was taken from a cluster; empty when
// none is there. Nobody writes it, so one of another type is no mistake of the user's.
func (r *reader) phase() string {
	status, _ := r.Root.Get("status").Tree().(map[string]any)
	state, _ := status["state"].(map[string]any)
	phase, _ := state["phase"].(string)
	return phase
}

// set gives the gang an annotation of Rollcall's.
func (r *reader) set(key, value string) { r.blueprint.Keys[key] = value }

// port carries the port of the rendezvous.
func (r *reader) port(n ledger.Node, port int32) {
	switch {
	case port == r.framework.port:
		n.Carried("the framework's own port")
	case port < leastPort:
		n.Changed("the framework's own port", fmt.Sprintf("ports below %d take a right that a container without privileges lacks", leastPort), "")
	default:
		r.set(gang.AnnotationPort, fmt.Sprint(port))
		n.Carried("annotation " + gang.AnnotationPort)
	}
}

// The bounds of the annotation for the port.
const (
	leastPort = 1024
	mostPort  = 65535
)
