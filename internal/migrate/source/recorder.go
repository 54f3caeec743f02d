package source

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest/typeerror"
	"rollcall.training/internal/text"
)

// Outcome is what happened to a field.
type Outcome string

// The outcomes.
const (
	// Preserved fields have the same meaning in the result.
	Preserved Outcome = "preserved"
	// Changed fields have another meaning in the result, or reach the same end by other means.
	Changed Outcome = "changed"
	// Dropped fields are not in the result.
	Dropped Outcome = "dropped"
)

// Entry records the outcome of a field, including all values below it.
type Entry struct {
	// Path is the field as users write it, for example spec.runPolicy.backoffLimit.
	Path string `json:"path"`
	// Outcome is what happened to the field.
	Outcome Outcome `json:"outcome"`
	// To describes its place in the result. It is empty if there is none.
	To string `json:"to,omitempty"`
	// Reason explains why the field was changed or dropped. It is empty for preserved fields.
	Reason string `json:"reason,omitempty"`
	// Action is what the user can do. It is empty if nothing has to be done.
	Action string `json:"action,omitempty"`
	// Topic names a change that applies to all jobs of the system. It is empty for a change that is
	// specific to this job.
	Topic Topic `json:"topic,omitempty"`
}

// Topic is the subject of a change that applies to all jobs of a system.
type Topic string

// The topics.
const (
	TopicFailedPods   Topic = "failed pods"
	TopicRestartLimit Topic = "restart limit"
	TopicCompletion   Topic = "completion"
	TopicCleanup      Topic = "cleanup"
)

// Recorder collects the outcomes and errors of one manifest. Its zero value is ready.
type Recorder struct {
	entries    []Entry
	accounted  map[string]bool // paths with an outcome, which covers all values below
	readPaths  map[string]bool // paths of empty values that a reader accessed
	errors     field.ErrorList
	extraRoots []Field
}

// Root returns the manifest, decoded from JSON, as a Field.
func (r *Recorder) Root(tree map[string]any) Field {
	r.accounted, r.readPaths = map[string]bool{}, map[string]bool{}
	return Field{value: tree, recorder: r}
}

// AddRoot returns another object that belongs to the manifest, such as a runtime. Its paths start
// with the given name. [Recorder.ReportAllUnread] includes it.
func (r *Recorder) AddRoot(name string, tree map[string]any) Field {
	root := Field{path: name, value: tree, recorder: r}
	r.extraRoots = append(r.extraRoots, root)
	return root
}

// recordEntry adds an entry that settles its path. A path may have several entries: a field can be
// preserved in one respect and changed in another.
func (r *Recorder) recordEntry(e Entry) {
	r.accounted[e.Path] = true
	r.appendEntry(e)
}

// appendEntry adds an entry that does not settle its path.
func (r *Recorder) appendEntry(e Entry) {
	if !slices.Contains(r.entries, e) {
		r.entries = append(r.entries, e)
	}
}

// Entries returns the entries in the order of their paths. Call it after [Recorder.ReportUnread].
func (r *Recorder) Entries() []Entry {
	out := slices.Clone(r.entries)
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Errors returns the errors of the manifest in the order in which they were found.
func (r *Recorder) Errors() field.ErrorList { return r.errors }

// AddError adds an error of the manifest.
func (r *Recorder) AddError(err *field.Error) { r.errors = append(r.errors, err) }

// ReportAllUnread calls [Recorder.ReportUnread] for the manifest and for all objects of
// [Recorder.AddRoot].
func (r *Recorder) ReportAllUnread(root Field) {
	r.ReportUnread(root)
	for _, extra := range r.extraRoots {
		r.ReportUnread(extra)
	}
}

// ReportUnread records each value below f that has no outcome as dropped. It ignores empty values
// of fields that a reader accessed, because the reader knows these fields.
func (r *Recorder) ReportUnread(f Field) {
	if !f.Exists() || r.accounted[f.Path()] {
		return
	}
	children := f.presentChildren()
	for _, child := range children {
		r.ReportUnread(child)
	}
	if f.isEmpty() && r.readPaths[f.Path()] || len(children) > 0 {
		return
	}
	r.recordEntry(Entry{
		Path: f.Path(), Outcome: Dropped,
		Reason: "this release does not know the field", Action: "check if a Job or a StatefulSet has an equivalent field",
	})
}

// Decode decodes the value into a Kubernetes type and reports whether it could. Fields that the
// type does not have are recorded as dropped. Values of the wrong type are errors of the manifest.
func (f Field) Decode(to any) bool {
	f.markRead()
	if !f.Exists() {
		return false
	}
	text, err := json.Marshal(f.value)
	if err != nil {
		f.MarkInvalid(err.Error())
		return false
	}
	unknown, err := typeerror.Decode(text, to)
	if err != nil {
		f.reportTypeErrors(text, err)
		return false
	}
	for _, name := range unknown { // the API server prunes the fields
		if f.path != "" && !strings.HasPrefix(name, "[") {
			name = "." + name
		}
		f.recorder.recordEntry(Entry{
			Path: f.Path() + name, Outcome: Changed,
			Reason: "left out: the API does not have this field, so the API server dropped it",
		})
	}
	return true
}

// reportTypeErrors adds an error for each value that does not fit the type, by the error of [typeerror.Decode].
func (f Field) reportTypeErrors(raw []byte, err error) {
	found := typeerror.Explain(raw, err)
	if len(found) == 0 {
		reason := text.JoinLines(strings.TrimPrefix(err.Error(), "json: "))
		f.MarkInvalid("cannot be decoded: " + text.Shorten(reason, 80+len("…")))
	}
	for _, mismatch := range found {
		detail := mismatch.Message
		if mismatch.Fix != "" {
			detail += "; " + mismatch.Fix
		}
		f.recorder.AddError(field.Invalid(field.NewPath(strings.TrimPrefix(f.Path()+"."+mismatch.Path, ".")),
			field.OmitValueType{}, detail))
	}
}

// ErrNoGang is wrapped by errors about workloads that are not gangs. They pass through.
var ErrNoGang = errors.New("not a gang")

// ErrUnsupported is wrapped by errors about kinds and versions that cannot be migrated.
var ErrUnsupported = errors.New("not supported by this release")

// Object is a custom resource to be migrated.
type Object struct {
	// Group, Version and Kind are those of its apiVersion and kind.
	Group, Version, Kind string
	// Root is the manifest. Its Recorder holds the outcomes.
	Root Field
	// Context is what the reader knows in addition to the manifest.
	Context Context
}

// Context is what a reader knows in addition to the manifest. Its zero value is valid and knows
// nothing.
type Context struct {
	// FindRuntime returns a TrainingRuntime or a ClusterTrainingRuntime as decoded JSON, or nil
	// if it does not exist. The namespace is empty for a ClusterTrainingRuntime.
	FindRuntime func(kind, namespace, name string) map[string]any
	// Scheduler is the gang scheduler of the cluster. The former operators had a flag for it.
	Scheduler Scheduler
	// Framework is the framework that the user chose for jobs that do not name one. Readers
	// detect the framework if it is empty.
	Framework string
	// Frameworks are the frameworks that Rollcall supports.
	Frameworks gang.Frameworks
	// Inject returns what the engine of the webhook injects into a workload with Rollcall's label. Nil
	// means nothing.
	Inject func(gang.Workload) Injection
	// NameSuffix is the end of the name of the object that the migration appended.
	NameSuffix string
	// JobsOnly is true if the user wants no StatefulSets.
	JobsOnly bool
	// ConfigMapTexts are the contents of the ConfigMaps of the input that the object names.
	ConfigMapTexts []string
}

// Injection is what Rollcall injects into a workload. The zero value is that of a workload that the webhook
// rejects.
type Injection struct {
	// RequiredVars are the variables of the training containers that must not have another value.
	RequiredVars []corev1.EnvVar
	// TrainingContainers are the names of the containers that get the variables.
	TrainingContainers []string
	// Settings are the annotations for settings that variables of the user contain, such as a port.
	Settings map[string]string
	// Conflicts are the variables of the user, as container/name, that differ from those of Rollcall, or
	// whose value is not known before the pod runs.
	Conflicts map[string]bool
}

// FindRequired returns the required variable of the given name.
func (i Injection) FindRequired(name string) (corev1.EnvVar, bool) {
	at := slices.IndexFunc(i.RequiredVars, func(e corev1.EnvVar) bool { return e.Name == name })
	if at < 0 {
		return corev1.EnvVar{}, false
	}
	return i.RequiredVars[at], true
}

// Scheduler is a scheduler that places all pods of a gang together.
type Scheduler string

// The gang schedulers. The zero value means that the cluster has no gang scheduler.
const (
	SchedulerVolcano      = Scheduler(gang.SchedulerVolcano)
	SchedulerCoscheduling = Scheduler(gang.SchedulerCoscheduling)
)

// Name returns metadata.name, or "" if it is absent.
func (o Object) Name() string { return o.Root.At("metadata", "name").String() }

// Namespace returns metadata.namespace, or "" if it is absent.
func (o Object) Namespace() string { return o.Root.At("metadata", "namespace").String() }

// jobKinds are the API groups of other systems, with the kinds of their training jobs that migrate converts and their
// versions, the oldest first.
var jobKinds = map[string]struct{ kinds, versions []string }{
	"kubeflow.org": {
		kinds: []string{"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"}, versions: []string{"v1"},
	},
	"trainer.kubeflow.org": {kinds: []string{"TrainJob"}, versions: []string{"v1alpha1"}},
	"jobset.x-k8s.io":      {kinds: []string{"JobSet"}, versions: []string{"v1alpha2"}},
	"batch.volcano.sh":     {kinds: []string{"Job"}, versions: []string{"v1alpha1", "v1"}},
}

// CheckVersion returns an error that wraps [ErrUnsupported] unless migrate converts the kind and the version of the
// object.
func (o Object) CheckVersion() error {
	versions := jobKinds[o.Group].versions
	if o.Kind == "MPIJob" {
		versions = []string{"v1", "v2beta1"}
	}
	switch {
	case !IsJobKind(o.Group, o.Kind):
		return fmt.Errorf("kind %s of %s: %w; the supported kinds are %s",
			o.Kind, o.Group, ErrUnsupported, strings.Join(JobKinds(o.Group), ", "))
	case !slices.Contains(versions, o.Version):
		return fmt.Errorf("%s/%s of %s: %w; the oldest supported version is %s, so convert the manifest to %s first",
			o.Group, o.Version, o.Kind, ErrUnsupported, versions[0], strings.Join(versions, " or "))
	}
	return nil
}

// JobKinds returns the kinds of an API group that migrate converts; nil for other groups.
func JobKinds(group string) []string { return jobKinds[group].kinds }

// IsJobKind reports whether migrate converts a kind.
func IsJobKind(group, kind string) bool { return slices.Contains(jobKinds[group].kinds, kind) }
