package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// hardenedSizeLimit is the size limit that the other webhook and the policy set.
const hardenedSizeLimit = "2Gi"

// TestOtherWebhooks creates gangs in a cluster with another mutating webhook or policy, which changes
// what Rollcall injects. The API server calls webhooks in the order of their names, and policies before
// webhooks.
func TestOtherWebhooks(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.New(t, c)}
	newWebhookTest := func(name string, policy admissionv1.ReinvocationPolicyType) func(*testing.T, *manager, string) {
		return func(t *testing.T, m *manager, ns string) {
			m.createOtherWebhook(t, ns, name, policy)
			testOtherWebhook(t, m, ns, checkHardened)
		}
	}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"BeforeRollcall": newWebhookTest("before", admissionv1.IfNeededReinvocationPolicy),
		"AfterRollcall":  newWebhookTest("security", admissionv1.IfNeededReinvocationPolicy),
		// The name is behind that of Rollcall, so that one call is sufficient.
		"AfterRollcallOnce": newWebhookTest("security-once", admissionv1.NeverReinvocationPolicy),
		"Policy": func(t *testing.T, m *manager, ns string) {
			if !supportsMutatingPolicies(m.Cluster) {
				t.Skip("the cluster does not have MutatingAdmissionPolicy")
			}
			m.createOtherPolicy(t, ns)
			testOtherWebhook(t, m, ns, checkHardenedByPolicy)
		},
	})
}

// hardenTemplate does what policies of clusters do: it adds a certificate mount, a security context and
// ephemeral-storage to every container, and a sidecar, a pull secret and size limits to the pod. It pulls
// the images from a mirror.
func hardenTemplate(template *corev1.PodTemplateSpec) {
	spec := &template.Spec
	if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == "proxy" }) {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "proxy", Image: "example.com/proxy:1"})
	}
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "company-ca" }) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "company-ca", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "company-ca"}},
		}})
	}
	for i := range spec.Volumes {
		if dir := spec.Volumes[i].EmptyDir; dir != nil {
			dir.SizeLimit = ptr.To(resource.MustParse(hardenedSizeLimit))
		}
	}
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			hardenContainer(&list[i])
		}
	}
}

func hardenContainer(c *corev1.Container) {
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "company-ca" }) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "company-ca", MountPath: "/etc/ssl/certs"})
	}
	c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)}
	if !strings.HasPrefix(c.Image, "mirror.example.com/") {
		c.Image = "mirror.example.com/" + c.Image
	}
	for _, list := range []*corev1.ResourceList{&c.Resources.Limits, &c.Resources.Requests} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	}
}

// serveHardening is a webhook that calls hardenTemplate.
func serveHardening(w http.ResponseWriter, r *http.Request) {
	review := &admissionapi.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "not an admission review", http.StatusBadRequest)
		return
	}
	patch, err := createHardeningPatch(review.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionapi.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: ptr.To(admissionapi.PatchTypeJSONPatch),
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func createHardeningPatch(request *admissionapi.AdmissionRequest) ([]byte, error) {
	workload, ok := gang.NewWorkload(gang.Kind(request.Kind.Kind))
	if !ok {
		return nil, errors.New("unsupported kind " + request.Kind.Kind)
	}
	if err := json.Unmarshal(request.Object.Raw, workload.Object()); err != nil {
		return nil, err
	}
	hardenTemplate(workload.Template())
	return json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": workload.Template()}})
}

// createOtherWebhook starts a webhook that hardens the workloads of a namespace.
func (m *manager) createOtherWebhook(
	t *testing.T, ns, name string, policy admissionv1.ReinvocationPolicyType,
) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(serveHardening))
	t.Cleanup(server.Close)
	newRule := func(group, plural string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{plural}},
		}
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "harden.example.com",
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules:                   []admissionv1.RuleWithOperations{newRule("batch", "jobs"), newRule("apps", "statefulsets")},
			NamespaceSelector:       selectNamespace(ns),
			ReinvocationPolicy:      &policy,
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](30), // a slow machine must not fail the tests
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	api := m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

func selectNamespace(ns string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
}

// hardeningExpression sets size limits, and the security context of all containers.
const hardeningExpression = `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
  initContainers: object.spec.template.spec.?initContainers.orValue([]).map(c,
    Object.spec.template.spec.initContainers{name: c.name,
      securityContext: Object.spec.template.spec.initContainers.securityContext{allowPrivilegeEscalation: false}}),
  containers: object.spec.template.spec.containers.map(c,
    Object.spec.template.spec.containers{name: c.name,
      securityContext: Object.spec.template.spec.containers.securityContext{allowPrivilegeEscalation: false}}),
  volumes: object.spec.template.spec.?volumes.orValue([]).filter(v, has(v.emptyDir)).map(v,
    Object.spec.template.spec.volumes{name: v.name,
      emptyDir: Object.spec.template.spec.volumes.emptyDir{sizeLimit: '` + hardenedSizeLimit + `'}})
}}}}`

// createOtherPolicy creates a MutatingAdmissionPolicy that hardens the workloads of a namespace.
func (m *manager) createOtherPolicy(t *testing.T, ns string) {
	t.Helper()
	newRule := func(group, plural string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{plural}},
		}}
	}
	meta := metav1.ObjectMeta{Name: "harden"}
	api, options := m.Client.AdmissionregistrationV1(), metav1.CreateOptions{}
	_, policyErr := api.MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: selectNamespace(ns),
				ResourceRules:     []admissionv1.NamedRuleWithOperations{newRule("batch", "jobs"), newRule("apps", "statefulsets")},
			},
			FailurePolicy:      ptr.To(admissionv1.Fail),
			ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: hardeningExpression},
			}},
		},
	}, options)
	_, bindingErr := api.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name},
	}, options)
	if err := errors.Join(policyErr, bindingErr); err != nil {
		t.Fatal(err)
	}
}

// testOtherWebhook creates the launcher and the workers of a gang. Both must be admitted with the
// changes of the other webhook, and with the injection of Rollcall. Later admissions must not change
// their templates.
func testOtherWebhook(t *testing.T, m *manager, ns string, check func(*testing.T, *corev1.PodTemplateSpec)) {
	m.waitForHardening(t, ns)
	job := m.createJob(t, ns, newLauncher(2))
	set := m.createStatefulSet(t, ns, newWorkers(2))
	for _, template := range []*corev1.PodTemplateSpec{&job.Spec.Template, &set.Spec.Template} {
		check(t, template)
		if names := listContainerNames(template.Spec.InitContainers); !slices.Contains(names, "rollcall-ssh-setup") {
			t.Errorf("the init containers are %q", names)
		}
		if envByName(template.Spec.Containers[0])["ROLLCALL_GANG"] != "train" {
			t.Errorf("the training container was not injected: %+v", template.Spec.Containers[0].Env)
		}
	}
	m.waitForPods(t, ns, "train", 3)
	updated, err := m.Client.AppsV1().StatefulSets(ns).Patch(t.Context(), set.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"example.com/owner":"me"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkSameTemplate(t, "an update of a label", set, updated)
	again := m.recreateSavedJob(t, ns, job)
	check(t, &again.Spec.Template)
	before, after := job.Annotations[gang.AnnotationInjected], again.Annotations[gang.AnnotationInjected]
	if before != after {
		t.Errorf("the record of a saved manifest changed:\n%s", cmp.Diff(before, after))
	}
}

// recreateSavedJob deletes a Job, and creates it again from the manifest of the live object.
func (m *manager) recreateSavedJob(t *testing.T, ns string, job *batchv1.Job) *batchv1.Job {
	t.Helper()
	saved := job.DeepCopy()
	saved.ObjectMeta = metav1.ObjectMeta{Name: job.Name, Labels: job.Labels, Annotations: job.Annotations}
	saved.Spec.Selector = nil
	for _, label := range []string{"controller-uid", batchv1.ControllerUidLabel, "job-name", batchv1.JobNameLabel} {
		delete(saved.Spec.Template.Labels, label)
	}
	jobs := m.Client.BatchV1().Jobs(ns)
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := jobs.Delete(t.Context(), job.Name, background); err != nil {
		t.Fatal(err)
	}
	var created *batchv1.Job
	wait.For(t, "the Job to be created again", func(ctx context.Context) (err error) {
		created, err = jobs.Create(ctx, saved, metav1.CreateOptions{})
		return err
	})
	return created
}

func checkSameTemplate(t *testing.T, what string, before, after *appsv1.StatefulSet) {
	t.Helper()
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		t.Errorf("%s changed the template (-before +after):\n%s", what, diff)
	}
}

// waitForHardening waits until the API server applies the other webhook or policy to a Job without a
// label, which Rollcall does not change.
func (m *manager) waitForHardening(t *testing.T, ns string) {
	t.Helper()
	wait.For(t, "the other webhook", func(ctx context.Context) error {
		job := newJob("probe", 1)
		job.Labels = nil
		got, err := m.Client.BatchV1().Jobs(ns).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got.Spec.Template.Spec.Containers[0].SecurityContext == nil {
			return errors.New("the Job was not changed")
		}
		return nil
	})
}

func listContainerNames(containers []corev1.Container) []string {
	var names []string
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

// checkHardened checks that a template has everything that hardenTemplate adds.
func checkHardened(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	want := template.DeepCopy()
	hardenTemplate(want)
	if diff := cmp.Diff(want, template); diff != "" {
		t.Errorf("the template does not have changes of the other webhook (-want +got):\n%s", diff)
	}
}

// checkHardenedByPolicy checks that a template has everything that hardeningExpression adds.
func checkHardenedByPolicy(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		if c.SecurityContext == nil || ptr.Deref(c.SecurityContext.AllowPrivilegeEscalation, true) {
			t.Errorf("the container %s has the security context %v", c.Name, c.SecurityContext)
		}
	}
	for _, v := range template.Spec.Volumes {
		if v.EmptyDir != nil && (v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.String() != hardenedSizeLimit) {
			t.Errorf("the volume %s has the size limit %s", v.Name, v.EmptyDir.SizeLimit)
		}
	}
}
