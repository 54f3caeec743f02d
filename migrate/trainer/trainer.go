package trainer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// Group is the API group of TrainJob and its runtimes.
const Group = "trainer.kubeflow.org"

// The kinds of runtimes.
const (
	// Runtime is of one namespace, and found by the TrainJobs in it.
	Runtime = "TrainingRuntime"
	// ClusterRuntime is found by all TrainJobs.
	ClusterRuntime = "ClusterTrainingRuntime"
)

// version is the only one that was ever released.
const version = "v1alpha1"

// Names that the trainer gives a meaning to (pkg/constants).
const (
	labelStep      = "trainer.kubeflow.org/trainjob-ancestor-step"
	labelFramework = "trainer.kubeflow.org/framework"
	stepTrainer    = "trainer"
	stepDataset    = "dataset-initializer"
	stepModel      = "model-initializer"
	jobNode        = "node"
	jobLauncher    = "launcher"
	containerNode  = "node"
	trainerPort    = 29500
)

// IsRuntime reports whether a kind of the group is one of runtimes, of which TrainJobs
// are made.
func IsRuntime(kind string) bool { return kind == Runtime || kind == ClusterRuntime }

// Ref tells which runtime a TrainJob names, from its text as JSON; false where it names
// none.
func Ref(text []byte) (kind, name string, ok bool) {
	var job struct {
		Spec struct {
			RuntimeRef struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"runtimeRef"`
		} `json:"spec"`
	}
	if json.Unmarshal(text, &job) != nil || job.Spec.RuntimeRef.Name == "" {
		return "", "", false
	}
	ref := job.Spec.RuntimeRef
	if ref.Kind == "" {
		ref.Kind = ClusterRuntime
	}
	return ref.Kind, ref.Name, true
}

// Read describes a TrainJob. Mistakes of the manifest are in the node's ledger; the error
// is for a kind or a version that cannot be migrated.
func Read(o origin.Object) (*blueprint.Blueprint, error) {
	if o.Kind != "TrainJob" {
		return nil, fmt.Errorf("kind %s of %s: %w", o.Kind, Group, origin.ErrUnknown)
	}
	if o.Version != version {
		return nil, fmt.Errorf("version %q of TrainJob is unknown; known is %s: %w", o.Version, version, origin.ErrUnknown)
	}
	r := &reader{Object: o, Blueprint: o.Blueprint(), spec: o.Root.Get("spec")}
	if !r.find() {
		return r.Blueprint, nil
	}
	r.set = jobset.New(o, r.Blueprint, r.template().Get("spec"))
	if len(r.set.Jobs) == 0 {
		return r.Blueprint, nil
	}
	r.metadata()
	r.steps()
	r.overrides()
	r.trainer()
	r.initializers()
	r.policy()
	r.port()
	r.life()
	r.set.Finish()
	r.podGroup()
	return r.Blueprint, nil
}

// reader is the reading of one TrainJob.
type reader struct {
	origin.Object
	*blueprint.Blueprint
	spec    ledger.Node
	runtime ledger.Node
	shipped bool
	set     *jobset.Set
	// byStep are the runtime's jobs by the step that their label names.
	byStep map[string]*jobset.Job
}

func (r *reader) template() ledger.Node { return r.runtime.At("spec", "template") }

// metadata takes the labels and annotations that the trainer put on the JobSet: those of
// the runtime, and those that the TrainJob asks for (until 2.1).
func (r *reader) metadata() {
	for _, at := range []struct {
		name string
		into *map[string]string
	}{{"labels", &r.Labels}, {"annotations", &r.Annotations}} {
		runtimes, own := r.template().Get("metadata").Get(at.name), r.spec.Get(at.name)
		all := runtimes.StringMap()
		if all == nil {
			all = map[string]string{}
		}
		runtimes.Carried(at.name + " of each workload")
		maps.Copy(all, own.StringMap())
		own.Carried(at.name + " of each workload")
		maps.Copy(all, *at.into)
		if len(all) > 0 {
			*at.into = all
		}
	}
	meta := r.template().Get("metadata")
	for _, name := range meta.Keys() {
		if name != "labels" && name != "annotations" {
			meta.Get(name).Changed("", "left out: the trainer took labels and annotations alone", "")
		}
	}
}

// steps finds the jobs that the TrainJob fills in.
func (r *reader) steps() {
	r.byStep = map[string]*jobset.Job{}
	for _, j := range r.set.Jobs {
		step, ok := j.Template.Labels[labelStep]
		if !ok {
			continue
		}
		j.Node.At("template", "metadata", "labels").Get(labelStep).Carried("the part of " + step)
		delete(j.Template.Labels, labelStep)
		if r.byStep[step] == nil {
			r.byStep[step] = j
		}
		if j.Replicas != 1 {
			j.Node.Get("replicas").Changed("1", "the trainer starts one Job of it, whatever the runtime says", "")
			j.Replicas = 1
		}
	}
	if r.byStep[stepTrainer] != nil {
		return
	}
	if j := r.set.Job(jobNode); j != nil {
		r.byStep[stepTrainer] = j
		return
	}
	r.template().At("spec", "replicatedJobs").Ignore()
	r.template().At("spec", "replicatedJobs").Required(fmt.Sprintf("one of the jobs has to train: give it the label %s: %s", labelStep, stepTrainer))
}

// training is the job that the TrainJob's trainer is about; nil when there is none.
func (r *reader) training() *jobset.Job { return r.byStep[stepTrainer] }

// life carries who lets the job begin, and how long it may run.
func (r *reader) life() {
	spec := r.template().Get("spec")
	spec.Get("suspend").Changed("", "left out: the TrainJob's own suspend overruled it", "")
	spec.Drop("suspend")
	if suspend := r.spec.Get("suspend"); suspend.Exists() {
		if ptr.Deref(suspend.Bool(), false) {
			r.Job.Suspend = ptr.To(true)
		}
		suspend.Carried("spec.suspend of each Job")
	}
	if deadline := r.spec.Get("activeDeadlineSeconds"); deadline.Exists() {
		r.Job.ActiveDeadlineSeconds = deadline.Int64()
		deadline.Changed("spec.activeDeadlineSeconds of each Job", "it begins anew with each restart of the gang", "")
	}
	managed := r.spec.Get("managedBy")
	switch v := managed.String(); v {
	case "":
	case Group + "/trainjob-controller":
		managed.Carried("the default")
	default:
		r.Job.ManagedBy = ptr.To(v)
		managed.Carried("spec.managedBy of each Job")
	}
}

// find finds the runtime. It is false where there is none.
func (r *reader) find() bool {
	ref := r.spec.Get("runtimeRef")
	name, kind := ref.Get("name").String(), ref.Get("kind").String()
	if name == "" {
		ref.Get("name").Required("the pods are made of a runtime")
		return false
	}
	if kind == "" {
		kind = ClusterRuntime
	}
	if g := ref.Get("apiGroup").String(); g != "" && g != Group || !IsRuntime(kind) {
		ref.Ignore()
		ref.Invalid(fmt.Sprintf("this release knows the runtimes of %s alone, %s and %s", Group, Runtime, ClusterRuntime))
		return false
	}
	tree, shipped := r.look(kind, name)
	if tree == nil {
		ref.Get("name").Invalid(r.missing(kind, name))
		return false
	}
	r.shipped = shipped
	r.runtime = r.Root.Ledger().Beside(kind+"/"+name, tree)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		r.runtime.Get(field).Ignore()
	}
	ref.Only("name", "kind", "apiGroup")
	ref.Carried(kind + " " + name)
	if shipped {
		ref.Remark(ledger.Changed, "", fmt.Sprintf("the %s that Trainer %s installs was taken: none of this name is in the input", name, shippedVersion),
			"give your cluster's own with --runtimes, if it differs; for its image, say")
	}
	return true
}

// missing says where a runtime was looked for, and how to give it.
func (r *reader) missing(kind, name string) string {
	where := "the input, the files of --runtimes"
	if kind == ClusterRuntime {
		where += fmt.Sprintf(" and what Trainer %s installs", shippedVersion)
	} else {
		where += fmt.Sprintf(" (in the namespace of the TrainJob, %q)", r.Object.Namespace())
	}
	return fmt.Sprintf("no %s of this name is in %s; give it with --runtimes FILE, which kubectl get %s %s -o yaml writes",
		kind, where, map[string]string{Runtime: "trainingruntime", ClusterRuntime: "clustertrainingruntime"}[kind], name)
}

// look looks for a runtime, and says whether it is one that Trainer installs.
func (r *reader) look(kind, name string) (tree map[string]any, shipped bool) {
	if r.Around.Runtime != nil {
		if tree := r.Around.Runtime(kind, r.Object.Namespace(), name); tree != nil {
			return tree, false
		}
	}
	if kind != ClusterRuntime || !slices.Contains(Shipped(), name) {
		return nil, false
	}
	return shippedRuntime(name), true
}
