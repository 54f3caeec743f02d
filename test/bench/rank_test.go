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
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// Ways to give pods a rank that is not their index; plain is not to.
const (
	// byPolicy and byWebhook are as the chart installs them, with its check at the end of admission.
	byPolicy  variant = "policy"
	byWebhook variant = "webhook"
	// The same without the check, which tells the two costs apart.
	policyAlone  variant = "policy-alone"
	webhookAlone variant = "webhook-alone"
	// applied is a policy alone that says what to change by an apply configuration, not by a JSON patch.
	applied variant = "apply-alone"
	// fromFile pods have an init container that would write the rank into a file of variables.
	fromFile variant = "file"
	// ordinals are of a StatefulSet that begins to count at the offset.
	ordinals variant = "ordinals"
)

// firstRank is the offset of all workloads here.
const firstRank = 1

// workload is how the pods of a load are made.
type workload struct {
	load
	kind gang.Kind
}

func (w workload) String() string {
	return fmt.Sprintf("%d %s(s) of %d pods", w.Gangs, w.kind, w.Ranks)
}

func (w workload) pods() int { return w.Gangs * w.Ranks }

// rankVariants are measured of a kind, in the order of the table's columns.
func rankVariants(kind gang.Kind) []variant {
	variants := []variant{plain, byPolicy, byWebhook}
	if os.Getenv(partsEnv) != "true" {
		return variants
	}
	if kind == gang.StatefulSet {
		return append(variants, ordinals)
	}
	return append(variants, policyAlone, applied, webhookAlone, fromFile)
}

// TestRanks measures the ways in which pods can get a rank of offset + index (docs/adr/0011), by turns in one cluster.
// Its result is in its log. What is asserted: each pod has its rank, the API server asks the one that it should, once for
// each pod, and for plain pods nobody.
func TestRanks(t *testing.T) {
	workloads := []workload{
		{load{Gangs: 1, Ranks: 500}, gang.Job}, {load{Gangs: 100, Ranks: 8}, gang.Job}, {load{Gangs: 1, Ranks: 256}, gang.StatefulSet},
	}
	namespace := func(w workload, v variant, round int) string {
		return strings.ToLower(fmt.Sprintf("ranks-%s-%dx%d-%s-%d", w.kind, w.Gangs, w.Ranks, v, round))
	}
	var namespaces []string
	for _, w := range workloads {
		for _, v := range rankVariants(w.kind) {
			for round := range rounds + 1 {
				namespaces = append(namespaces, namespace(w, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodes, APIServerFlags: audit.flags()})
	m := installation.NewWithChart(t, c, []string{"--set", "rankOffset.mode=webhook"}, "--log-level=info")
	g := newGround(t, c, audit)
	divide(t, m)

	g.calls(t)
	for _, w := range workloads {
		variants := rankVariants(w.kind)
		runs := map[variant][]rankRun{}
		for round := range rounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				slices.Reverse(order) // see TestBench
			}
			for _, v := range order {
				r := g.runRanks(t, w, v, namespace(w, v, round))
				t.Logf("round %d: %s, %s: ready after %.2f s", round, w, v, r[ready])
				if round > 0 {
					runs[v] = append(runs[v], r)
				}
			}
		}
		t.Logf("\n%s", rankTable(w, variants, runs))
	}
}

// rankRun is what was measured, by the names of the table's rows.
type rankRun map[string]float64

const (
	exist      = "seconds until all pods exist"
	ready      = "seconds until all are ready"
	post       = "ms of the API server for each creation of a pod"
	admission  = "ms of these in admission, of any kind"
	bySelf     = "ms of these in who gives the rank"
	checked    = "ms of these in validating policies"
	cpuServer  = "CPU seconds: kube-apiserver"
	cpuManager = "CPU seconds: manager"
	cpuAll     = "CPU seconds: all programs"
)

// rankRows are the rows in their order.
var rankRows = []string{exist, ready, post, admission, bySelf, checked, cpuServer, cpuManager, cpuAll}

// runRanks makes the workloads in a namespace of their own, measures, checks and takes them away.
func (g *ground) runRanks(t *testing.T, w workload, v variant, namespace string) rankRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %v", w, v, err)
		}
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{variantLabel: string(v)}}}
	_, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	must(err)
	pods, err := g.watch(ctx, namespace)
	must(err)
	defer pods.Stop()

	r := rankRun{}
	counted, err := g.counters(ctx)
	must(err)
	before, begin := cpu(t), time.Now()
	must(g.createRanks(ctx, w, v, namespace))
	must(r.follow(ctx, pods, w.pods(), begin))
	g.audit.quiet(t, settled)
	for name, seconds := range cpu(t) {
		r[cpuAll] += seconds - before[name]
		switch name {
		case "kube-apiserver":
			r[cpuServer] = seconds - before[name]
		case "manager":
			r[cpuManager] = seconds - before[name]
		}
	}
	now, err := g.counters(ctx)
	must(err)
	r.admission(t, w, v, now.since(counted))
	for kind, count := range g.audit.writes(t, namespace) {
		if kind.Refused && kind.Resource == "pods" {
			t.Errorf("%s, %s: %d times %s", w, v, count, kind)
		}
	}
	must(g.checkRanks(ctx, w, v, namespace))
	must(g.client.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(g.clear(ctx, namespace))
	return r
}

// admission reads what the API server counted, and checks whom it asked, and how often.
func (r rankRun) admission(t *testing.T, w workload, v variant, c counters) {
	t.Helper()
	policies := func(name string) float64 {
		return c.sum("apiserver_mutating_admission_policy_check_duration_seconds_"+name, `policy="`+rankPolicy)
	}
	webhook := func(name string) float64 {
		return c.sum("apiserver_admission_webhook_admission_duration_seconds_"+name, `name="`+rankWebhook+`"`)
	}
	pods := float64(w.pods())
	want := map[string]float64{"policy": 0, "webhook": 0}
	switch v {
	case byPolicy, policyAlone, applied:
		want["policy"] = pods
	case byWebhook, webhookAlone:
		want["webhook"] = pods
	}
	got := map[string]float64{"policy": policies("count"), "webhook": webhook("count")}
	if !maps.Equal(got, want) {
		t.Errorf("%s, %s: asked %v, want %v", w, v, got, want)
	}
	r[post] = 1000 * c.sum("apiserver_request_duration_seconds_sum", `resource="pods"`, `subresource=""`, `verb="POST"`) /
		c.sum("apiserver_request_duration_seconds_count", `resource="pods"`, `subresource=""`, `verb="POST"`)
	// Other objects are created as well, the same for each variant.
	r[admission] = 1000 * c.sum("apiserver_admission_step_admission_duration_seconds_sum", `operation="CREATE"`) / pods
	r[bySelf] = 1000 * (policies("sum") + webhook("sum")) / pods
	// Of a validating policy that has nothing to say, the API server counts no more than the plugin's time.
	r[checked] = 1000 * c.sum("apiserver_admission_controller_admission_duration_seconds_sum",
		`name="ValidatingAdmissionPolicy"`, `operation="CREATE"`) / pods
}

// createRanks makes the workloads one after another.
func (g *ground) createRanks(ctx context.Context, w workload, v variant, namespace string) error {
	for i := range w.Gangs {
		name := fmt.Sprintf("workers-%03d", i)
		var err error
		if w.kind == gang.StatefulSet {
			_, err = g.client.AppsV1().StatefulSets(namespace).Create(ctx, rankSet(name, namespace, int32(w.Ranks), v), metav1.CreateOptions{})
		} else {
			j := job(name, namespace, int32(w.Ranks))
			ranked(&j.Spec.Template, v, batchv1.JobCompletionIndexAnnotation)
			_, err = g.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
	}
	return nil
}

func rankSet(name, namespace string, pods int32, v variant) *appsv1.StatefulSet {
	template := job(name, namespace, pods).Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	template.Labels = map[string]string{"app": name}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &pods, PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: name,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template,
		},
	}
	if v == ordinals {
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: firstRank}
	}
	ranked(&s.Spec.Template, v, appsv1.PodIndexLabel)
	return s
}

// ranked lets the container of a template read the rank in one of the ways.
func ranked(template *corev1.PodTemplateSpec, v variant, indexLabel string) {
	field := func(label string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + label + "']"}}
	}
	rank := corev1.EnvVar{Name: "RANK", ValueFrom: field(indexLabel)}
	switch v {
	case plain, ordinals:
	case fromFile:
		const volume, path = "rank", "rank.env"
		template.Spec.Volumes = []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		template.Spec.InitContainers = []corev1.Container{{
			Name: "rank", Image: "example.com/train:1", Env: []corev1.EnvVar{{Name: "INDEX", ValueFrom: field(indexLabel)}},
			Command:      []string{"/bin/sh", "-c", "echo RANK=$((INDEX + 1)) > /rank/" + path},
			VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/rank"}},
		}}
		rank.ValueFrom = &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: volume, Path: path, Key: "RANK"}}
	default:
		if template.Labels == nil {
			template.Labels = map[string]string{}
		}
		template.Labels[gang.LabelRankOffset] = strconv.Itoa(firstRank)
		rank.ValueFrom = field(gang.LabelRank)
	}
	template.Spec.Containers[0].Env = []corev1.EnvVar{rank}
}

// follow reads a watch until so many pods are ready, and notes when that was and when all existed.
func (r rankRun) follow(ctx context.Context, pods watch.Interface, want int, begin time.Time) error {
	seen, running := map[string]bool{}, map[string]bool{}
	for len(running) < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d pods, of which %d exist and %d are ready: %w", want, len(seen), len(running), ctx.Err())
		case e, open := <-pods.ResultChan():
			if !open || e.Type == watch.Error {
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if seen[p.Name] = true; len(seen) == want && r[exist] == 0 {
				r[exist] = time.Since(begin).Seconds()
			}
			if isReady(p) {
				running[p.Name] = true
			}
		}
	}
	r[ready] = time.Since(begin).Seconds()
	return nil
}

// rankTable shows the medians to people, and each one's ratio to plain.
func rankTable(w workload, variants []variant, runs map[variant][]rankRun) string {
	var text strings.Builder
	fmt.Fprintf(&text, "=== %s, median of %d rounds (beside it: to plain)\n", w, rounds)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\t")
	for _, v := range variants {
		fmt.Fprintf(table, "%s\t\t", v)
	}
	fmt.Fprint(table, "\n")
	for _, row := range rankRows {
		fmt.Fprintf(table, "%s\t", row)
		base := medianOf(runs[plain], row)
		for _, v := range variants {
			value := medianOf(runs[v], row)
			ratio := ""
			if base > 0 && v != plain {
				ratio = fmt.Sprintf("(%.2f)", value/base)
			}
			fmt.Fprintf(table, "%.3f\t%s\t", value, ratio)
		}
		fmt.Fprint(table, "\n")
	}
	_ = table.Flush() // the builder never fails
	return text.String()
}

func medianOf(runs []rankRun, row string) float64 {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, r[row])
	}
	return middle(values)
}
