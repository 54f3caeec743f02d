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
	"rollcall.training/test/wait"
)

const (
	// variantLabel is the label of a namespace that chooses how its pods get ranks. All variants
	// are installed together, each for its namespaces, so that nothing changes between two runs.
	variantLabel = "bench.rollcall.training/ranks"
	// applyExpression is the mutation of the chart's policy as an apply configuration.
	applyExpression = `Object{metadata: Object.metadata{labels: {'` + gang.LabelRank + `':
		string(int(variables.terms[0]) + int(variables.terms[1]))}}}`
)

// restrictToVariants restricts the webhooks and policies of the chart to the namespaces of their
// variants.
func restrictToVariants(t *testing.T, m *installation.Manager) {
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
		if configuration.Webhooks[i].Name == installation.RankWebhook {
			only(configuration.Webhooks[i].NamespaceSelector, variantWebhook, variantWebhookUnchecked)
		}
	}
	must(api.MutatingWebhookConfigurations().Update(ctx, configuration, metav1.UpdateOptions{}))
	check, err := api.ValidatingAdmissionPolicies().Get(ctx, installation.RankPolicy, metav1.GetOptions{})
	must(nil, err)
	only(check.Spec.MatchConstraints.NamespaceSelector, variantPolicy, variantWebhook)
	must(api.ValidatingAdmissionPolicies().Update(ctx, check, metav1.UpdateOptions{}))

	objects := installation.Render(t, m.Cluster, "--set", "rankOffset.mode=policy")
	policy := installation.SingleObject[*admissionv1.MutatingAdmissionPolicy](t, objects)
	binding := installation.SingleObject[*admissionv1.MutatingAdmissionPolicyBinding](t, objects)
	for name, variants := range map[string][]variant{
		installation.RankPolicy:            {variantPolicy, variantPolicyUnchecked},
		installation.RankPolicy + "-apply": {variantApplyConfiguration},
	} {
		p, b := policy.DeepCopy(), binding.DeepCopy()
		p.Name, b.Name, b.Spec.PolicyName = name, name, name
		only(p.Spec.MatchConstraints.NamespaceSelector, variants...)
		if name != installation.RankPolicy {
			p.Spec.Mutations = []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: applyExpression},
			}}
		}
		must(api.MutatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{}))
		must(api.MutatingAdmissionPolicyBindings().Create(ctx, b, metav1.CreateOptions{}))
	}
	waitForRankAdmission(t, m)
}

// waitForRankAdmission waits until each variant assigns ranks in its namespaces. It checks by dry
// run.
func waitForRankAdmission(t *testing.T, m *installation.Manager) {
	t.Helper()
	for _, v := range []variant{
		variantPolicy,
		variantWebhook,
		variantPolicyUnchecked,
		variantWebhookUnchecked,
		variantApplyConfiguration,
	} {
		ns, err := m.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Labels: map[string]string{variantLabel: string(v)}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wait.For(t, "ranks of the variant "+string(v), func(ctx context.Context) error {
			p, err := m.Client.CoreV1().Pods(ns.Name).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "try", Labels: map[string]string{
					gang.LabelRankOffset: strconv.Itoa(rankOffset), appsv1.PodIndexLabel: "2",
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: trainingContainer, Image: "example.com/train:1"}}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && p.Labels[gang.LabelRank] != "3" {
				err = fmt.Errorf("rank %q", p.Labels[gang.LabelRank])
			}
			return err
		})
	}
}

// apiServerMetrics holds the values of the API server's metrics by name and labels.
type apiServerMetrics map[string]float64

// readAPIServerMetrics reads the API server's metrics.
func (g *benchCluster) readAPIServerMetrics(ctx context.Context) (apiServerMetrics, error) {
	text, err := g.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	c := apiServerMetrics{}
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

// subtractEarlier returns the increase since earlier.
func (c apiServerMetrics) subtractEarlier(earlier apiServerMetrics) apiServerMetrics {
	d := apiServerMetrics{}
	for series, value := range c {
		d[series] = value - earlier[series]
	}
	return d
}

// sumSeries adds the series of a metric that have all the labels. A label is written as
// name="value", or as a prefix of that text.
func (c apiServerMetrics) sumSeries(metric string, labels ...string) float64 {
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

// checkRanks checks that each pod has the rank of its variant.
func (g *benchCluster) checkRanks(ctx context.Context, w rankLoad, v variant, namespace string) error {
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
		want := strconv.Itoa(n + rankOffset)
		switch v {
		case variantPlain, variantEnvFile, variantOrdinals:
			want = ""
		}
		if got := p.Labels[gang.LabelRank]; got != want {
			errs = append(errs, fmt.Errorf("pod %s of index %s has the rank %q, want %q", p.Name, index, got, want))
		}
		if v == variantOrdinals && n < rankOffset {
			errs = append(errs, fmt.Errorf("pod %s has the ordinal %d", p.Name, n))
		}
	}
	return errors.Join(errs...)
}
