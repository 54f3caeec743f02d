package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

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

// Adopt adds the settings to annotations that do not have them.
func (i Injection) Adopt(annotations map[string]string) {
	for key, value := range i.Settings {
		if annotations[key] == "" {
			annotations[key] = value
		}
	}
}

// Scheduler is a scheduler that places all pods of a gang together.
type Scheduler string

// The gang schedulers. The zero value means that the cluster has no gang scheduler.
const (
	SchedulerVolcano      Scheduler = "volcano"
	SchedulerCoscheduling Scheduler = "coscheduling"
)

// Name returns metadata.name, or "" if it is absent.
func (o Object) Name() string { return o.Root.At("metadata", "name").String() }

// Namespace returns metadata.namespace, or "" if it is absent.
func (o Object) Namespace() string { return o.Root.At("metadata", "namespace").String() }

// jobKinds are the API groups of other systems, and the kinds of their training jobs that migrate converts.
var jobKinds = map[string][]string{
	"kubeflow.org":         {"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"},
	"trainer.kubeflow.org": {"TrainJob"},
	"jobset.x-k8s.io":      {"JobSet"},
	"batch.volcano.sh":     {"Job"},
}

// CheckVersion returns an error that wraps [ErrUnsupported] unless migrate converts the kind and the version of the
// object.
func (o Object) CheckVersion() error {
	versions := map[string][]string{
		"kubeflow.org": {"v1"}, "trainer.kubeflow.org": {"v1alpha1"}, "jobset.x-k8s.io": {"v1alpha2"},
		"batch.volcano.sh": {"v1alpha1", "v1"},
	}[o.Group]
	if o.Kind == "MPIJob" {
		versions = append(versions, "v2beta1")
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
func JobKinds(group string) []string { return jobKinds[group] }

// IsJobKind reports whether migrate converts a kind.
func IsJobKind(group, kind string) bool { return slices.Contains(jobKinds[group], kind) }
