package check

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// tryAdmission creates a valid and an invalid Job as dry runs, in a namespace that Rollcall manages.
func (r Reader) tryAdmission(ctx context.Context, i *Installation) Admission {
	var a Admission
	a.Namespace, a.Selection = r.selectNamespace(ctx, i)
	switch a.Selection {
	case NothingSelected, NotSelected, NamespaceMissing:
		return a
	}
	grant := "create jobs.batch in the namespace " + a.Namespace
	name := "rollcall-check-" + utilrand.String(5)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	jobs := r.Client.BatchV1().Jobs(a.Namespace)
	job, err := jobs.Create(ctx, newSampleJob(name, 2), options)
	a.Job = Observed[*batchv1.Job]{Value: job, Err: err, Grant: grant}
	_, err = jobs.Create(ctx, newSampleJob(name, 3), options)
	a.Denial = Observed[bool]{Value: err == nil, Err: err, Grant: grant}
	return a
}

// selectNamespace returns the namespace of the dry runs. Without the permission to list namespaces, it is the
// namespace of the user, or a preferred namespace that Rollcall manages.
func (r Reader) selectNamespace(ctx context.Context, i *Installation) (string, Selection) {
	selector := i.namespaceSelector()
	preferred := []string{r.PreferredNamespace, metav1.NamespaceDefault}
	list, err := r.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err == nil {
		return chooseNamespace(list.Items, selector, r.Namespace, preferred...)
	}
	if r.Namespace != "" {
		preferred = []string{r.Namespace}
	}
	var readable []corev1.Namespace
	for _, name := range preferred {
		namespace, err := r.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || name == "":
		case err != nil:
			return name, SelectionUnknown
		default:
			readable = append(readable, *namespace)
		}
	}
	return chooseNamespace(readable, selector, r.Namespace, preferred...)
}
