package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/roster/cluster"
)

// Reader observes an installation. It only reads, and creates Jobs as dry runs.
type Reader struct {
	// Client and Metadata are connections to the API server.
	Client   kubernetes.Interface
	Metadata metadata.Interface
	// Frameworks are those that the policy can name.
	Frameworks gang.Frameworks
	// Version is the version of the program that checks.
	Version string
	// ReleaseNamespace is the namespace of the installation. Empty means that the reader finds it.
	ReleaseNamespace string
	// Namespace is the namespace of the dry runs. Empty means a namespace that Rollcall manages, if possible
	// PreferredNamespace.
	Namespace, PreferredNamespace string
	// OnlyPrerequisites omits the checks of an installation.
	OnlyPrerequisites bool
	// Clock provides the current time.
	Clock clock.Clock
}

// NewReader returns a reader for a cluster, with the version of this program. It changes the configuration.
func NewReader(config *rest.Config) (Reader, error) {
	config.QPS = -1                           // the API server has priority and fairness
	config.WarningHandler = rest.NoWarnings{} // the results contain what the webhook warns about
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Reader{}, fmt.Errorf("creating a client of the cluster: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return Reader{}, fmt.Errorf("creating a client of the cluster: %w", err)
	}
	return Reader{
		Client:     client,
		Metadata:   metadataClient,
		Frameworks: injectors.NewEngine(injectors.Builtin(), gang.Config{}).Frameworks(),
		Version:    buildinfo.Version(),
		Clock:      clock.RealClock{},
	}, nil
}

// defaultReleaseNamespace is the namespace for which the permissions to install are checked.
const defaultReleaseNamespace = "rollcall-system"

// Read observes the facts until ctx is done. Facts that cannot be read contain the reason. The error means
// that the API server does not answer.
func (r Reader) Read(ctx context.Context) (Facts, error) {
	f := Facts{
		Time: r.Clock.Now(), CommandVersion: r.Version,
		ReleaseNamespace: r.ReleaseNamespace, OnlyPrerequisites: r.OnlyPrerequisites,
	}
	version, err := r.Client.Discovery().ServerVersionWithContext(ctx)
	switch {
	case err == nil:
		f.ServerVersion.Value = version.GitVersion
	case apierrors.IsForbidden(err):
		f.ServerVersion.Err = err
	default:
		return f, fmt.Errorf("requesting the version of the API server: %w", err)
	}
	f.ServesPolicies = r.readServesPolicies(ctx)
	deployments := r.listDeployments(ctx)
	f.Releases = Observed[[]Release]{Value: listReleases(deployments.Value), Err: deployments.Err}
	f.ChartObjects = r.readChartObjects(ctx)
	switch releases := f.Releases; {
	case r.OnlyPrerequisites || releases.Err == nil && len(releases.Value) == 0:
		f.MissingPermissions = r.readMissingPermissions(ctx, f)
	case releases.Err == nil && len(releases.Value) > 1: // Judge asks the user to choose
	default:
		workloads, err := cluster.ListWorkloads(ctx, r.Client, metav1.NamespaceAll)
		f.Workloads = observe(workloads, err)
		i := r.readInstallation(ctx, f, deployments)
		f.Installation = &i
	}
	return f, nil
}

// observe returns the result of a request. An object that does not exist is the zero value.
func observe[T any](value T, err error) Observed[T] {
	if err != nil {
		var zero T
		value = zero
		if apierrors.IsNotFound(err) {
			err = nil
		}
	}
	return Observed[T]{Value: value, Err: err}
}

// readServesPolicies returns whether the API server serves MutatingAdmissionPolicy v1.
func (r Reader) readServesPolicies(ctx context.Context) Observed[bool] {
	version := admissionv1.SchemeGroupVersion.String()
	list, err := r.Client.Discovery().ServerResourcesForGroupVersionWithContext(ctx, version)
	isPolicy := func(resource metav1.APIResource) bool { return resource.Kind == kindMutatingPolicy }
	return observe(err == nil && slices.ContainsFunc(list.APIResources, isPolicy), err)
}

// readChartObjects returns the cluster-scoped objects with the label of the chart.
func (r Reader) readChartObjects(ctx context.Context) map[string]Observed[[]ChartObject] {
	out := map[string]Observed[[]ChartObject]{}
	for name, version := range map[string]schema.GroupVersion{
		"MutatingWebhookConfiguration":     admissionv1.SchemeGroupVersion,
		"ValidatingWebhookConfiguration":   admissionv1.SchemeGroupVersion,
		"ValidatingAdmissionPolicy":        admissionv1.SchemeGroupVersion,
		"ValidatingAdmissionPolicyBinding": admissionv1.SchemeGroupVersion,
		kindMutatingPolicy:                 admissionv1.SchemeGroupVersion,
		kindMutatingBinding:                admissionv1.SchemeGroupVersion,
		"ClusterRole":                      rbacv1.SchemeGroupVersion,
		"ClusterRoleBinding":               rbacv1.SchemeGroupVersion,
	} {
		resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(name))
		list, err := r.Metadata.Resource(resource).
			List(ctx, metav1.ListOptions{LabelSelector: labelChart + "," + labelInstance})
		var objects []ChartObject
		if err == nil {
			for _, o := range list.Items {
				if isOfChart(&o) {
					objects = append(objects, ChartObject{Name: o.Name, Release: o.Labels[labelInstance]})
				}
			}
		}
		out[name] = observe(objects, err)
	}
	return out
}

// isOfChart reports whether an object is part of a release of the chart.
func isOfChart(o metav1.Object) bool {
	return strings.HasPrefix(o.GetLabels()[labelChart], "rollcall-") && o.GetLabels()[labelInstance] != ""
}
