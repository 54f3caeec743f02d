package chart

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/test/installation"
)

// TestValuesFiles lints and renders the chart with each values file in the folder ci. Users can start from these
// files, and tools such as chart-testing find them by their names.
func TestValuesFiles(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(chartDir, "ci", "*-values.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("the folder ci contains %d values files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			if out, err := runHelm(t, "lint", "--strict", chartDir, "--values", path); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
			renderFile(t, filepath.Base(path))
		})
	}
}

// renderFile returns the objects of the chart with a values file in the folder ci.
func renderFile(t *testing.T, name string) []runtime.Object {
	t.Helper()
	manifests, err := runHelm(t, append(templateArgs(), "--values", filepath.Join(chartDir, "ci", name))...)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, manifests)
}

// TestOpenShiftPods checks that nothing prevents OpenShift from choosing the user, and that the pods stay
// restricted.
func TestOpenShiftPods(t *testing.T) {
	for _, deployment := range findDeployments(t, renderFile(t, "openshift-values.yaml")) {
		name, context := deployment.Name, deployment.Spec.Template.Spec.SecurityContext
		if context.RunAsUser != nil || context.RunAsGroup != nil || context.FSGroup != nil {
			t.Errorf("%s: the chart chooses a user or a group: %v", name, context)
		}
		if context.RunAsNonRoot == nil || !*context.RunAsNonRoot || context.SeccompProfile == nil {
			t.Errorf("%s: the pod is less restricted than by default: %v", name, context)
		}
	}
}

// TestHostNetworkPods checks that only the webhook uses the network of the node, and that it still resolves
// names of the cluster: the resolv.conf of the node does not contain the domain of the cluster, and the
// variables of the user's gangs would contain a wrong domain.
func TestHostNetworkPods(t *testing.T) {
	deployments := findDeployments(t, renderFile(t, "host-network-values.yaml"))
	webhook, controller := deployments[0].Spec.Template.Spec, deployments[1].Spec.Template.Spec
	if !webhook.HostNetwork || webhook.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("the webhook has hostNetwork %t and dnsPolicy %s", webhook.HostNetwork, webhook.DNSPolicy)
	}
	if controller.HostNetwork || controller.DNSPolicy != "" {
		t.Errorf("the controller has hostNetwork %t and dnsPolicy %q", controller.HostNetwork, controller.DNSPolicy)
	}
}

// TestSpreadConstraints checks that each constraint selects the pods of its own Deployment.
func TestSpreadConstraints(t *testing.T) {
	own := map[string]any{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"team": "platform"}}}
	for name, c := range map[string]struct {
		values        values
		wantKeys      []string
		wantSelection map[string]string // nil for the labels of the Deployment
	}{
		"default spreads over nodes and zones": {
			wantKeys: []string{corev1.LabelHostname, corev1.LabelTopologyZone},
		},
		"values replace the default and can have a selector": {
			values:        newValues(map[string]any{"topologySpreadConstraints": []any{own}}),
			wantKeys:      []string{corev1.LabelHostname},
			wantSelection: map[string]string{"team": "platform"},
		},
		"an empty list disables the constraints": {
			values: newValues(map[string]any{"topologySpreadConstraints": []any{}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, deployment := range findDeployments(t, render(t, c.values)) {
				want := c.wantSelection
				if want == nil {
					want = deployment.Spec.Selector.MatchLabels
				}
				var keys []string
				for _, constraint := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
					keys = append(keys, constraint.TopologyKey)
					if got := constraint.LabelSelector.MatchLabels; !maps.Equal(want, got) {
						t.Errorf("%s: the constraint selects %v, want %v", deployment.Name, got, want)
					}
				}
				if !slices.Equal(c.wantKeys, keys) {
					t.Errorf("%s: the topology keys are %v, want %v", deployment.Name, keys, c.wantKeys)
				}
			}
		})
	}
}

// TestAdditions checks that additions of the values neither replace labels of the chart nor change selectors,
// which are immutable.
func TestAdditions(t *testing.T) {
	before := findDeployments(t, render(t, nil))
	after := findDeployments(t, renderFile(t, "additions-values.yaml"))
	for i, deployment := range after {
		if !maps.Equal(before[i].Spec.Selector.MatchLabels, deployment.Spec.Selector.MatchLabels) {
			t.Errorf("%s: the selector changed to %v", deployment.Name, deployment.Spec.Selector.MatchLabels)
		}
		for key, value := range deployment.Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Labels[key] != value {
				t.Errorf("%s: the pods have %s=%s", deployment.Name, key, deployment.Spec.Template.Labels[key])
			}
		}
		for _, key := range []string{"team", "app.kubernetes.io/part-of"} {
			if deployment.Labels[key] == "" || deployment.Spec.Template.Labels[key] == "" {
				t.Errorf("%s: the label %s is missing", deployment.Name, key)
			}
		}
	}
	var limits []string
	for _, env := range after[1].Spec.Template.Spec.Containers[0].Env {
		if env.Name == "GOMEMLIMIT" {
			limits = append(limits, env.Value)
		}
	}
	if !slices.Equal([]string{"800MiB"}, limits) {
		t.Errorf("the values of GOMEMLIMIT are %q, want only that of the values", limits)
	}
}

// TestExtraObjects checks that objects and texts can contain templates.
func TestExtraObjects(t *testing.T) {
	var got []string
	for _, o := range renderFile(t, "additions-values.yaml") {
		if c, ok := o.(*corev1.ConfigMap); ok {
			got = append(got, c.Namespace+"/"+c.Name+" "+c.Data["webhook"])
		}
	}
	checkEqual(t, "ConfigMaps", []string{
		installation.Namespace + "/rollcall-dashboard ",
		installation.Namespace + "/rollcall-text " + installation.WebhookName,
	}, got)
}

// TestDetachPod checks that the Job of the uninstallation has the security context, the account and the
// scheduling of the controller, otherwise a cluster that rejects one pod rejects the uninstallation.
func TestDetachPod(t *testing.T) {
	for _, name := range []string{"additions-values.yaml", "openshift-values.yaml", "locked-down-values.yaml"} {
		objects := renderFile(t, name)
		controller := findDeployments(t, objects)[1].Spec.Template.Spec
		pod := installation.SingleObject[*batchv1.Job](t, objects).Spec.Template.Spec
		checkEqual(t, name+": account", controller.ServiceAccountName, pod.ServiceAccountName)
		checkEqual(t, name+": security context of the pod", controller.SecurityContext, pod.SecurityContext)
		checkEqual(t, name+": security context", controller.Containers[0].SecurityContext, pod.Containers[0].SecurityContext)
		checkEqual(t, name+": tolerations", controller.Tolerations, pod.Tolerations)
		checkEqual(t, name+": pull secrets", controller.ImagePullSecrets, pod.ImagePullSecrets)
	}
}

// TestHookPods checks that the pods of hooks have the labels and annotations of the values, which can exclude them
// from the injection of a sidecar, and that no Service selects them. "helm test --logs" needs the pod after the test.
func TestHookPods(t *testing.T) {
	objects := render(t, newValues(map[string]any{
		"podLabels":      map[string]any{"injection": "disabled", "app.kubernetes.io/name": "other"},
		"commonLabels":   map[string]any{"team": "platform"},
		"podAnnotations": map[string]any{"sidecar": "false"},
	}))
	check := installation.SingleObject[*corev1.Pod](t, objects)
	pods := map[string]metav1.ObjectMeta{
		"detach": installation.SingleObject[*batchv1.Job](t, objects).Spec.Template.ObjectMeta, "check": check.ObjectMeta,
	}
	for component, pod := range pods {
		want := map[string]string{"injection": "disabled", "team": "platform",
			"app.kubernetes.io/instance": installation.Release, "app.kubernetes.io/component": component}
		checkEqual(t, component+": labels", want, pod.Labels)
		checkEqual(t, component+": annotation", "false", pod.Annotations["sidecar"])
	}
	deletion := check.Annotations["helm.sh/hook-delete-policy"]
	checkEqual(t, "deletion of the pod", "before-hook-creation,hook-succeeded", deletion)
}

// TestWebhookPermissions checks that the webhook may read the policy in every mode of certificates, and manages
// certificates in one of them only.
func TestWebhookPermissions(t *testing.T) {
	withSelector := map[string]any{"profiles": []any{
		map[string]any{"name": "a", "namespaces": map[string]any{"selector": aSelector}},
	}}
	own := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "secrets", "secrets"}
	policy := []string{"namespaces", "configmaps", "configmaps"}
	for mode, want := range map[string][]string{
		"self-managed": slices.Concat(own[:2], policy[:1], own[2:], policy[1:]), "cert-manager": policy,
	} {
		var got []string
		for _, o := range render(t, newValues(map[string]any{
			"certificates.mode": mode, "policy.enabled": true, "policy.file": withSelector,
		})) {
			switch role := o.(type) {
			case *rbacv1.ClusterRole:
				if role.Name == installation.WebhookName {
					got = append(got, listResources(role.Rules)...)
				}
			case *rbacv1.Role:
				if role.Name == installation.WebhookName {
					got = append(got, listResources(role.Rules)...)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		checkEqual(t, mode, want, got)
	}
}

func listResources(rules []rbacv1.PolicyRule) (resources []string) {
	for _, rule := range rules {
		resources = append(resources, rule.Resources...)
	}
	return resources
}

// TestUnlabeledPolicyNames checks that two releases have policies with different names.
func TestUnlabeledPolicyNames(t *testing.T) {
	unlabeled := map[string]any{"optOut": map[string]any{}, "multiPodGPU": map[string]any{}}
	var got []string
	for _, o := range render(t, newValues(map[string]any{
		"fullnameOverride": "gangs", "policy.enabled": true, "policy.file": map[string]any{"unlabeled": unlabeled},
	})) {
		if binding, ok := o.(*admissionv1.ValidatingAdmissionPolicyBinding); ok && binding.Name == binding.Spec.PolicyName {
			got = append(got, binding.Name)
		}
	}
	for _, want := range []string{"gangs-opt-out", "gangs-multi-pod-gpu-jobs"} {
		if !slices.Contains(got, want) {
			t.Errorf("the bindings are %v, want one with the name %s", got, want)
		}
	}
}

// findDeployments returns the Deployments of the webhook and of the controller, in this order.
func findDeployments(t *testing.T, objects []runtime.Object) []*appsv1.Deployment {
	t.Helper()
	return []*appsv1.Deployment{
		installation.FindDeployment(t, objects, installation.WebhookName),
		installation.FindDeployment(t, objects, installation.ControllerName),
	}
}

// checkEqual requires equal values.
func checkEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want, +got:\n%s", what, diff)
	}
}
