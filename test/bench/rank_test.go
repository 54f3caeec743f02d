package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// Variants of assigning pods a rank that is not their index. variantPlain pods get none.
const (
	// variantPolicy and variantWebhook are the implementations of the chart, with the check at the
	// end of admission.
	variantPolicy  variant = "policy"
	variantWebhook variant = "webhook"
	// variantPolicyUnchecked and variantWebhookUnchecked omit the check, which separates the two
	// costs.
	variantPolicyUnchecked  variant = "policy-unchecked"
	variantWebhookUnchecked variant = "webhook-unchecked"
	// variantApplyConfiguration is an unchecked policy that uses an apply configuration instead of
	// a JSON patch.
	variantApplyConfiguration variant = "apply-configuration"
	// variantEnvFile pods have an init container that would write the rank to a file of environment
	// variables.
	variantEnvFile variant = "file"
	// variantOrdinals pods belong to a StatefulSet whose ordinals start at the offset.
	variantOrdinals variant = "ordinals"
)

// rankOffset is the offset of all workloads of this test.
const rankOffset = 1

// rankLoad is a load of one kind of workload.
type rankLoad struct {
	load
	kind gang.Kind
}

func (w rankLoad) String() string {
	return fmt.Sprintf("%d %s(s) of %d pods", w.Gangs, w.kind, w.Ranks)
}

func (w rankLoad) podCount() int { return w.Gangs * w.Ranks }

// listRankVariants returns the variants for a kind of workload, in the order of the table's
// columns.
func listRankVariants(kind gang.Kind) []variant {
	variants := []variant{variantPlain, variantPolicy, variantWebhook}
	if os.Getenv(allVariantsEnv) != "true" {
		return variants
	}
	if kind == gang.StatefulSet {
		return append(variants, variantOrdinals)
	}
	return append(variants, variantPolicyUnchecked, variantApplyConfiguration, variantWebhookUnchecked, variantEnvFile)
}

// TestRankOverhead measures the variants of assigning pods a rank of offset plus index
// (docs/adr/0003-roles.md). It alternates between them in one cluster and logs the result. It
// asserts that each pod has its rank, that the API server calls the correct plugin once for each
// pod, and that it calls none for plain pods.
func TestRankOverhead(t *testing.T) {
	workloads := []rankLoad{
		{load{Gangs: 1, Ranks: 500}, gang.Job},
		{load{Gangs: 100, Ranks: 8}, gang.Job},
		{load{Gangs: 1, Ranks: 256}, gang.StatefulSet},
	}
	namespace := func(w rankLoad, v variant, round int) string {
		return strings.ToLower(fmt.Sprintf("ranks-%s-%dx%d-%s-%d", w.kind, w.Gangs, w.Ranks, v, round))
	}
	var namespaces []string
	for _, w := range workloads {
		for _, v := range listRankVariants(w.kind) {
			for round := range measuredRounds + 1 {
				namespaces = append(namespaces, namespace(w, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{
		Nodes:          cluster.Kwok,
		KwokNodes:      nodeCount,
		APIServerFlags: audit.apiServerFlags(),
	})
	m := installation.NewWithChart(t, c, []string{"--set", "rankOffset.mode=webhook"}, "--log-level=info")
	g := newBenchCluster(t, c, audit)
	restrictToVariants(t, m)

	g.measureAdmissionCalls(t)
	for _, w := range workloads {
		variants := listRankVariants(w.kind)
		runs := map[variant][]rankResult{}
		for round := range measuredRounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				slices.Reverse(order) // see TestLabelOverhead
			}
			for _, v := range order {
				r := g.measureRanks(t, w, v, namespace(w, v, round))
				t.Logf("round %d: %s, %s: ready after %.2f s", round, w, v, r[rowPodsReady])
				if round > 0 {
					runs[v] = append(runs[v], r)
				}
			}
		}
		t.Logf("\n%s", formatRankTable(w, variants, runs))
	}
}

// rankResult holds the measurements by the names of the table's rows.
type rankResult map[string]float64

const (
	rowPodsExist             = "seconds until all pods exist"
	rowPodsReady             = "seconds until all pods are ready"
	rowPodCreateLatency      = "ms of the API server for each creation of a pod"
	rowAdmissionLatency      = "ms of these in admission, of any kind"
	rowRankAssignmentLatency = "ms of these in rank assignment"
	rowValidationLatency     = "ms of these in validating policies"
	rowAPIServerCPU          = "CPU seconds: kube-apiserver"
	rowManagerCPU            = "CPU seconds: manager"
	rowTotalCPU              = "CPU seconds: all programs"
)

// rankTableRows lists the rows in their order.
var rankTableRows = []string{
	rowPodsExist,
	rowPodsReady,
	rowPodCreateLatency,
	rowAdmissionLatency,
	rowRankAssignmentLatency,
	rowValidationLatency,
	rowAPIServerCPU,
	rowManagerCPU,
	rowTotalCPU,
}

// measureRanks creates the workloads in their own namespace, measures, checks and deletes them.
func (g *benchCluster) measureRanks(t *testing.T, w rankLoad, v variant, namespace string) rankResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %v", w, v, err)
		}
	}
	object := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{variantLabel: string(v)}},
	}
	_, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	must(err)
	pods, err := g.watchPods(ctx, namespace)
	must(err)
	defer pods.Stop()

	r := rankResult{}
	counted, err := g.readAPIServerMetrics(ctx)
	must(err)
	before, begin := readCPUSeconds(t), time.Now()
	must(g.createRankWorkloads(ctx, w, v, namespace))
	must(r.waitForReadyPods(ctx, pods, w.podCount(), begin))
	g.audit.waitUntilQuiet(t, quietPeriod)
	for name, seconds := range readCPUSeconds(t) {
		r[rowTotalCPU] += seconds - before[name]
		switch name {
		case "kube-apiserver":
			r[rowAPIServerCPU] = seconds - before[name]
		case "manager":
			r[rowManagerCPU] = seconds - before[name]
		}
	}
	now, err := g.readAPIServerMetrics(ctx)
	must(err)
	r.recordAdmission(t, w, v, now.subtractEarlier(counted))
	for kind, count := range g.audit.countWrites(t, namespace) {
		if kind.Rejected && kind.Resource == "pods" {
			t.Errorf("%s, %s: %d times %s", w, v, count, kind)
		}
	}
	must(g.checkRanks(ctx, w, v, namespace))
	must(g.client.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(g.deleteGangs(ctx, namespace))
	return r
}

// recordAdmission records the API server's admission metrics, and checks which plugins it called
// and how often.
func (r rankResult) recordAdmission(t *testing.T, w rankLoad, v variant, c apiServerMetrics) {
	t.Helper()
	policies := func(name string) float64 {
		return c.sumSeries(
			"apiserver_mutating_admission_policy_check_duration_seconds_"+name, `policy="`+installation.RankPolicy,
		)
	}
	webhook := func(name string) float64 {
		return c.sumSeries(
			"apiserver_admission_webhook_admission_duration_seconds_"+name, `name="`+installation.RankWebhook+`"`,
		)
	}
	pods := float64(w.podCount())
	want := map[string]float64{"policy": 0, "webhook": 0}
	switch v {
	case variantPolicy, variantPolicyUnchecked, variantApplyConfiguration:
		want["policy"] = pods
	case variantWebhook, variantWebhookUnchecked:
		want["webhook"] = pods
	}
	got := map[string]float64{"policy": policies("count"), "webhook": webhook("count")}
	if !maps.Equal(got, want) {
		t.Errorf("%s, %s: called %v, want %v", w, v, got, want)
	}
	r[rowPodCreateLatency] = 1000 * c.sumSeries("apiserver_request_duration_seconds_sum",
		`resource="pods"`, `subresource=""`, `verb="POST"`) /
		c.sumSeries("apiserver_request_duration_seconds_count", `resource="pods"`, `subresource=""`, `verb="POST"`)
	// These sums include creations of other objects, which are the same in each variant.
	r[rowAdmissionLatency] = 1000 * c.sumSeries("apiserver_admission_step_admission_duration_seconds_sum",
		`operation="CREATE"`) / pods
	r[rowRankAssignmentLatency] = 1000 * (policies("sum") + webhook("sum")) / pods
	// If a validating policy has no findings, the API server records the time of the plugin only.
	r[rowValidationLatency] = 1000 * c.sumSeries("apiserver_admission_controller_admission_duration_seconds_sum",
		`name="ValidatingAdmissionPolicy"`, `operation="CREATE"`) / pods
}

// createRankWorkloads creates the workloads sequentially.
func (g *benchCluster) createRankWorkloads(ctx context.Context, w rankLoad, v variant, namespace string) error {
	for i := range w.Gangs {
		name := fmt.Sprintf("workers-%03d", i)
		var err error
		if w.kind == gang.StatefulSet {
			_, err = g.client.AppsV1().StatefulSets(namespace).Create(
				ctx, newRankStatefulSet(name, namespace, int32(w.Ranks), v), metav1.CreateOptions{},
			)
		} else {
			j := newJob(name, namespace, int32(w.Ranks))
			setRankSource(&j.Spec.Template, v, batchv1.JobCompletionIndexAnnotation)
			_, err = g.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
	}
	return nil
}

func newRankStatefulSet(name, namespace string, pods int32, v variant) *appsv1.StatefulSet {
	template := newJob(name, namespace, pods).Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	template.Labels = map[string]string{"app": name}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &pods, PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: name,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template,
		},
	}
	if v == variantOrdinals {
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: rankOffset}
	}
	setRankSource(&s.Spec.Template, v, appsv1.PodIndexLabel)
	return s
}

// setRankSource lets the container of a template read its rank as the variant requires.
func setRankSource(template *corev1.PodTemplateSpec, v variant, indexLabel string) {
	field := func(label string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + label + "']"},
		}
	}
	rank := corev1.EnvVar{Name: "RANK", ValueFrom: field(indexLabel)}
	switch v {
	case variantPlain, variantOrdinals:
	case variantEnvFile:
		const volume, path = "rank", "rank.env"
		template.Spec.Volumes = []corev1.Volume{
			{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
		template.Spec.InitContainers = []corev1.Container{{
			Name: "rank", Image: "example.com/train:1", Env: []corev1.EnvVar{{Name: "INDEX", ValueFrom: field(indexLabel)}},
			Command:      []string{"/bin/sh", "-c", "echo RANK=$((INDEX + 1)) > /rank/" + path},
			VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/rank"}},
		}}
		rank.ValueFrom = &corev1.EnvVarSource{
			FileKeyRef: &corev1.FileKeySelector{VolumeName: volume, Path: path, Key: "RANK"},
		}
	default:
		if template.Labels == nil {
			template.Labels = map[string]string{}
		}
		template.Labels[gang.LabelRankOffset] = strconv.Itoa(rankOffset)
		rank.ValueFrom = field(gang.LabelRank)
	}
	template.Spec.Containers[0].Env = []corev1.EnvVar{rank}
}

// waitForReadyPods reads a watch until the wanted number of pods is ready. It records when all pods
// existed and when all were ready.
func (r rankResult) waitForReadyPods(ctx context.Context, pods watch.Interface, want int, begin time.Time) error {
	seen, running := map[string]bool{}, map[string]bool{}
	for len(running) < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d pods, of which %d exist and %d are ready: %w",
				want, len(seen), len(running), ctx.Err())
		case e, open := <-pods.ResultChan():
			if !open || e.Type == watch.Error {
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if seen[p.Name] = true; len(seen) == want && r[rowPodsExist] == 0 {
				r[rowPodsExist] = time.Since(begin).Seconds()
			}
			if lifecycle.IsPodReady(p) {
				running[p.Name] = true
			}
		}
	}
	r[rowPodsReady] = time.Since(begin).Seconds()
	return nil
}

// formatRankTable returns a table with the medians and their ratios to the plain variant.
func formatRankTable(w rankLoad, variants []variant, runs map[variant][]rankResult) string {
	var text strings.Builder
	fmt.Fprintf(&text, "=== %s, median of %d rounds (and ratio to plain)\n", w, measuredRounds)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\t")
	for _, v := range variants {
		fmt.Fprintf(table, "%s\t\t", v)
	}
	fmt.Fprint(table, "\n")
	for _, row := range rankTableRows {
		fmt.Fprintf(table, "%s\t", row)
		base := medianOfRow(runs[variantPlain], row)
		for _, v := range variants {
			value := medianOfRow(runs[v], row)
			ratio := ""
			if base > 0 && v != variantPlain {
				ratio = fmt.Sprintf("(%.2f)", value/base)
			}
			fmt.Fprintf(table, "%.3f\t%s\t", value, ratio)
		}
		fmt.Fprint(table, "\n")
	}
	_ = table.Flush() // a strings.Builder never fails
	return text.String()
}

func medianOfRow(runs []rankResult, row string) float64 {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, r[row])
	}
	return computeMedian(values)
}
