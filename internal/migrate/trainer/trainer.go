package trainer

import (
	"cmp"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// Group is the API group of TrainJob and its runtimes.
const Group = "trainer.kubeflow.org"

// The kinds of runtimes.
const (
	// KindTrainingRuntime is a runtime for the TrainJobs of its namespace.
	KindTrainingRuntime = "TrainingRuntime"
	// KindClusterTrainingRuntime is a runtime for all TrainJobs.
	KindClusterTrainingRuntime = "ClusterTrainingRuntime"
)

// Names with a meaning for Trainer (pkg/constants).
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

// IsRuntimeKind reports whether a kind of the group is a runtime.
func IsRuntimeKind(kind string) bool {
	return kind == KindTrainingRuntime || kind == KindClusterTrainingRuntime
}

// ParseRuntimeRef returns the runtime that a TrainJob, encoded as JSON, names. It returns false if
// the TrainJob names none.
func ParseRuntimeRef(text []byte) (kind, name string, ok bool) {
	ref := gjson.GetBytes(text, "spec.runtimeRef")
	name = ref.Get("name").String()
	return cmp.Or(ref.Get("kind").String(), KindClusterTrainingRuntime), name, name != ""
}

// Read converts a TrainJob. Errors of the manifest are in the Recorder. The returned error is for a
// kind or a version that cannot be migrated.
func Read(o source.Object) (*ir.Gang, error) {
	if err := o.CheckVersion(); err != nil {
		return nil, err
	}
	r := &reader{Object: o, Gang: ir.NewGang(o), spec: o.Root.Get("spec")}
	if !r.findRuntime() {
		return r.Gang, nil
	}
	r.jobSet = jobset.NewReader(o, r.Gang, r.jobSetTemplate().Get("spec"))
	if len(r.jobSet.Jobs) == 0 {
		return r.Gang, nil
	}
	r.applyRuntimeMetadata()
	r.indexJobsByStep()
	r.applyOverrides()
	r.applyTrainer()
	r.applyInitializers()
	r.convertMLPolicy()
	if f, ok := r.Context.Frameworks.Find(r.Framework); ok && !f.HasLauncher {
		// The port of Trainer is the same for all frameworks. Programs and network policies can contain it.
		r.SetAnnotation(gang.AnnotationPort, strconv.Itoa(trainerPort))
	}
	r.convertSuspendAndDeadline()
	r.jobSet.BuildGang()
	r.convertPodGroupPolicy()
	return r.Gang, nil
}

// reader converts one TrainJob.
type reader struct {
	source.Object
	*ir.Gang
	spec    source.Field
	runtime source.Field
	jobSet  *jobset.Reader
	// jobByStep are the jobs of the runtime by the value of their label labelStep.
	jobByStep map[string]*jobset.ReplicatedJob
}

func (r *reader) jobSetTemplate() source.Field { return r.runtime.At("spec", "template") }

// applyRuntimeMetadata merges the labels and annotations that Trainer gives to the JobSet: those of
// the runtime, and those of spec of the TrainJob (until 2.1).
func (r *reader) applyRuntimeMetadata() {
	meta, labels, annotations := r.jobSetTemplate().Get("metadata"), r.Labels, r.Annotations
	r.Labels, r.Annotations = nil, nil
	for _, from := range []source.Field{meta, r.spec} {
		r.mergeMetadata(from, &r.Labels, &r.Annotations, "each workload")
	}
	r.Labels, r.Annotations = ir.MergeMaps(r.Labels, labels), ir.MergeMaps(r.Annotations, annotations)
	for _, name := range meta.Keys() {
		if name != "labels" && name != "annotations" {
			meta.Get(name).MarkLeftOut("Trainer uses only labels and annotations of the metadata")
		}
	}
}

// indexJobsByStep finds the jobs to which the TrainJob applies.
func (r *reader) indexJobsByStep() {
	r.jobByStep = map[string]*jobset.ReplicatedJob{}
	for _, j := range r.jobSet.Jobs {
		step, ok := j.Template.Labels[labelStep]
		if !ok {
			continue
		}
		j.Source.At("template", "metadata", "labels").Get(labelStep).MarkPreserved("the step " + step)
		delete(j.Template.Labels, labelStep)
		if r.jobByStep[step] == nil {
			r.jobByStep[step] = j
		}
		if j.Replicas != 1 {
			j.Source.Get("replicas").MarkChanged("1", "Trainer always starts one Job", "")
			j.Replicas = 1
		}
	}
	if r.jobByStep[stepTrainer] != nil {
		return
	}
	if j := r.jobSet.FindJob(jobNode); j != nil {
		r.jobByStep[stepTrainer] = j
		return
	}
	jobs := r.jobSetTemplate().At("spec", "replicatedJobs")
	jobs.MarkHandled()
	jobs.MarkRequired(fmt.Sprintf("one job must train; give it the label %s: %s", labelStep, stepTrainer))
}

// trainerJob returns the job to which spec.trainer applies, or nil.
func (r *reader) trainerJob() *jobset.ReplicatedJob { return r.jobByStep[stepTrainer] }

func (r *reader) convertSuspendAndDeadline() {
	spec := r.jobSetTemplate().Get("spec")
	spec.Get("suspend").MarkLeftOut("suspend of the TrainJob overrides it")
	spec.DeleteKey("suspend")
	r.ConvertSuspend(r.spec.Get("suspend"))
	r.ConvertManagedBy(r.spec.Get("managedBy"), Group)
	if deadline := r.spec.Get("activeDeadlineSeconds"); deadline.Exists() {
		r.JobSpec.ActiveDeadlineSeconds = deadline.Int64()
		deadline.MarkChanged("spec.activeDeadlineSeconds of each Job", "the time restarts when the gang restarts", "")
	}
}

// findRuntime finds the runtime of the TrainJob and reports whether it exists.
func (r *reader) findRuntime() bool {
	ref := r.spec.Get("runtimeRef")
	name, kind := ref.Get("name").String(), ref.Get("kind").String()
	if name == "" {
		ref.Get("name").MarkRequired("the runtime describes the pods")
		return false
	}
	if kind == "" {
		kind = KindClusterTrainingRuntime
	}
	if g := ref.Get("apiGroup").String(); g != "" && g != Group || !IsRuntimeKind(kind) {
		ref.MarkHandled()
		ref.MarkInvalid(fmt.Sprintf("must be a %s or a %s of %s", KindTrainingRuntime, KindClusterTrainingRuntime, Group))
		return false
	}
	tree, isBundled := r.lookUpRuntime(kind, name)
	if tree == nil {
		ref.Get("name").MarkInvalid(fmt.Sprintf("there is no such %s in the input, in the files of --runtimes and among the "+
			"ClusterTrainingRuntimes of Trainer %s; write it to a file with kubectl get %s %s -o yaml, and pass the file with "+
			"--runtimes", kind, bundledRuntimesVersion, strings.ToLower(kind), name))
		return false
	}
	r.runtime = r.Root.Recorder().AddRoot(kind+"/"+name, tree)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		r.runtime.Get(field).MarkHandled()
	}
	ref.ReportUnreadExcept("name", "kind", "apiGroup")
	ref.MarkPreserved(kind + " " + name)
	if isBundled {
		ref.AddNote(fmt.Sprintf("the input does not contain the runtime, so the one of Trainer %s was used",
			bundledRuntimesVersion),
			"if the runtime of your cluster differs, for example in its image, pass it with --runtimes")
	}
	return true
}

// lookUpRuntime returns a runtime, and whether it is one of those that Trainer installs.
func (r *reader) lookUpRuntime(kind, name string) (tree map[string]any, isBundled bool) {
	if r.Context.FindRuntime != nil {
		if tree := r.Context.FindRuntime(kind, r.Object.Namespace(), name); tree != nil {
			return tree, false
		}
	}
	text, err := bundledRuntimeFiles.ReadFile("runtimes/" + name + ".yaml")
	if kind != KindClusterTrainingRuntime || err != nil || yaml.Unmarshal(text, &tree) != nil { // a test decodes all files
		return nil, false
	}
	return tree, true
}

// volcanoQueueAnnotation names the queue of Volcano (volcano.sh/apis, QueueNameAnnotationKey).
const volcanoQueueAnnotation = "scheduling.volcano.sh/queue-name"

// convertPodGroupPolicy converts the settings of the gang scheduler, which the runtime names.
func (r *reader) convertPodGroupPolicy() {
	policy := r.runtime.At("spec", "podGroupPolicy")
	group := ir.PodGroup{Queue: r.Annotations[volcanoQueueAnnotation]}
	for i := range r.Roles {
		group.PriorityClassName = cmp.Or(r.Roles[i].Template.Spec.PriorityClassName, group.PriorityClassName)
	}
	for _, s := range []source.Scheduler{source.SchedulerVolcano, source.SchedulerCoscheduling} {
		settings := policy.Get(string(s))
		if !settings.Exists() {
			continue
		}
		group.Apply(r.Gang, s)
		group.Record(r.Gang, s, source.Field{}, source.Field{},
			settings.Get("networkTopology"), settings.Get("scheduleTimeoutSeconds"))
		settings.AddNoteWithOutcome(source.Preserved, "PodGroup "+r.Gang.Name, "", "")
		return
	}
}

// bundledRuntimesVersion is the release of the runtimes in the folder runtimes.
const bundledRuntimesVersion = "2.3"

//go:embed runtimes/*.yaml
var bundledRuntimeFiles embed.FS
