package integration

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
)

// updateCase is an update of a workload that is older than the rendered policies.
type updateCase struct {
	name   string // of the case
	job    *batchv1.Job
	patch  string
	denied string
}

// resourceName returns the name of the workload of a case.
func (c updateCase) resourceName() string {
	return strings.ReplaceAll(strings.ToLower(c.name), " ", "-")
}

const (
	growPatch     = `{"spec":{"parallelism":3}}`
	metadataPatch = `{"metadata":{"annotations":{"a":"b"},"finalizers":["example.com/a"]}}`
)

// withOnePod reduces a Job to one pod at a time.
func withOnePod(j *batchv1.Job) {
	one, three := int32(1), int32(3)
	j.Spec.Parallelism, j.Spec.Completions = &one, &three
}

func withoutAccelerators(j *batchv1.Job) {
	j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
}

// createUpdateCases creates the Jobs of all cases before the policies exist.
func createUpdateCases(t *testing.T, client kubernetes.Interface) []updateCase {
	t.Helper()
	cases := []updateCase{
		{name: "a Job of one pod gets several", job: newUnlabeledJob(withOnePod), patch: growPatch, denied: jobPolicy},
		{
			name: "a Job of one pod gets several and the label", job: newUnlabeledJob(withOnePod), denied: jobPolicy,
			patch: `{"metadata":{"labels":{"` + gang.LabelFramework + `":"pytorch"}},"spec":{"parallelism":3}}`,
		},
		{
			name: "a gang loses the label", job: newUnlabeledJob(withLabels(gang.LabelFramework, "pytorch")),
			patch: `{"metadata":{"labels":{"` + gang.LabelFramework + `":null}}}`, denied: jobPolicy,
		},
		{name: "a Job of several pods gets a finalizer", job: newUnlabeledJob(), patch: metadataPatch},
		{name: "a Job of several pods gets more", job: newUnlabeledJob(), patch: growPatch},
		{
			name: "a Job without accelerators gets several pods", patch: growPatch,
			job: newUnlabeledJob(withOnePod, withoutAccelerators),
		},
		{name: "a gang gets several pods", job: newUnlabeledJob(withOnePod, withLabels(gang.LabelFramework, "pytorch")),
			patch: growPatch},
		{
			name: "a Job of another controller gets several pods", patch: growPatch,
			job: newUnlabeledJob(withOnePod, withController("kubeflow.org/v2beta1", "MPIJob")),
		},
	}
	for _, c := range cases {
		c.job.Name = c.resourceName()
		if _, err := client.BatchV1().Jobs("default").Create(t.Context(), c.job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return cases
}

// requireUpdateVerdicts sends updates, and compares which policy denies them.
func requireUpdateVerdicts(t *testing.T, client kubernetes.Interface, cases []updateCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requireVerdict(t, c.denied, func(ctx context.Context) error {
				_, err := client.BatchV1().Jobs("default").
					Patch(ctx, c.resourceName(), types.MergePatchType, []byte(c.patch), dryRunPatch)
				return err
			})
		})
	}
	t.Run("StatefulSets", func(t *testing.T) { requireStatefulSetUpdateVerdicts(t, client) })
}

// requireStatefulSetUpdateVerdicts updates StatefulSets that the policies permitted. Unlike that of a Job, the
// template of a StatefulSet can change.
func requireStatefulSetUpdateVerdicts(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	sets := client.AppsV1().StatefulSets("default")
	one, plain := newUnlabeledStatefulSet(1), newUnlabeledStatefulSet(2)
	plain.Name = "plain"
	plain.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	for _, set := range []*appsv1.StatefulSet{one, plain} {
		if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	requireVerdict(t, statefulSetPolicy, func(ctx context.Context) error {
		_, err := sets.Patch(ctx, one.Name, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), dryRunPatch)
		return err
	})
	requireVerdict(t, statefulSetPolicy, func(ctx context.Context) error {
		current, err := sets.Get(ctx, plain.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Spec.Template.Spec.Containers[0].Resources = newAcceleratorLimits("nvidia.com/gpu", "8")
		_, err = sets.Update(ctx, current, metav1.UpdateOptions{DryRun: dryRunPatch.DryRun})
		return err
	})
}
