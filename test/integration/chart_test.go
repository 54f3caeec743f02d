package integration

import (
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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	chartDir         = "../../charts/rollcall"
	chartRelease     = installation.Release
	releaseNamespace = installation.Namespace
	frameworkLabel   = "rollcall.training/framework"
)

// TestChart renders the chart, installs it in a cluster without nodes, and takes it away again.
func TestChart(t *testing.T) {
	c := cluster.Start(t, cluster.Options{
		Nodes: cluster.None,
		// With it, setting owners takes rights which the chart has to grant. Some distributions have it on.
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	for name, test := range map[string]func(*testing.T, *cluster.Cluster){
		"Lint":      testLint,
		"Selectors": testSelectors,
		"Rules":     testRules,
		"RankModes": testRankModes,
		"RBAC":      testRBAC,
		"Replicas":  testReplicas,
		"Pod":       testPod,
		"Schema":    testSchema,
		"Lifecycle": testLifecycle,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func testLint(t *testing.T, c *cluster.Cluster) {
	if out, err := c.Helm(t.Context(), "lint", "--strict", chartDir); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

// testSelectors checks that no API server calls us for what is not ours, whatever the values are.
func testSelectors(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		reason string
		args   []string
		want   metav1.LabelSelector
	}{
		"Default": {
			reason: "The cluster's own namespace and that of the release are left out.",
			want:   metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notInOurNamespaces()}},
		},
		"Values": {
			reason: "What the values say is added.",
			args: []string{
				"--set", "webhook.namespaceSelector.matchLabels.team=ml",
				"--set-json", `webhook.namespaceSelector.matchExpressions=[{"key":"env","operator":"Exists"}]`,
			},
			want: metav1.LabelSelector{
				MatchLabels: map[string]string{"team": "ml"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					notInOurNamespaces(), {Key: "env", Operator: metav1.LabelSelectorOpExists},
				},
			},
		},
	}
	workloads := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: frameworkLabel, Operator: metav1.LabelSelectorOpExists},
		{Key: "rollcall.training/inject", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"false"}},
	}}
	pods := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: gang.LabelRankOffset, Operator: metav1.LabelSelectorOpExists},
	}}
	wantObjects := map[string]metav1.LabelSelector{
		"inject.rollcall.training": workloads, "validate.rollcall.training": workloads, "update.rollcall.training": workloads, "hold.rollcall.training": workloads,
		rankWebhook: pods,
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, m := range renderedPolicies(t, c, tc.args...) {
				if diff := cmp.Diff(&pods, m.ObjectSelector); diff != "" {
					t.Errorf("%s: objectSelector: -want, +got:\n%s", kind, diff)
				}
				if diff := cmp.Diff(&tc.want, m.NamespaceSelector); diff != "" {
					t.Errorf("%s\n%s: namespaceSelector: -want, +got:\n%s", tc.reason, kind, diff)
				}
			}
			webhooks := renderedWebhooks(t, c, tc.args...)
			for _, name := range slices.Sorted(maps.Keys(webhooks)) {
				w := webhooks[name]
				if diff := cmp.Diff(ptr.To(wantObjects[name]), w.ObjectSelector); diff != "" {
					t.Errorf("%s: objectSelector: -want, +got:\n%s", name, diff)
				}
				if diff := cmp.Diff(&tc.want, w.NamespaceSelector); diff != "" {
					t.Errorf("%s\n%s: namespaceSelector: -want, +got:\n%s", tc.reason, name, diff)
				}
				if w.ClientConfig.CABundle != nil {
					t.Errorf("%s: the chart names caBundle, which is the manager's", name)
				}
			}
		})
	}
}

func notInOurNamespaces() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{
		Key:      corev1.LabelMetadataName,
		Operator: metav1.LabelSelectorOpNotIn,
		Values:   []string{metav1.NamespaceSystem, releaseNamespace},
	}
}

// testRules checks what each webhook is called for, and what happens without an answer. The names are part of it: one
// that changes makes upgrades fail, since server-side apply cannot take away an entry in which the manager owns a field.
func testRules(t *testing.T, c *cluster.Cluster) {
	checkRules(t, c, "pods:CREATE", "--set", "rankOffset.mode=webhook")
	checkRules(t, c, "", "--set", "rankOffset.mode=policy")
	// The values' failurePolicy is for workloads: they can be made again, where pods would start with a wrong rank.
	webhooks := renderedWebhooks(t, c, "--set", "webhook.failurePolicy=Ignore")
	if got := *webhooks[rankWebhook].FailurePolicy; got != admissionv1.Fail {
		t.Errorf("%s has the failurePolicy %s", rankWebhook, got)
	}
}

func checkRules(t *testing.T, c *cluster.Cluster, ofPods string, args ...string) {
	t.Helper()
	want := map[string]string{
		"inject.rollcall.training":   "/mutate Fail 5s jobs:CREATE statefulsets:CREATE,UPDATE",
		"validate.rollcall.training": "/validate Fail 5s jobs:CREATE statefulsets:CREATE,UPDATE",
		"update.rollcall.training":   "/validate Ignore 1s jobs:UPDATE",
		"hold.rollcall.training":     "/mutate Ignore 1s jobs:UPDATE",
		rankWebhook:                  strings.TrimSpace("/mutate-pod Fail 5s " + ofPods),
	}
	got := map[string]string{}
	for name, w := range renderedWebhooks(t, c, args...) {
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

// testRBAC checks that rights are few.
func testRBAC(t *testing.T, c *cluster.Cluster) {
	objects := render(t, c)
	var everywhere, inNamespace []rbacv1.PolicyRule
	for _, o := range objects {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			everywhere = append(everywhere, role.Rules...)
		case *rbacv1.Role:
			inNamespace = append(inNamespace, role.Rules...)
			if role.Namespace != releaseNamespace {
				t.Errorf("Role %s is in namespace %q", role.Name, role.Namespace)
			}
		}
	}
	if len(everywhere) == 0 || len(inNamespace) == 0 {
		t.Fatalf("%d rules of ClusterRoles and %d of Roles: nothing was checked", len(everywhere), len(inNamespace))
	}
	for _, rule := range slices.Concat(everywhere, inNamespace) {
		if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames), "*") {
			t.Errorf("a wildcard: %v", rule)
		}
	}
	for _, rule := range everywhere {
		for _, resource := range rule.Resources {
			switch {
			case resource == "secrets" && !slices.Equal(rule.Verbs, []string{"create"}), resource == "pods/exec":
				t.Errorf("%s in the whole cluster: %v", resource, rule)
			case strings.HasSuffix(resource, "webhookconfigurations") && len(rule.ResourceNames) == 0:
				t.Errorf("%s of any name: %v", resource, rule)
			}
		}
	}
	for _, rule := range inNamespace {
		if len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("%v of any name: %v", rule.Verbs, rule)
		}
	}
}

// testReplicas checks what depends on there being more than one manager.
func testReplicas(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		reason string
		args   []string
		want   int
	}{
		"Two":      {"By default a drain leaves one manager.", nil, 1},
		"One":      {"A budget of a single manager would forbid drains.", []string{"--set", "replicas=1"}, 0},
		"Disabled": {"The values can do without.", []string{"--set", "podDisruptionBudget.enabled=false"}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := 0
			for _, o := range render(t, c, tc.args...) {
				if _, ok := o.(*policyv1.PodDisruptionBudget); ok {
					got++
				}
			}
			if got != tc.want {
				t.Errorf("%s\n%d PodDisruptionBudgets, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

// testPod checks that the Pod is as restricted as can be, and has the time to end.
func testPod(t *testing.T, c *cluster.Cluster) {
	deployment := installation.One[*appsv1.Deployment](t, render(t, c,
		"--set", "shutdownDelaySeconds=30,webhook.timeoutSeconds=7,image.digest=sha256:"+strings.Repeat("a", 64)))
	if got := deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.String(); got != "0" {
		t.Errorf("maxUnavailable %s: a rollout may leave nobody to answer", got)
	}
	pod := deployment.Spec.Template.Spec
	if got := *pod.TerminationGracePeriodSeconds; got <= 30+7 {
		t.Errorf("terminationGracePeriodSeconds %d: calls at the end of the delay are cut off", got)
	}
	if want, got := "rollcall/manager@sha256:"+strings.Repeat("a", 64), pod.Containers[0].Image; got != want {
		t.Errorf("image %q, want %q", got, want)
	}

	// The API server has the last word on what is restricted.
	client := kubernetes.NewForConfigOrDie(c.Config())
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitAccount(t, client, namespace.Name)
	pod.ServiceAccountName = ""
	pod.AutomountServiceAccountToken = new(false)
	_, err = client.CoreV1().Pods(namespace.Name).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Spec: pod}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("creating the Pod where only restricted ones are allowed: %v", err)
	}
}

// testSchema checks that mistakes in values are found before anything is installed.
func testSchema(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		reason, set, want string
	}{
		"Unknown":       {"A misspelt value would be ignored.", "replica=3", "'replica'"},
		"UnknownNested": {"So would one further down.", "webhook.timeout=3", "'timeout'"},
		"Policy":        {"The API knows two policies.", "webhook.failurePolicy=Maybe", "/webhook/failurePolicy"},
		"Timeout":       {"The API allows 30 s.", "webhook.timeoutSeconds=31", "/webhook/timeoutSeconds"},
		"Digest":        {"A digest is not a tag.", "image.digest=latest", "/image/digest"},
		"RankMode":      {"There are three.", "rankOffset.mode=both", "/rankOffset/mode"},
		"HealthPort":    {"The port of the probes is taken.", "webhook.port=8081", "/webhook/port"},
		"SamePort":      {"One port cannot be two.", "webhook.port=8080", "webhook.port and metrics.port are both 8080"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.Helm(t.Context(), "template", chartRelease, chartDir, "--namespace", releaseNamespace, "--set", tc.set)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\nhelm template --set %s: error %v, want one with %q", tc.reason, tc.set, err, tc.want)
			}
		})
	}
}

// render returns the objects of the chart.
func render(t *testing.T, c *cluster.Cluster, args ...string) []runtime.Object {
	t.Helper()
	return installation.Render(t, c, args...)
}

// renderedWebhooks returns the webhooks of both configurations by name. The mutating ones are shown as validating ones,
// which have all their fields but one.
func renderedWebhooks(t *testing.T, c *cluster.Cluster, args ...string) map[string]admissionv1.ValidatingWebhook {
	t.Helper()
	webhooks := map[string]admissionv1.ValidatingWebhook{}
	for _, o := range render(t, c, args...) {
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
