package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
	"rollcall.training/internal/text"
)

// Observed is a fact, or the reason why it could not be read.
type Observed[T any] struct {
	// Value is the fact. It is the zero value if the object does not exist.
	Value T
	// Err is the reason why the fact could not be read, or nil. It is never NotFound.
	Err error
	// Grant is the permission that reads the fact, such as "list pods in the namespace a".
	Grant string
}

// explainUnknown returns the result of a check whose facts could not be read.
func (o Observed[T]) explainUnknown(code Code, what string) Result {
	switch {
	case apierrors.IsForbidden(o.Err):
		return newProblem(code, Unknown, what+": the user must not read it", "grant the permission to "+o.Grant)
	case errors.Is(o.Err, context.DeadlineExceeded) || apierrors.IsTimeout(o.Err):
		return newProblem(code, Unknown, what+": no answer in time", "set a longer --timeout")
	}
	return newProblem(code, Unknown, fmt.Sprintf("%s: %s", what, shortenError(o.Err)), "")
}

// shortenError returns the text of an error in one line.
func shortenError(err error) string {
	return gang.ShortenText(text.JoinLines(err.Error()))
}

// Facts are what [Judge] judges.
type Facts struct {
	// Time is the current time.
	Time time.Time
	// CommandVersion is the version of the program that checks.
	CommandVersion string
	// ServerVersion is the version of the API server, such as v1.37.0.
	ServerVersion Observed[string]
	// AdmissionKinds are the kinds of admissionregistration.k8s.io/v1.
	AdmissionKinds Observed[[]string]
	// Releases are the installations that were found.
	Releases Observed[[]Release]
	// ReleaseNamespace is the namespace in which the caller expects the release; empty for all namespaces.
	ReleaseNamespace string
	// OnlyPrerequisites is true if the caller did not ask for the checks of an installation.
	OnlyPrerequisites bool
	// InstallPermissions are the answers for the permissions that the installation needs. They are only
	// read without an installation.
	InstallPermissions Observed[[]Answer]
	// Installation is nil if there is none, or if there are several. It has no name if the user must not
	// read the releases.
	Installation *Installation
	// MutatingConfigurations and ValidatingConfigurations are all webhook configurations of the cluster.
	MutatingConfigurations   Observed[[]admissionv1.MutatingWebhookConfiguration]
	ValidatingConfigurations Observed[[]admissionv1.ValidatingWebhookConfiguration]
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
	// Service is the Service of the webhooks, with its endpoints. It is not read if the webhooks have a URL.
	Service   Observed[*corev1.Service]
	Endpoints Observed[Endpoints]
	// Bundles are the CA bundles by the name of the webhook.
	Bundles map[string]Bundle
	// Secret contains the certificates of a Secret: the certificate authority if the webhook manages its
	// certificates, otherwise the serving certificate.
	Secret Observed[[]*x509.Certificate]
	// Served are the certificates of the webhook's port. They are only read in the cluster.
	Served *Observed[[]*x509.Certificate]
	// Admission are the answers to dry runs.
	Admission Admission
	// Lease is the Lease of the leader. LeaseRenewed is true if it was renewed while the reader waited.
	Lease        Observed[*coordinationv1.Lease]
	LeaseRenewed bool
	// Permissions are the answers for the permissions of the controller.
	Permissions Observed[[]Answer]
	// Policy is the policy for gangs, nil if the chart has none.
	Policy *PolicyFacts
}

// Component is the Deployment of the webhook or of the controller, with its pods.
type Component struct {
	// Name is webhook or controller.
	Name       string
	Deployment Observed[*appsv1.Deployment]
	Pods       Observed[[]corev1.Pod]
}

// Endpoints are the numbers of endpoints of a Service.
type Endpoints struct{ Ready, NotReady int }

// Bundle is the CA bundle of a webhook.
type Bundle struct {
	// Size is the number of bytes.
	Size int
	// Certificates are the certificates of the bundle.
	Certificates []*x509.Certificate
	// Err is the reason why the bundle could not be parsed.
	Err error
}

// Answer is the answer of the API server to the question whether a permission is granted.
type Answer struct {
	Permission Permission
	Namespace  string // empty for all namespaces
	Allowed    bool
}

// Admission are the answers to the dry runs of two Jobs.
type Admission struct {
	// Namespace is the namespace of the Jobs. It is empty if no namespace could be chosen.
	Namespace string
	// Selection explains the choice of the namespace.
	Selection Selection
	// Job is the labeled Job as the API server returned it, or the error.
	Job Observed[*batchv1.Job]
	// Denial is the error of the invalid Job. Its value is true if the Job was admitted.
	Denial Observed[bool]
}

// PolicyFacts are the policy of the cluster and the last valid policy.
type PolicyFacts struct {
	// ConfigMap is the name of the ConfigMap.
	ConfigMap string
	// Ceiling is the strictest mode.
	Ceiling string
	// Current is the policy in the ConfigMap, and Accepted the policy that the leader recorded.
	Current, Accepted Observed[PolicyFile]
}

// PolicyFile is the policy in a ConfigMap.
type PolicyFile struct {
	// Digest is the digest of a valid policy. It is empty if there is none.
	Digest string
	// Rules is the number of the enabled limits and rules.
	Rules int
	// Mistake describes why there is no valid policy.
	Mistake string
}

// findContainer returns the container of a component. It is nil if there is no Deployment.
func (c Component) findContainer() *corev1.Container {
	if c.Deployment.Value == nil {
		return nil
	}
	containers := c.Deployment.Value.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(container corev1.Container) bool { return container.Name == c.Name })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// Flag returns the value of a flag of a component. The last value is in force. It returns false if the
// flag is not set. A flag without a value is "true".
func (c Component) Flag(name string) (string, bool) {
	container := c.findContainer()
	if container == nil {
		return "", false
	}
	for _, arg := range slices.Backward(container.Args) {
		flag, value, hasValue := strings.Cut(arg, "=")
		if flag != "--"+name {
			continue
		}
		if !hasValue {
			value = "true"
		}
		return value, true
	}
	return "", false
}

// replicas returns the desired number of pods.
func (c Component) replicas() int32 {
	if c.Deployment.Value == nil || c.Deployment.Value.Spec.Replicas == nil {
		return 1
	}
	return *c.Deployment.Value.Spec.Replicas
}

// managesCertificates reports whether the webhook creates its certificates.
func (i *Installation) managesCertificates() bool {
	_, external := i.Webhook.Flag("certificate-dir")
	return !external
}
