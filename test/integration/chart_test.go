package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	chartDir = "../../charts/rollcall"
)

// TestChart renders the chart, installs it in a cluster without nodes, and uninstalls it.
func TestChart(t *testing.T) {
	c := startCluster(t, cluster.Options{
		Nodes: cluster.NoNodes,
		// With this plugin, the chart must grant the permission to set owner references. Some
		// distributions enable it.
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	for name, test := range map[string]func(*testing.T, *cluster.Cluster){
		"Selectors": testWebhookSelectors,
		"Rules":     testWebhookRules,
		"RankModes": testRankModes,
		"RBAC":      testChartRBAC,
		"RBACTable": testPermissionTable,
		"Replicas":  testPodDisruptionBudget,
		"Pods":      testManagerPods,
		"Lifecycle": testChartLifecycle,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// testWebhookSelectors checks that no API server calls the webhooks for unrelated objects,
// regardless of the values.
func testWebhookSelectors(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		args []string
		want metav1.LabelSelector
	}{
		"kube-system and the release namespace are excluded by default": {
			want: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{excludeSystemNamespaces()}},
		},
		"values add requirements": {
			args: []string{
				"--set", "webhook.namespaceSelector.matchLabels.team=ml",
				"--set-json", `webhook.namespaceSelector.matchExpressions=[{"key":"env","operator":"Exists"}]`,
			},
			want: metav1.LabelSelector{
				MatchLabels: map[string]string{"team": "ml"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					excludeSystemNamespaces(), {Key: "env", Operator: metav1.LabelSelectorOpExists},
				},
			},
		},
	}
	workloads := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: gang.LabelFramework, Operator: metav1.LabelSelectorOpExists},
		{Key: "rollcall.training/inject", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"false"}},
	}}
	pods := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: gang.LabelRankOffset, Operator: metav1.LabelSelectorOpExists},
	}}
	wantObjects := map[string]metav1.LabelSelector{
		"inject.rollcall.training":          workloads,
		"validate.rollcall.training":        workloads,
		"validate-update.rollcall.training": workloads,
		"suspend.rollcall.training":         workloads,
		"judge-update.rollcall.training":    workloads,
		installation.RankWebhook:            pods,
	}
	ownNamespace := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: installation.Namespace}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, m := range renderPolicies(t, c, tc.args...) {
				if diff := cmp.Diff(&pods, m.ObjectSelector); diff != "" {
					t.Errorf("%s: objectSelector: -want, +got:\n%s", kind, diff)
				}
				if diff := cmp.Diff(&tc.want, m.NamespaceSelector); diff != "" {
					t.Errorf("%s: namespaceSelector: -want, +got:\n%s", kind, diff)
				}
			}
			if got := renderNamespaceSelectorFlag(t, c, tc.args...); !cmp.Equal(tc.want, got) {
				t.Errorf("the flag of the controller differs: -want, +got:\n%s", cmp.Diff(tc.want, got))
			}
			webhooks := renderWebhooks(t, c, tc.args...)
			for _, name := range slices.Sorted(maps.Keys(webhooks)) {
				w := webhooks[name]
				if name == policyFileWebhook { // receives only ConfigMaps of the release
					if diff := cmp.Diff(&ownNamespace, w.NamespaceSelector); diff != "" {
						t.Errorf("%s: namespaceSelector: -want, +got:\n%s", name, diff)
					}
					continue
				}
				if diff := cmp.Diff(ptr.To(wantObjects[name]), w.ObjectSelector); diff != "" {
					t.Errorf("%s: objectSelector: -want, +got:\n%s", name, diff)
				}
				if diff := cmp.Diff(&tc.want, w.NamespaceSelector); diff != "" {
					t.Errorf("%s: namespaceSelector: -want, +got:\n%s", name, diff)
				}
				if w.ClientConfig.CABundle != nil {
					t.Errorf("%s: the chart sets caBundle, which the webhook owns", name)
				}
			}
		})
	}
}

// renderNamespaceSelectorFlag returns the selector in the flag --namespace-selector of the controller.
func renderNamespaceSelectorFlag(t *testing.T, c *cluster.Cluster, args ...string) metav1.LabelSelector {
	t.Helper()
	var out metav1.LabelSelector
	deployment := installation.FindDeployment(t, renderChart(t, c, args...), installation.ControllerName)
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if text, ok := strings.CutPrefix(arg, "--namespace-selector="); ok {
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func excludeSystemNamespaces() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{
		Key:      corev1.LabelMetadataName,
		Operator: metav1.LabelSelectorOpNotIn,
		Values:   []string{metav1.NamespaceSystem, installation.Namespace},
	}
}

// testWebhookRules checks the rules of each webhook and its failurePolicy. The names are part of
// the contract: a changed name makes upgrades fail, because server-side apply cannot delete an
// entry with fields that the manager owns.
func testWebhookRules(t *testing.T, c *cluster.Cluster) {
	checkWebhookRules(t, c, nil, "--set", "rankOffset.mode=policy")
	checkWebhookRules(t, c, map[string]string{installation.RankWebhook: " pods:CREATE"},
		"--set", "rankOffset.mode=webhook")
	checkWebhookRules(t, c, map[string]string{
		"judge-update.rollcall.training": " jobs:UPDATE", policyFileWebhook: " configmaps:CREATE,UPDATE",
	}, "--set", "rankOffset.mode=policy", "--set", "policy.enabled=true")
	// The failurePolicy of the values applies to workloads, which users can recreate. Pods would
	// start with a wrong rank.
	webhooks := renderWebhooks(t, c, "--set", "webhook.failurePolicy=Ignore")
	if got := *webhooks[installation.RankWebhook].FailurePolicy; got != admissionv1.Fail {
		t.Errorf("%s has the failurePolicy %s", installation.RankWebhook, got)
	}
}

// policyFileWebhook is the webhook for the ConfigMap with the policy.
const policyFileWebhook = "policy-file.rollcall.training"

// checkWebhookRules checks the rules of all webhooks. The parameter optional contains the rules of the
// webhooks that have none by default.
func checkWebhookRules(t *testing.T, c *cluster.Cluster, optional map[string]string, args ...string) {
	t.Helper()
	want := map[string]string{
		"inject.rollcall.training":          "/mutate Fail 5s jobs:CREATE statefulsets:CREATE,UPDATE",
		"validate.rollcall.training":        "/validate Fail 5s jobs:CREATE statefulsets:CREATE,UPDATE",
		"validate-update.rollcall.training": "/validate Ignore 1s jobs:UPDATE",
		"suspend.rollcall.training":         "/mutate Ignore 1s jobs:UPDATE",
		"judge-update.rollcall.training":    "/judge-update Fail 5s",
		policyFileWebhook:                   "/validate-policy-file Ignore 5s",
		installation.RankWebhook:            "/mutate-pod Fail 5s",
	}
	for name, rules := range optional {
		want[name] += rules
	}
	got := map[string]string{}
	for name, w := range renderWebhooks(t, c, args...) {
		got[name] = fmt.Sprintf("%s %s %ds", *w.ClientConfig.Service.Path, *w.FailurePolicy, *w.TimeoutSeconds)
		for _, r := range w.Rules {
			var operations []string
			for _, o := range r.Operations {
				operations = append(operations, string(o))
			}
			got[name] += fmt.Sprintf(" %s:%s", strings.Join(r.Resources, ","), strings.Join(operations, ","))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks: -want, +got:\n%s", diff)
	}
}

// testPodDisruptionBudget checks that the chart has a budget only for a Deployment with more than one
// pod.
func testPodDisruptionBudget(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"default has budgets for drains": {
			want: []string{installation.ControllerName, installation.WebhookName},
		},
		"single webhook has none, to permit drains": {
			args: []string{"--set", "webhook.replicas=1"},
			want: []string{installation.ControllerName},
		},
		"single controller has none, to permit drains": {
			args: []string{"--set", "controller.replicas=1"},
			want: []string{installation.WebhookName},
		},
		"values disable the budgets": {
			args: []string{"--set", "podDisruptionBudget.enabled=false"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range renderChart(t, c, tc.args...) {
				budget, ok := o.(*policyv1.PodDisruptionBudget)
				if !ok {
					continue
				}
				got = append(got, budget.Name)
				deployment := installation.FindDeployment(t, renderChart(t, c, tc.args...), budget.Name)
				if diff := cmp.Diff(deployment.Spec.Selector, budget.Spec.Selector); diff != "" {
					t.Errorf("selector of %s: -Deployment, +budget:\n%s", budget.Name, diff)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PodDisruptionBudgets: -want, +got:\n%s", diff)
			}
		})
	}
}

// testManagerPods checks that the pods of both Deployments are restricted, and that they have enough
// time to shut down.
func testManagerPods(t *testing.T, c *cluster.Cluster) {
	objects := renderChart(t, c,
		"--set", "shutdownDelaySeconds=30,webhook.timeoutSeconds=7,image.digest=sha256:"+strings.Repeat("a", 64))
	for name, minGracePeriod := range map[string]int64{
		installation.WebhookName:    30 + 7, // the shutdown delay and the timeout of the API servers
		installation.ControllerName: 30,     // the grace period of the process
	} {
		t.Run(name, func(t *testing.T) {
			testManagerPod(t, c, installation.FindDeployment(t, objects, name), minGracePeriod)
		})
	}
}

func testManagerPod(t *testing.T, c *cluster.Cluster, deployment *appsv1.Deployment, minGracePeriod int64) {
	if got := deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.String(); got != "0" {
		t.Errorf("maxUnavailable %s: a rollout can make the pods unavailable", got)
	}
	pod := deployment.Spec.Template.Spec
	if got := *pod.TerminationGracePeriodSeconds; got <= minGracePeriod {
		t.Errorf("terminationGracePeriodSeconds %d: requests at the end of the shutdown are aborted", got)
	}
	if want, got := installation.ImageRepository+"@sha256:"+strings.Repeat("a", 64), pod.Containers[0].Image; got != want {
		t.Errorf("image %q, want %q", got, want)
	}

	// The API server decides which pods are restricted.
	client := kubernetes.NewForConfigOrDie(c.Config())
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForServiceAccount(t, client, namespace.Name)
	pod.ServiceAccountName = ""
	pod.AutomountServiceAccountToken = new(false)
	_, err = client.CoreV1().Pods(namespace.Name).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Spec: pod}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("creating the pod in a namespace that enforces the restricted profile: %v", err)
	}
}

// renderChart returns the objects of the chart.
func renderChart(t *testing.T, c *cluster.Cluster, args ...string) []runtime.Object {
	t.Helper()
	return installation.Render(t, c, args...)
}

// renderWebhooks returns the webhooks of both configurations by name. Mutating webhooks are
// returned as validating webhooks, which have all of their fields except one.
func renderWebhooks(t *testing.T, c *cluster.Cluster, args ...string) map[string]admissionv1.ValidatingWebhook {
	t.Helper()
	webhooks := map[string]admissionv1.ValidatingWebhook{}
	for _, o := range renderChart(t, c, args...) {
		switch configuration := o.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for _, w := range configuration.Webhooks {
				webhooks[w.Name] = admissionv1.ValidatingWebhook{
					Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
					NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, TimeoutSeconds: w.TimeoutSeconds,
				}
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for _, w := range configuration.Webhooks {
				webhooks[w.Name] = w
			}
		}
	}
	if len(webhooks) == 0 {
		t.Fatal("no webhooks")
	}
	return webhooks
}

func runHelm(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Helm(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
