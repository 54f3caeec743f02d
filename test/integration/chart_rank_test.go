package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// renderPolicies returns the match constraints of the chart's policies for ranks by kind.
func renderPolicies(t *testing.T, c *cluster.Cluster, args ...string) map[string]*admissionv1.MatchResources {
	t.Helper()
	matches := map[string]*admissionv1.MatchResources{}
	for _, o := range renderChart(t, c, args...) {
		switch policy := o.(type) {
		case *admissionv1.MutatingAdmissionPolicy:
			matches["MutatingAdmissionPolicy"] = policy.Spec.MatchConstraints
		case *admissionv1.ValidatingAdmissionPolicy:
			if policy.Name == installation.RankPolicy {
				matches["ValidatingAdmissionPolicy"] = policy.Spec.MatchConstraints
			}
		}
	}
	return matches
}

// supportsMutatingPolicies reports whether a cluster has MutatingAdmissionPolicy, which Kubernetes
// 1.36 enables by default.
func supportsMutatingPolicies(c *cluster.Cluster) bool { return c.Release().Minor() >= 36 }

// testRankModes checks that either the policy or the webhook assigns ranks, and that the chart
// always installs the final check.
func testRankModes(t *testing.T, c *cluster.Cluster) {
	for name, tc := range map[string]struct {
		args     []string
		byPolicy bool
	}{
		"auto uses the policy if the cluster has its API": {byPolicy: supportsMutatingPolicies(c)},
		"policy needs no cluster": {
			args:     []string{"--set", "rankOffset.mode=policy"},
			byPolicy: true,
		},
		"webhook works on every cluster": {args: []string{"--set", "rankOffset.mode=webhook"}},
	} {
		t.Run(name, func(t *testing.T) {
			policies := renderPolicies(t, c, tc.args...)
			_, byPolicy := policies["MutatingAdmissionPolicy"]
			called := len(renderWebhooks(t, c, tc.args...)[installation.RankWebhook].Rules) > 0
			if byPolicy != tc.byPolicy || called == tc.byPolicy {
				t.Errorf("policy: %v, webhook: %v", byPolicy, called)
			}
			if _, ok := policies["ValidatingAdmissionPolicy"]; !ok {
				t.Error("the chart has no policy that checks ranks")
			}
		})
	}
	// Without a cluster, "helm template" must render manifests that work on every supported
	// version.
	out := runHelm(t, c, "template", installation.Release, chartDir,
		"--namespace", installation.Namespace, installation.ImageArg)
	if strings.Contains(out, "MutatingAdmissionPolicy\n") {
		t.Error("helm template renders a policy that Kubernetes before 1.36 does not have")
	}
}

// testRankModeChanges upgrades from policy to webhook and back, while pods are created continuously
// and no manager is available. The webhook keeps its bundle, and no pod is created without its
// rank.
func testRankModeChanges(t *testing.T, c *cluster.Cluster, bundles map[string]string) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, cancel := context.WithCancel(t.Context())
	var tries, inBetween int
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; tries++ {
			if strings.Contains(findRankDenialReason(ctx, t, client), `must be "3"`) {
				inBetween++
			}
		}
	})
	for _, step := range []struct{ mode, want string }{
		{"auto", ""}, {
			"webhook", `failed calling webhook "` + installation.RankWebhook,
		}, {"policy", ""}, {"webhook", installation.RankWebhook}, {"auto", ""},
	} {
		runHelm(
			t, c, "upgrade", installation.Release, chartDir,
			"--namespace", installation.Namespace, installation.ImageArg, "--set", "rankOffset.mode="+step.mode,
		)
		wait.For(t, "mode "+step.mode, func(ctx context.Context) error {
			got := findRankDenialReason(ctx, t, client)
			if (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
				return fmt.Errorf("denied with %q, want %q", got, step.want)
			}
			return nil
		})
		if diff := cmp.Diff(bundles, readLiveCABundles(t, client)); diff != "" {
			t.Errorf("mode %s: bundles: -before, +after:\n%s", step.mode, diff)
		}
	}
	cancel()
	running.Wait()
	t.Logf("%d pods tried; %d were denied because neither policy nor webhook was active", tries, inBetween)
}

// findRankDenialReason creates a pod with rank 3 by a dry run and returns the reason of a denial,
// or "".
func findRankDenialReason(ctx context.Context, t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	p, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "chart-", Labels: map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "2"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "train", Image: "train"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err.Error()
	}
	if got := p.Labels[gang.LabelRank]; got != "3" {
		t.Errorf("a pod was admitted with the rank %q", got)
	}
	return ""
}

// findLeftoverPolicies returns an error for each remaining policy.
func findLeftoverPolicies(ctx context.Context, client kubernetes.Interface) ([]error, error) {
	var left []error
	api, all := client.AdmissionregistrationV1(), metav1.ListOptions{}
	mutating, err := api.MutatingAdmissionPolicies().List(ctx, all)
	if err != nil && !apierrors.IsNotFound(err) { // Kubernetes before 1.36 does not have the kind.
		return nil, err
	}
	for _, o := range mutating.Items {
		left = append(left, fmt.Errorf("MutatingAdmissionPolicy %s is left", o.Name))
	}
	mutatingBindings, err := api.MutatingAdmissionPolicyBindings().List(ctx, all)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, o := range mutatingBindings.Items {
		left = append(left, fmt.Errorf("MutatingAdmissionPolicyBinding %s is left", o.Name))
	}
	validating, err := api.ValidatingAdmissionPolicies().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range validating.Items {
		left = append(left, fmt.Errorf("ValidatingAdmissionPolicy %s is left", o.Name))
	}
	validatingBindings, err := api.ValidatingAdmissionPolicyBindings().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range validatingBindings.Items {
		left = append(left, fmt.Errorf("ValidatingAdmissionPolicyBinding %s is left", o.Name))
	}
	return left, nil
}
