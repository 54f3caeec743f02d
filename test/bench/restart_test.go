package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// restartTargetRatio is the maximum ratio of the times of a restart by Rollcall and of a manual
	// restart of the same pods.
	restartTargetRatio = 1.1
	// plainJobTimeout bounds the wait for a plain Job to replace its pod.
	plainJobTimeout = 2 * time.Minute
)

// restartSizes are a large and a common number of ranks.
var restartSizes = []int{256, 8}

// restartPhase is an event that ends a part of a restart.
type restartPhase string

// The events in their order. For a plain Job, the new pods are the one that replaces the failed pod.
const (
	oldPodsBeginToTerminate restartPhase = "first old pod terminates"
	oldPodsTerminate        restartPhase = "last old pod terminates"
	oldPodsGone             restartPhase = "last old pod is gone"
	newPodsBegin            restartPhase = "first new pod exists"
	newPodsExist            restartPhase = "last new pod exists"
	newPodsBound            restartPhase = "last new pod is bound"
	newPodsReady            restartPhase = "last new pod is ready"
)

var restartPhases = []restartPhase{
	oldPodsBeginToTerminate, oldPodsTerminate, oldPodsGone, newPodsBegin, newPodsExist, newPodsBound, newPodsReady,
}

// restartResult holds the measurements of one restart.
type restartResult struct {
	// seconds are the times of the events since the failure of the first rank.
	seconds map[restartPhase]float64
	// writes counts the writes during the restart.
	writes map[writeKind]int
	// CPUSeconds is the CPU time of each program until writes stop.
	CPUSeconds map[string]float64
}

// TestRestartOverhead measures how long a gang is unavailable after the failure of a rank. It
// compares labeled gangs, manual restarts through the same API, and plain Jobs, which do not
// restart the other ranks.
func TestRestartOverhead(t *testing.T) {
	variants := []variant{variantPlain, variantManual, variantLabeled}
	namespace := func(l load, v variant, round int) string { return fmt.Sprintf("restart-%d-%s-%d", l.Ranks, v, round) }
	rounds := readRounds(t)
	var namespaces []string
	var loads []load
	for _, ranks := range readScaleSizes(t, restartSizes) {
		loads = append(loads, load{Gangs: 1, Ranks: ranks})
	}
	for _, l := range loads {
		for _, v := range variants {
			for round := range rounds + 1 {
				namespaces = append(namespaces, namespace(l, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{
		Nodes:          cluster.Kwok,
		KwokNodes:      nodeCount,
		APIServerFlags: audit.apiServerFlags(),
	})
	installation.New(t, c, "--log-level=info") // the default level: debug would cost time
	g := newBenchCluster(t, c, audit)
	var text strings.Builder
	for _, l := range loads {
		runs := map[variant][]restartResult{}
		for round := range rounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				slices.Reverse(order)
			}
			for _, v := range order {
				r := g.measureRestart(t, l, v, namespace(l, v, round))
				t.Logf("round %d: %s, %s: seconds %v; CPU %v", round, l, v, r.seconds, r.CPUSeconds)
				if round > 0 {
					runs[v] = append(runs[v], r)
				}
			}
		}
		checkRestartWrites(t, l, runs[variantLabeled])
		text.WriteString(formatRestartTable(l, variants, runs))
	}
	t.Logf("\n%s", text.String())
}

// measureRestart creates a gang, waits until all ranks are ready, makes the first rank fail, and
// waits until all ranks are ready again.
func (g *benchCluster) measureRestart(t *testing.T, l load, v variant, namespace string) restartResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %v", l, v, err)
		}
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	must(err)
	first, err := g.watchPods(ctx, namespace)
	must(err)
	must(g.createJobs(ctx, l, v, namespace))
	_, err = waitForReadyPods(ctx, first, l.Ranks)
	first.Stop()
	must(err)
	if v == variantLabeled {
		must(g.waitForPhase(ctx, namespace, lifecycle.Running))
	}
	g.audit.waitUntilQuiet(t, quietPeriod)
	_ = g.audit.countWrites(t, namespace) // discard the writes of the start
	again, err := g.watchPods(ctx, namespace)
	must(err)
	old, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	must(err)
	defer again.Stop()
	before := readCPUSeconds(t)
	r := g.failFirstRank(t, ctx, l, v, namespace, old.Items, again)
	if v == variantLabeled {
		must(g.waitForPhase(ctx, namespace, lifecycle.Running))
	}
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.CPUSeconds = subtractCPUSeconds(readCPUSeconds(t), before)
	r.writes = g.audit.countWrites(t, namespace)
	must(g.deleteGangs(ctx, namespace))
	return r
}

// failFirstRank makes the first rank fail and measures the restart.
func (g *benchCluster) failFirstRank(
	t *testing.T, ctx context.Context, l load, v variant, namespace string, old []corev1.Pod, pods watch.Interface,
) restartResult {
	t.Helper()
	begin := time.Now()
	w := newReplacementWatch(begin, old)
	var err error
	switch v {
	case variantPlain:
		err = g.reportContainerFailure(ctx, old[0], true)
	case variantLabeled:
		err = g.reportContainerFailure(ctx, old[0], false)
	default:
		go g.restartManually(ctx, t, namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := l.Ranks
	if v == variantPlain {
		want = 1
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, plainJobTimeout)
		defer cancel()
	}
	err = w.waitForReplacements(ctx, pods, want)
	if v == variantPlain && errors.Is(err, context.DeadlineExceeded) {
		return restartResult{seconds: map[restartPhase]float64{newPodsReady: plainJobTimeout.Seconds()}}
	}
	if err != nil {
		t.Fatal(err)
	}
	return restartResult{seconds: w.seconds}
}

// reportContainerFailure writes the status that a kubelet reports when the container of a pod
// fails. If pod is true, the pod failed. Otherwise the kubelet restarted the container once.
func (g *benchCluster) reportContainerFailure(ctx context.Context, p corev1.Pod, pod bool) error {
	end := map[string]any{
		"terminated": map[string]any{"exitCode": 1, "reason": "Error", "finishedAt": time.Now().UTC().Format(time.RFC3339)},
	}
	status := map[string]any{"containerStatuses": []map[string]any{{
		"name": trainingContainer, "image": p.Spec.Containers[0].Image, "imageID": "",
		"ready": true, "restartCount": 1, "lastState": end,
		"state": map[string]any{"running": map[string]any{}}}}}
	if pod {
		status = map[string]any{"phase": corev1.PodFailed, "containerStatuses": []map[string]any{{
			"name": trainingContainer, "image": p.Spec.Containers[0].Image, "imageID": "",
			"ready": false, "restartCount": 0, "state": end}}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("writing the failure of a pod: %w", err)
	}
	if _, err = g.client.CoreV1().Pods(p.Namespace).Patch(
		ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		return fmt.Errorf("reporting the failure of %s: %w", p.Name, err)
	}
	return nil
}

// restartManually restarts a gang as a script of a user does: it suspends the Job, waits, and
// resumes it.
func (g *benchCluster) restartManually(ctx context.Context, t *testing.T, namespace string) {
	jobs := g.client.BatchV1().Jobs(namespace)
	list, err := jobs.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d Jobs, %v", len(list.Items), err)
		return
	}
	name := list.Items[0].Name
	set := func(suspend bool) error {
		_, err := jobs.Patch(
			ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, suspend), metav1.PatchOptions{},
		)
		return err
	}
	w, err := jobs.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Stop()
	if err := set(true); err != nil {
		t.Error(err)
		return
	}
	for e := range w.ResultChan() {
		if j, ok := e.Object.(*batchv1.Job); ok && isFullySuspended(j) {
			if err := set(false); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the watch of the Job ended")
}

func isFullySuspended(j *batchv1.Job) bool {
	suspended := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	return suspended && j.Status.Active == 0 && j.Status.Terminating != nil && *j.Status.Terminating == 0
}

// replacementWatch reads a watch of pods until enough new pods are ready.
type replacementWatch struct {
	startTime time.Time
	// oldPods contains the pods of the former attempt; true for those that terminate.
	oldPods map[string]bool
	// newPods are the latest events of the new pods, of which ready are ready.
	newPods map[string]restartPhase
	ready   int
	seconds map[restartPhase]float64
}

func newReplacementWatch(startTime time.Time, old []corev1.Pod) *replacementWatch {
	w := &replacementWatch{
		startTime: startTime, oldPods: map[string]bool{}, newPods: map[string]restartPhase{},
		seconds: map[restartPhase]float64{},
	}
	for _, p := range old {
		w.oldPods[p.Name] = false
	}
	return w
}

func (w *replacementWatch) waitForReplacements(ctx context.Context, pods watch.Interface, want int) error {
	for w.ready < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d new pods, of which %d are ready: %w", want, w.ready, ctx.Err())
		case e, open := <-pods.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			if !open || !ok {
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			if _, isOld := w.oldPods[p.Name]; isOld {
				w.recordOldPod(e.Type, p)
			} else {
				w.recordNewPod(p)
			}
		}
	}
	return nil
}

// record records that a phase ends now, unless a later pod ends it.
func (w *replacementWatch) record(phase restartPhase) {
	w.seconds[phase] = time.Since(w.startTime).Seconds()
}

func (w *replacementWatch) recordOldPod(event watch.EventType, p *corev1.Pod) {
	if p.DeletionTimestamp != nil && !w.oldPods[p.Name] {
		w.oldPods[p.Name] = true
		if w.seconds[oldPodsBeginToTerminate] == 0 {
			w.record(oldPodsBeginToTerminate)
		}
		w.record(oldPodsTerminate)
	}
	if event == watch.Deleted {
		w.record(oldPodsGone)
	}
}

func (w *replacementWatch) recordNewPod(p *corev1.Pod) {
	phase := newPodsExist
	switch {
	case lifecycle.IsPodReady(p):
		phase = newPodsReady
	case p.Spec.NodeName != "":
		phase = newPodsBound
	}
	if w.newPods[p.Name] == phase {
		return
	}
	if len(w.newPods) == 0 {
		w.record(newPodsBegin)
	}
	if phase == newPodsReady {
		w.ready++
	}
	w.newPods[p.Name] = phase
	w.record(phase)
}

// checkRestartWrites checks that the number of Rollcall's writes for a restart does not depend on
// the size of the gang.
func checkRestartWrites(t *testing.T, l load, runs []restartResult) {
	t.Helper()
	for _, r := range runs {
		got := maps.Clone(r.writes)
		maps.DeleteFunc(got, func(w writeKind, _ int) bool { return w.Writer != writerRollcall || w.Rejected })
		spec, status := got[writeKind{Writer: writerRollcall, Verb: "patch", Resource: "jobs"}], got[writeKind{
			Writer:   writerRollcall,
			Verb:     "patch",
			Resource: "jobs/status",
		}]
		// Two writes suspend and resume the Job. The status writes set the phases Restarting and Running.
		if spec != 2 || status != 2 {
			t.Errorf("%s: %d patches of the Job and %d of its status, want 2 and 2: %v", l, spec, status, got)
		}
	}
}

// formatRestartTable returns a table with the medians.
func formatRestartTable(l load, variants []variant, runs map[variant][]restartResult) string {
	var text strings.Builder
	middleOf := func(v variant, of func(restartResult) float64) float64 {
		var all []float64
		for _, r := range runs[v] {
			all = append(all, of(r))
		}
		return computeMedian(all)
	}
	at := func(phase restartPhase) func(restartResult) float64 {
		return func(r restartResult) float64 { return r.seconds[phase] }
	}
	ready := at(newPodsReady)
	fmt.Fprintf(
		&text, "=== %s, the first of which fails: labeled/manual %.2f (target %.2f)\n",
		l, middleOf(variantLabeled, ready)/middleOf(variantManual, ready), restartTargetRatio,
	)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "seconds, median of rounds\t")
	for _, v := range variants {
		fmt.Fprintf(w, "%s\t", v)
	}
	row := func(name string, of func(variant) float64) {
		fmt.Fprintf(w, "\n%s\t", name)
		for _, v := range variants {
			fmt.Fprintf(w, "%.2f\t", of(v))
		}
	}
	for _, phase := range restartPhases {
		row("until the "+string(phase), func(v variant) float64 { return middleOf(v, at(phase)) })
	}
	for i := range runs[variants[0]] {
		row(fmt.Sprintf("round %d", i+1), func(v variant) float64 { return ready(runs[v][i]) })
	}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "manager"} {
		row("CPU seconds of "+program, func(v variant) float64 {
			return middleOf(v, func(r restartResult) float64 { return r.CPUSeconds[program] })
		})
	}
	for _, resource := range []string{"jobs", "jobs/status", "events"} {
		row("Rollcall's writes to "+resource, func(v variant) float64 {
			return middleOf(v, func(r restartResult) (n float64) {
				for k, count := range r.writes {
					if k.Writer == writerRollcall && k.Resource == resource && !k.Rejected {
						n += float64(count)
					}
				}
				return n
			})
		})
	}
	fmt.Fprintln(w)
	_ = w.Flush()
	text.WriteString("A plain Job replaces only the failed pod. Its other ranks are not restarted.\n")
	return text.String()
}
