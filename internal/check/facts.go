package check

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// Observed is a fact, or the reason why it could not be read.
type Observed[T any] struct {
	// Value is the fact. It is the zero value if the object does not exist.
	Value T
	// Err is the reason why the fact could not be read, or nil. It is never NotFound.
	Err error
}

// Facts are what [Judge] judges.
type Facts struct {
	// Time is the current time.
	Time time.Time
	// CommandVersion is the version of the program that checks.
	CommandVersion string
	// ServerVersion is the version of the API server, such as v1.37.0.
	ServerVersion Observed[string]
	// ServesPolicies is true if the API server serves MutatingAdmissionPolicy v1, which can set ranks.
	ServesPolicies Observed[bool]
	// Releases are the installations that were found.
	Releases Observed[[]Release]
	// ReleaseNamespace is the namespace in which the caller expects the release; empty for all namespaces.
	ReleaseNamespace string
	// OnlyPrerequisites is true if the caller did not ask for the checks of an installation.
	OnlyPrerequisites bool
	// MissingPermissions are the permissions to install that the user does not have. They are only read without an
	// installation.
	MissingPermissions Observed[[]string]
	// Installation is nil if there is none, or if there are several. It has no name if the user must not
	// read the releases.
	Installation *Installation
	// ChartObjects are the cluster-scoped objects of the chart by their kind, of all releases.
	ChartObjects map[string]Observed[[]ChartObject]
	// Workloads are the labeled Jobs and StatefulSets of the cluster.
	Workloads Observed[[]gang.Workload]
}

// Release identifies an installation.
type Release struct{ Name, Namespace string }

// String returns namespace/name.
func (r Release) String() string { return r.Namespace + "/" + r.Name }

// ChartObject is an object of a release.
type ChartObject struct{ Name, Release string }

// Installation are the parts of one release. A part is nil if it does not exist.
type Installation struct {
	Release
	// Webhook and Controller are the components.
	Webhook, Controller Component
	// Mutating and Validating are the webhook configurations.
	Mutating   Observed[*admissionv1.MutatingWebhookConfiguration]
	Validating Observed[*admissionv1.ValidatingWebhookConfiguration]
	// Service is the Service of the webhooks, with its number of ready endpoints. It is not read if the webhooks
	// have a URL.
	Service        Observed[*corev1.Service]
	ReadyEndpoints Observed[int]
	// Secret contains the certificates of a Secret: the certificate authority if the webhook manages its
	// certificates, otherwise the serving certificate.
	Secret Observed[[]*x509.Certificate]
	// Admission are the answers to dry runs.
	Admission Admission
	// Lease is the Lease of the leader. LeaseRenewed is true if it was renewed while the reader waited.
	Lease        Observed[*coordinationv1.Lease]
	LeaseRenewed bool
	// Permissions are the permissions of the controller. It is nil if its Deployment is not known.
	Permissions Observed[*Permissions]
	// Policy is the policy for gangs, nil if the chart has none.
	Policy Observed[*PolicyFacts]
}

// Component is the Deployment of the webhook or of the controller.
type Component struct {
	Observed[*appsv1.Deployment]
	// Name is webhook or controller.
	Name string
}

// Permissions describe the permissions that a component does not have.
type Permissions struct {
	// Missing are the permissions without which gangs do not work.
	Missing []string
	// Dropped are the features that do not work, which a value of the chart can drop.
	Dropped []string
}

// Admission are the answers to the dry runs of two Jobs.
type Admission struct {
	// Namespace is the namespace of the Jobs. It is empty if Rollcall manages no namespace.
	Namespace string
	// Selected is true if Rollcall manages the namespace, which may not exist otherwise. There are no answers if it is
	// false.
	Selected Observed[bool]
	// Job is the labeled Job as the API server returned it, or the error.
	Job Observed[*batchv1.Job]
	// Denial is the error of the invalid Job. Its value is true if the Job was admitted.
	Denial Observed[bool]
}

// isExcluded reports whether Rollcall does not manage the namespace.
func (a Admission) isExcluded() bool { return a.Selected.Err == nil && !a.Selected.Value }

// isInjected reports whether the dry run proved that a Job is injected.
func (a Admission) isInjected() bool {
	return a.Job.Err == nil && a.Job.Value != nil && a.Job.Value.Annotations[gang.AnnotationInjected] != ""
}

// PolicyFacts describe the policy in a ConfigMap.
type PolicyFacts struct {
	// ConfigMap is the name of the ConfigMap.
	ConfigMap string
	// Rules is the number of the enabled limits and rules.
	Rules int
	// Mistake describes why there is no valid policy. It is empty for a valid policy.
	Mistake string
}

// findContainer returns the container of a component. Without a Deployment, the container is empty.
func (c Component) findContainer() *corev1.Container {
	if d := c.Value; d != nil {
		for i := range d.Spec.Template.Spec.Containers {
			if d.Spec.Template.Spec.Containers[i].Name == c.Name {
				return &d.Spec.Template.Spec.Containers[i]
			}
		}
	}
	return &corev1.Container{}
}

// Flag returns the value of a flag of a component. The last value is in force. It returns false if the
// flag is not set. A flag without a value is "true".
func (c Component) Flag(name string) (string, bool) {
	for _, arg := range slices.Backward(c.findContainer().Args) {
		flag, value, hasValue := strings.Cut(arg, "=")
		switch {
		case flag != "--"+name:
		case !hasValue:
			return "true", true
		default:
			return value, true
		}
	}
	return "", false
}

// replicas returns the desired number of pods.
func (c Component) replicas() int32 {
	if c.Value == nil || c.Value.Spec.Replicas == nil {
		return 1
	}
	return *c.Value.Spec.Replicas
}

// managesCertificates reports whether the webhook creates its certificates.
func (i *Installation) managesCertificates() bool {
	_, external := i.Webhook.Flag("certificate-dir")
	return !external
}

// isStale reports whether the Lease has expired by the clock of this machine.
func (i *Installation) isStale(now time.Time) bool {
	spec := i.Lease.Value.Spec
	seconds := int32(15)
	if spec.LeaseDurationSeconds != nil {
		seconds = *spec.LeaseDurationSeconds
	}
	return spec.RenewTime == nil || now.Sub(spec.RenewTime.Time) > time.Duration(seconds)*time.Second
}
