package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/installation"
)

const (
	// variantLabel of a namespace says how its pods get their ranks. All ways are in force at once, each in its namespaces,
	// so that nothing is installed between two runs.
	variantLabel = "bench.rollcall.training/ranks"
	// rankPolicy and rankWebhook are the chart's names. The policies that are only here have names that begin like it.
	rankPolicy  = installation.Release + "-rank"
	rankWebhook = "rank.rollcall.training"
	// applyExpression is the chart's mutation as an apply configuration.
	applyExpression = `Object{metadata: Object.metadata{labels: {'` + gang.LabelRank + `':
		string(int(variables.terms[0]) + int(variables.terms[1]))}}}`
)

// divide takes what the chart installs, for webhooks and for policies, and has each in force for its variants alone.
func divide(t *testing.T, m *installation.Manager) {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, api := t.Context(), m.Client.AdmissionregistrationV1()
	only := func(s *metav1.LabelSelector, variants ...variant) {
		values := make([]string, 0, len(variants))
		for _, v := range variants {
			values = append(values, string(v))
		}
		s.MatchExpressions = append(s.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: variantLabel, Operator: metav1.LabelSelectorOpIn, Values: values})
	}
	configuration, err := api.MutatingWebhookConfigurations().Get(ctx, installation.Release, metav1.GetOptions{})
	must(nil, err)
	for i := range configuration.Webhooks {
		if configuration.Webhooks[i].Name == rankWebhook {
			only(configuration.Webhooks[i].NamespaceSelector, byWebhook, webhookAlone)
		}
	}
	must(api.MutatingWebhookConfigurations().Update(ctx, configuration, metav1.UpdateOptions{}))
	check, err := api.ValidatingAdmissionPolicies().Get(ctx, rankPolicy, metav1.GetOptions{})
	must(nil, err)
	only(check.Spec.MatchConstraints.NamespaceSelector, byPolicy, byWebhook)
	must(api.ValidatingAdmissionPolicies().Update(ctx, check, metav1.UpdateOptions{}))

	objects := installation.Render(t, m.Cluster, "--set", "rankOffset.mode=policy")
	policy := installation.One[*admissionv1.MutatingAdmissionPolicy](t, objects)
	binding := installation.One[*admissionv1.MutatingAdmissionPolicyBinding](t, objects)
	for name, variants := range map[string][]variant{rankPolicy: {byPolicy, policyAlone}, rankPolicy + "-apply": {applied}} {
		p, b := policy.DeepCopy(), binding.DeepCopy()
		p.Name, b.Name, b.Spec.PolicyName = name, name, name
		only(p.Spec.MatchConstraints.NamespaceSelector, variants...)
		if name != rankPolicy {
			p.Spec.Mutations = []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: applyExpression},
			}}
		}
		must(api.MutatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{}))
		must(api.MutatingAdmissionPolicyBindings().Create(ctx, b, metav1.CreateOptions{}))
	}
	inForce(t, m)
}

// inForce waits until each way gives ranks in its namespaces, as a dry run shows.
func inForce(t *testing.T, m *installation.Manager) {
	t.Helper()
	for _, v := range []variant{byPolicy, byWebhook, policyAlone, webhookAlone, applied} {
		ns, err := m.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Labels: map[string]string{variantLabel: string(v)}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		installation.Eventually(t, "ranks by "+string(v), func(ctx context.Context) error {
			p, err := m.Client.CoreV1().Pods(ns.Name).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "try", Labels: map[string]string{
					gang.LabelRankOffset: strconv.Itoa(firstRank), appsv1.PodIndexLabel: "2",
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "example.com/train:1"}}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && p.Labels[gang.LabelRank] != "3" {
				err = fmt.Errorf("rank %q", p.Labels[gang.LabelRank])
			}
			return err
		})
	}
}

// counters are what the API server counts, by metric and labels.
type counters map[string]float64

// counters reads the API server's metrics.
func (g *ground) counters(ctx context.Context) (counters, error) {
	text, err := g.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	c := counters{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		c[line[:i]] = value
	}
	return c, nil
}

// since is what was counted after earlier.
func (c counters) since(earlier counters) counters {
	d := counters{}
	for series, value := range c {
		d[series] = value - earlier[series]
	}
	return d
}

// sum adds the series of a metric that have all the labels, each as name="value", or as how that begins.
func (c counters) sum(metric string, labels ...string) float64 {
	total := 0.0
next:
	for series, value := range c {
		name, rest, _ := strings.Cut(series, "{")
		if name != metric {
			continue
		}
		for _, l := range labels {
			if !strings.HasPrefix(rest, l) && !strings.Contains(rest, ","+l) {
				continue next
			}
		}
		total += value
	}
	return total
}

// checkRanks looks whether each pod has the rank that its variant would give it.
func (g *ground) checkRanks(ctx context.Context, w workload, v variant, namespace string) error {
	pods, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	var errs []error
	for _, p := range pods.Items {
		index := p.Labels[batchv1.JobCompletionIndexAnnotation]
		if w.kind == gang.StatefulSet {
			index = p.Labels[appsv1.PodIndexLabel]
		}
		n, err := strconv.Atoi(index)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s has the index %q", p.Name, index))
		}
		want := strconv.Itoa(n + firstRank)
		switch v {
		case plain, fromFile, ordinals:
			want = ""
		}
		if got := p.Labels[gang.LabelRank]; got != want {
			errs = append(errs, fmt.Errorf("pod %s of index %s has the rank %q, want %q", p.Name, index, got, want))
		}
		if v == ordinals && n < firstRank {
			errs = append(errs, fmt.Errorf("pod %s has the ordinal %d", p.Name, n))
		}
	}
	return errors.Join(errs...)
}
