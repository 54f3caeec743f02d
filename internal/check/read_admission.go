package check

import (
	"cmp"
	"context"
	_ "embed" // for the sample
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// tryAdmission creates a valid and an invalid Job as dry runs, in a namespace that Rollcall manages.
func (r Reader) tryAdmission(ctx context.Context, i *Installation) Admission {
	var a Admission
	a.Namespace, a.Selected = r.selectNamespace(ctx, i)
	if a.isExcluded() {
		return a
	}
	name := "rollcall-check-" + utilrand.String(5)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	jobs := r.Client.BatchV1().Jobs(a.Namespace)
	job, err := jobs.Create(ctx, newSampleJob(name, 2), options)
	a.Job = Observed[*batchv1.Job]{Value: job, Err: err}
	_, err = jobs.Create(ctx, newSampleJob(name, 3), options)
	a.Denial = Observed[bool]{Value: err == nil, Err: err}
	return a
}

// selectNamespace returns the namespace of the dry runs. Without the permission to list namespaces, it is the
// namespace of the user.
func (r Reader) selectNamespace(ctx context.Context, i *Installation) (string, Observed[bool]) {
	preferred := cmp.Or(r.PreferredNamespace, metav1.NamespaceDefault)
	list, err := r.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return cmp.Or(r.Namespace, preferred), Observed[bool]{Err: err}
	}
	name, ok := chooseNamespace(list.Items, i.namespaceSelector(), r.Namespace, preferred, metav1.NamespaceDefault)
	return name, Observed[bool]{Value: ok}
}

// chooseNamespace returns the namespace of the dry runs, and whether Rollcall manages it. required is the namespace
// that the user chose, or empty. preferred are tried before all other namespaces.
func chooseNamespace(
	namespaces []corev1.Namespace, selector labels.Selector, required string, preferred ...string,
) (string, bool) {
	selected := map[string]bool{}
	for _, n := range namespaces {
		if n.DeletionTimestamp == nil {
			selected[n.Name] = selector.Matches(labels.Set(n.Labels))
			preferred = append(preferred, n.Name)
		}
	}
	if required != "" {
		return required, selected[required]
	}
	slices.Sort(preferred[len(preferred)-len(selected):])
	for _, name := range preferred {
		if selected[name] {
			return name, true
		}
	}
	return "", false
}

// namespaceSelector returns the selector of the namespaces that Rollcall manages: that of the mutating
// webhook, or of the validating webhook, or everything but the namespaces that are always excluded.
func (i *Installation) namespaceSelector() labels.Selector {
	for _, name := range []string{injectWebhook, validateWebhook} {
		if selector := i.findWebhook(name).namespaceSelector; selector != nil {
			if out, err := metav1.LabelSelectorAsSelector(selector); err == nil {
				return out
			}
			return labels.Nothing() // the API server rejects such a selector
		}
	}
	excluded, err := labels.Parse(corev1.LabelMetadataName + " notin (" + metav1.NamespaceSystem + "," + i.Namespace + ")")
	if err != nil {
		return labels.Nothing()
	}
	return excluded
}

// invalidField is the field that the denial of the invalid Job names.
const invalidField = "spec.completions"

//go:embed sample.yaml
var sampleJob []byte

// newSampleJob returns a suspended Job of a gang of two ranks. A number of completions other than two makes it
// invalid for Rollcall, but not for Kubernetes.
func newSampleJob(name string, completions int32) *batchv1.Job {
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(sampleJob, &job); err != nil {
		panic(err) // the file is part of the program
	}
	job.Name, job.Spec.Completions = name, ptr.To(completions)
	return &job
}
