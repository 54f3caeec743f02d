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
)

const (
	// rankWebhook is the webhook for pods.
	rankWebhook = "rank.rollcall.training"
	// rankPolicy is the name of the policies for pods, and of their bindings.
	rankPolicy = chartRelease + "-rank"
)

// renderedPolicies returns what each of the chart's policies is evaluated for, by kind.
func renderedPolicies(t *testing.T, c *cluster.Cluster, args ...string) map[string]*admissionv1.MatchResources {
	t.Helper()
	matches := map[string]*admissionv1.MatchResources{}
	for _, o := range render(t, c, args...) {
		switch policy := o.(type) {
		case *admissionv1.MutatingAdmissionPolicy:
			matches["MutatingAdmissionPolicy"] = policy.Spec.MatchConstraints
		case *admissionv1.ValidatingAdmissionPolicy:
			matches["ValidatingAdmissionPolicy"] = policy.Spec.MatchConstraints
		}
	}
	return matches
}

// hasPolicy says whether a cluster has MutatingAdmissionPolicy, which is on since Kubernetes 1.36.
func hasPolicy(c *cluster.Cluster) bool { return c.Release() != cluster.Floor }

// testRankModes checks who gives ranks. In each case it is somebody, and not two; and the check at the end is always there.
func testRankModes(t *testing.T, c *cluster.Cluster) {
	for name, tc := range map[string]struct {
		reason   string
		args     []string
		byPolicy bool
	}{
		"Auto":    {"The policy is taken where the cluster has its API.", nil, hasPolicy(c)},
		"Policy":  {"It can be asked for where no cluster is asked.", []string{"--set", "rankOffset.mode=policy"}, true},
		"Webhook": {"It can be asked for anywhere.", []string{"--set", "rankOffset.mode=webhook"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			policies := renderedPolicies(t, c, tc.args...)
			_, byPolicy := policies["MutatingAdmissionPolicy"]
			called := len(renderedWebhooks(t, c, tc.args...)[rankWebhook].Rules) > 0
			if byPolicy != tc.byPolicy || called == tc.byPolicy {
				t.Errorf("%s\npolicy: %v, webhook: %v", tc.reason, byPolicy, called)
			}
			if _, ok := policies["ValidatingAdmissionPolicy"]; !ok {
				t.Errorf("%s\nnobody looks whether a rank was given", tc.reason)
			}
		})
	}
	// Without a cluster to ask, as "helm template" is: what works on all of them.
	out := runHelm(t, c, "template", chartRelease, chartDir, "--namespace", releaseNamespace)
	if strings.Contains(out, "MutatingAdmissionPolicy\n") {
		t.Error("helm template takes a policy for granted that clusters before Kubernetes 1.36 do not know")
	}
}

// testRankModeChanges upgrades from policy to webhook and back while pods are made without a pause and no manager answers.
// The webhook keeps its bundle all the time, and at no time is there a pod without its rank.
func testRankModeChanges(t *testing.T, c *cluster.Cluster, bundles map[string]string) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, cancel := context.WithCancel(t.Context())
	var tries, inBetween int
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; tries++ {
			if strings.Contains(refusedRank(ctx, t, client), `must be "3"`) {
				inBetween++
			}
		}
	})
	for _, step := range []struct{ mode, want string }{
		{"auto", ""}, {"webhook", `failed calling webhook "` + rankWebhook}, {"policy", ""}, {"webhook", rankWebhook}, {"auto", ""},
	} {
		runHelm(t, c, "upgrade", chartRelease, chartDir, "--namespace", releaseNamespace, "--set", "rankOffset.mode="+step.mode)
		eventually(t, "mode "+step.mode, func(ctx context.Context) error {
			got := refusedRank(ctx, t, client)
			if (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
				return fmt.Errorf("refused with %q, want %q", got, step.want)
			}
			return nil
		})
		if diff := cmp.Diff(bundles, liveBundles(t, client)); diff != "" {
			t.Errorf("mode %s: bundles: -before, +after:\n%s", step.mode, diff)
		}
	}
	cancel()
	running.Wait()
	t.Logf("%d pods tried, of which %d met neither policy nor webhook and were refused", tries, inBetween)
}

// refusedRank makes a pod of rank 3 by a dry run and returns why it was refused, if it was.
func refusedRank(ctx context.Context, t *testing.T, client kubernetes.Interface) string {
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
		t.Errorf("a pod was let through with the rank %q", got)
	}
	return ""
}

// policiesLeft says which policies there are.
func policiesLeft(ctx context.Context, client kubernetes.Interface) ([]error, error) {
	var left []error
	api, all := client.AdmissionregistrationV1(), metav1.ListOptions{}
	mutating, err := api.MutatingAdmissionPolicies().List(ctx, all)
	if err != nil && !apierrors.IsNotFound(err) { // Before Kubernetes 1.36 there is no such kind.
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
