package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// unlabeledPolicy enforces all that rollcall policy vap renders.
const unlabeledPolicy = `
apiVersion: policy.rollcall.training/v1alpha1
kind: GangPolicy
contact: "#gpu-admins"
unlabeled:
  multiPodGPU: {kinds: [Job, StatefulSet]}
  optOut: {}
  exceptNamespaces: [kube-system]
`

// Names of rendered policies, empty for a request that all of them permit.
const (
	noPolicy          = ""
	jobPolicy         = "rollcall-multi-pod-gpu-jobs"
	statefulSetPolicy = "rollcall-multi-pod-gpu-statefulsets"
	optOutPolicy      = "rollcall-opt-out"
)

// TestRenderedPolicies verifies what the rendered policies deny and permit. No process of Rollcall runs.
func TestRenderedPolicies(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	client := kubernetes.NewForConfigOrDie(c.Config())
	optedOut := createOptedOutJob(t, client)
	updates := createUpdateCases(t, client)
	requireSameInChart(t, c)
	applyRenderedPolicies(t, client)
	requireVerdicts(t, client)
	requireUpdateVerdicts(t, client, updates)
	t.Run("a controller updates a Job that opted out before", func(t *testing.T) {
		patch := []byte(`{"metadata":{"annotations":{"a":"b"},"finalizers":["example.com/a"]}}`)
		_, err := client.BatchV1().Jobs("default").Patch(t.Context(), optedOut, types.MergePatchType, patch, dryRunPatch)
		if err != nil {
			t.Error(err)
		}
	})
}

// requireSameInChart verifies that the chart renders the same policies from the same file, and that its ceiling
// limits them.
func requireSameInChart(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	render := func(ceiling policy.Mode) (specs map[string]any) {
		specs = map[string]any{}
		for _, o := range renderChart(t, c, "--values", writeUnlabeledValues(t, ceiling)) {
			switch o := o.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				specs["policy "+o.Name] = o.Spec
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				specs["binding "+o.Name] = o.Spec
			}
		}
		return specs
	}
	chart, audit, off := render(policy.ModeEnforce), render(policy.ModeAudit), render(policy.ModeOff)
	for _, rendered := range readUnlabeledPolicy(t).RenderUnlabeled(false) {
		name := rendered.Policy.Name
		limitToRelease(&rendered.Policy)
		if diff := cmp.Diff(any(rendered.Policy.Spec), chart["policy "+name]); diff != "" {
			t.Errorf("policy %s (-command with the limits of a release, +chart):\n%s", name, diff)
		}
		if diff := cmp.Diff(any(rendered.Binding.Spec), chart["binding "+name]); diff != "" {
			t.Errorf("binding %s (-command +chart):\n%s", name, diff)
		}
		binding, ok := audit["binding "+name].(admissionv1.ValidatingAdmissionPolicyBindingSpec)
		if !ok || !slices.Equal(binding.ValidationActions, []admissionv1.ValidationAction{admissionv1.Audit}) {
			t.Errorf("with the ceiling audit, the binding %s has the actions %v", name, binding.ValidationActions)
		}
		if _, ok := off["policy "+name]; ok {
			t.Errorf("with the ceiling off, the chart renders %s", name)
		}
	}
}

// limitToRelease adds what the chart knows and the command does not: the namespaces that Rollcall manages, and
// the account that detaches gangs.
func limitToRelease(p *admissionv1.ValidatingAdmissionPolicy) {
	selector := p.Spec.MatchConstraints.NamespaceSelector
	selector.MatchExpressions = append([]metav1.LabelSelectorRequirement{excludeSystemNamespaces()},
		selector.MatchExpressions...)
	if p.Name == optOutPolicy {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{
			Name:       "not-from-controller",
			Expression: "request.userInfo.username != '" + installation.ControllerUser + "'",
		})
	}
}

// writeUnlabeledValues writes the values of a chart with [unlabeledPolicy], and returns the path of the file.
func writeUnlabeledValues(t *testing.T, ceiling policy.Mode) string {
	t.Helper()
	var file map[string]any
	if err := yaml.Unmarshal([]byte(unlabeledPolicy), &file); err != nil {
		t.Fatal(err)
	}
	delete(file, "apiVersion")
	delete(file, "kind")
	values, err := yaml.Marshal(map[string]any{
		"policy": map[string]any{"enabled": true, "ceiling": ceiling, "file": file},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, values, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readUnlabeledPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	p, problems := policy.Read("policy.yaml", []byte(unlabeledPolicy), injectors.Builtin().Frameworks())
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

// createOptedOutJob creates a Job before the policies exist, and returns its name.
func createOptedOutJob(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	job := newUnlabeledJob(func(j *batchv1.Job) {
		j.Name = "old"
		j.Labels = map[string]string{gang.LabelFramework: "pytorch", gang.LabelInject: "false"}
	})
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return job.Name
}

// applyRenderedPolicies creates the policies, and waits until they are in force.
func applyRenderedPolicies(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	api := client.AdmissionregistrationV1()
	for _, rendered := range readUnlabeledPolicy(t).RenderUnlabeled(false) {
		created, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &rendered.Policy, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &rendered.Binding, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the type check of "+created.Name, func(ctx context.Context) error {
			current, err := api.ValidatingAdmissionPolicies().Get(ctx, created.Name, metav1.GetOptions{})
			if err != nil || current.Status.TypeChecking == nil {
				return errors.Join(err, errors.New("the expressions are not checked yet"))
			}
			for _, warning := range current.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", created.Name, warning.FieldRef, warning.Warning)
			}
			return nil
		})
	}
}

// newUnlabeledJob returns a Job of two pods with accelerators.
func newUnlabeledJob(changes ...func(*batchv1.Job)) *batchv1.Job {
	two := int32(2)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: batchv1.JobSpec{
			Parallelism: &two, Completions: &two,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.example.com/train:1", Resources: newAcceleratorLimits("nvidia.com/gpu", "8"),
				}},
			}},
		},
	}
	for _, change := range changes {
		change(job)
	}
	return job
}

func newAcceleratorLimits(name, count string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(count)}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

// withAccelerators replaces the accelerators of a Job.
func withAccelerators(name, count string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Resources = newAcceleratorLimits(name, count) }
}

// withInitContainer moves the accelerators of a Job to an init container.
func withInitContainer(restartPolicy corev1.ContainerRestartPolicy) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		spec := &j.Spec.Template.Spec
		init := *spec.Containers[0].DeepCopy()
		init.Name = "init"
		if restartPolicy != "" {
			init.RestartPolicy = &restartPolicy
		}
		spec.InitContainers = []corev1.Container{init}
		spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
}

// withController makes a Job belong to a controller.
func withController(apiVersion, kind string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		isController := true
		j.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "1", Controller: &isController,
		}}
	}
}

func withLabels(keysAndValues ...string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Labels = map[string]string{}
		for i := 0; i < len(keysAndValues); i += 2 {
			j.Labels[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

// requireVerdicts sends Jobs and StatefulSets, and compares which policy denies them.
func requireVerdicts(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	one := int32(1)
	jobs := map[string]struct {
		job       *batchv1.Job
		namespace string
		denied    string
	}{
		"a Job of two pods with accelerators": {job: newUnlabeledJob(), denied: jobPolicy},
		"a Job of two pods with a slice of a GPU": {
			job: newUnlabeledJob(withAccelerators("nvidia.com/mig-1g.5gb", "1")), denied: jobPolicy,
		},
		"a Job with accelerators of AMD": {job: newUnlabeledJob(withAccelerators("amd.com/gpu", "1")), denied: jobPolicy},
		"a Job with TPUs":                {job: newUnlabeledJob(withAccelerators("google.com/tpu", "4")), denied: jobPolicy},
		"a Job with accelerators of a sidecar": {
			job: newUnlabeledJob(withInitContainer(corev1.ContainerRestartPolicyAlways)), denied: jobPolicy,
		},
		"a Job with accelerators of an init container": {
			job: newUnlabeledJob(withInitContainer("")), denied: jobPolicy,
		},
		"a Job of a CronJob":             {job: newUnlabeledJob(withController("batch/v1", "CronJob")), denied: jobPolicy},
		"an unlabeled Job that opts out": {job: newUnlabeledJob(withLabels(gang.LabelInject, "false")), denied: jobPolicy},
		"a labeled Job that opts out": {
			job: newUnlabeledJob(withLabels(gang.LabelFramework, "jax", gang.LabelInject, "false")), denied: optOutPolicy,
		},
		"a labeled Job":               {job: newUnlabeledJob(withLabels(gang.LabelFramework, "pytorch"))},
		"a Job of another controller": {job: newUnlabeledJob(withController("kubeflow.org/v2beta1", "MPIJob"))},
		"a Job of two pods without resources": {job: newUnlabeledJob(func(j *batchv1.Job) {
			j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		})},
		"a Job of two pods with memory": {job: newUnlabeledJob(withAccelerators("memory", "1Gi"))},
		"a Job with a network device":   {job: newUnlabeledJob(withAccelerators("rdma/hca", "1"))},
		"a Job with zero accelerators":  {job: newUnlabeledJob(withAccelerators("nvidia.com/gpu", "0"))},
		"a Job of one pod": {job: newUnlabeledJob(func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = &one, &one
		})},
		"a Job in an excepted namespace": {job: newUnlabeledJob(), namespace: "kube-system"},
	}
	for name, test := range jobs {
		t.Run(name, func(t *testing.T) {
			namespace := "default"
			if test.namespace != "" {
				namespace = test.namespace
			}
			requireVerdict(t, test.denied, func(ctx context.Context) error {
				_, err := client.BatchV1().Jobs(namespace).Create(ctx, test.job.DeepCopy(), dryRunCreate)
				return err
			})
		})
	}
	t.Run("a labeled Job that opts out later", func(t *testing.T) {
		job := newUnlabeledJob(withLabels(gang.LabelFramework, "pytorch"))
		if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		requireVerdict(t, optOutPolicy, func(ctx context.Context) error {
			patch := []byte(`{"metadata":{"labels":{"rollcall.training/inject":"false"}}}`)
			_, err := client.BatchV1().Jobs("default").Patch(ctx, job.Name, types.MergePatchType, patch, dryRunPatch)
			return err
		})
	})
	for name, test := range map[string]struct {
		replicas int32
		denied   string
	}{
		"a StatefulSet of two pods with accelerators": {replicas: 2, denied: statefulSetPolicy},
		"a StatefulSet of one pod with accelerators":  {replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			requireVerdict(t, test.denied, func(ctx context.Context) error {
				_, err := client.AppsV1().StatefulSets("default").Create(ctx, newUnlabeledStatefulSet(test.replicas), dryRunCreate)
				return err
			})
		})
	}
}

// requireVerdict verifies that the named policy denies a request, or that the request is permitted. A policy
// takes effect a moment after its creation.
func requireVerdict(t *testing.T, deniedBy string, send func(context.Context) error) {
	t.Helper()
	if deniedBy == noPolicy {
		if err := send(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	wait.For(t, "the denial", func(ctx context.Context) error {
		err := send(ctx)
		switch {
		case err == nil:
			return errors.New("the request was permitted")
		case !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+deniedBy+"'"):
			return fmt.Errorf("the policy %s did not deny the request: %w", deniedBy, err)
		case !strings.Contains(err.Error(), "ask #gpu-admins"):
			return fmt.Errorf("the denial does not name the contact: %w", err)
		}
		return nil
	})
}

func newUnlabeledStatefulSet(replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": "train"}
	template := newUnlabeledJob().Spec.Template
	template.Labels, template.Spec.RestartPolicy = labels, corev1.RestartPolicyAlways
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train-set"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "train-set", Template: template,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
		},
	}
}
