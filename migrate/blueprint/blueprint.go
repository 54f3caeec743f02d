package blueprint

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/migrate/ledger"
)

// Blueprint is a gang as its former system described it.
type Blueprint struct {
	// Name is the gang's name, and that of its workload when it has one alone.
	Name string
	// Namespace is the one that the manifest named; empty when it named none.
	Namespace string
	// Node is the manifest's root; the account of what concerns the whole gang is entered
	// below it.
	Node ledger.Node
	// Labels and Annotations are the user's, for each workload.
	Labels, Annotations map[string]string
	// Framework is the value of the label rollcall.training/framework.
	Framework string
	// Keys are annotations of Rollcall's that each workload bears, by their full names.
	Keys map[string]string
	// Roles are the gang's parts in the order of their ranks. Without any there is no
	// gang, and Extras are all that is built.
	Roles []Role
	// OneKind is true when all roles do the same work, so that one workload can stand
	// for them where their templates are equal.
	OneKind bool
	// Decides is the role whose end was the end of the job; empty when all had to end.
	Decides string
	// Job holds what each Job of the gang gets beside its size and its template, such as
	// a deadline. StatefulSets have no such fields.
	Job batchv1.JobSpec
	// TimeToLive is where the manifest says how long the whole lives after its end; the
	// value is in Job. See [Blueprint.Build].
	TimeToLive ledger.Node
	// Alone tells the role that a framework gives to a workload alone; nil knows of none.
	Alone func(framework string) string
	// Marks are the labels and annotations that the former system gave to the pods, by
	// which they were selected.
	Marks map[string]Mark
	// Moved are Jobs outside of the gang that have another name now, by their former ones.
	Moved map[string]string
	// Texts are further texts in which the pods' former names may stand, such as
	// scripts in ConfigMaps of the same manifest.
	Texts []string
	// Aliases says which former names get a Service.
	Aliases Aliases
	// Extras are objects that go with the gang, such as an autoscaler; they are built
	// from the names of the workloads, by role.
	Extras []func(workload func(role string) Place) runtime.Object
}

// Place is where a role went.
type Place struct {
	// Kind is Job or StatefulSet.
	Kind string
	// Name is the workload's.
	Name string
}

// Role is one part of a gang.
type Role struct {
	// Name is the framework's word for the part, a value of rollcall.training/role.
	Name string
	// Pods is the number of pods, at least 1.
	Pods int32
	// Template is the pods', as their former system would have made them.
	Template corev1.PodTemplateSpec
	// Node is where the manifest describes the role; the account of its template is
	// entered there.
	Node ledger.Node
	// Keys are annotations of Rollcall's for this workload alone, by their full names.
	Keys map[string]string
	// Labels and Annotations are the user's for this workload alone.
	Labels, Annotations map[string]string
	// Job takes the place of [Blueprint.Job] for the role's Job; nil means that one.
	Job *batchv1.JobSpec
	// Set is true for a StatefulSet, where the role never ends by itself and nothing is
	// asked of it that only a Job can do.
	Set bool
	// OnlyJob says what is asked of the role that only a Job can do, for a sentence that
	// goes on with it; empty when nothing is, as far as the reader knows.
	OnlyJob string
	// PodFailurePolicy is for the role's Job; nil when there is none.
	PodFailurePolicy *batchv1.PodFailurePolicy
	// Claims are the volume claim templates of a StatefulSet.
	Claims []corev1.PersistentVolumeClaim
	// Former tells how the pods were known.
	Former Former
}

// Aliases says which former names get a Service of their own.
type Aliases string

// The choices of [Aliases].
const (
	// AliasesUsed makes a Service for each name that stands in a text of the manifest.
	// It is the zero value's meaning too.
	AliasesUsed Aliases = "used"
	// AliasesAll makes one for each pod.
	AliasesAll Aliases = "all"
	// AliasesNone makes none.
	AliasesNone Aliases = "none"
)
