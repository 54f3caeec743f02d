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

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// restartGoal is how much longer Rollcall may take than the same pods stopped and started by hand.
	restartGoal = 1.1
	// patienceWithPlain is how long one waits for a plain Job to replace its pod.
	patienceWithPlain = 2 * time.Minute
)

// restartLoads are gangs of a usual size and of a large one.
var restartLoads = []load{{Gangs: 1, Ranks: 256}, {Gangs: 1, Ranks: 8}}

// restartRun is one restart.
type restartRun struct {
	// Ready is the time from the first rank's failure until all ranks are ready in new pods; of a plain Job, until the
	// one pod that failed is replaced. Stopped is when the last of the old ones was gone.
	Ready, Stopped float64
	// writes are those meanwhile.
	writes map[write]int
	// CPU is what each program computed until nothing was written any more.
	CPU map[string]float64
}

// TestRestart measures how long a gang is away when a rank fails: labelled, stopped and started by hand through the
// same API, and as a plain Job, which does not bring the others back at all.
func TestRestart(t *testing.T) {
	variants := []variant{plain, byHand, labelled}
	namespace := func(l load, v variant, round int) string { return fmt.Sprintf("restart-%d-%s-%d", l.Ranks, v, round) }
	var namespaces []string
	for _, l := range restartLoads {
		for _, v := range variants {
			for round := range rounds + 1 {
				namespaces = append(namespaces, namespace(l, v, round))
			}
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodes, APIServerFlags: audit.flags()})
	installation.New(t, c, "--log-level=info") // the default, where debug would cost time
	g := newGround(t, c, audit)
	var text strings.Builder
	for _, l := range restartLoads {
		runs := map[variant][]restartRun{}
		for round := range rounds + 1 {
			order := slices.Clone(variants)
			if round%2 == 0 {
				slices.Reverse(order)
			}
			for _, v := range order {
				r := g.restart(t, l, v, namespace(l, v, round))
				t.Logf("round %d: %s, %s: stopped after %.2f s, ready after %.2f s; CPU %v", round, l, v, r.Stopped, r.Ready, r.CPU)
				if round > 0 {
					runs[v] = append(runs[v], r)
				}
			}
		}
		checkRestartWrites(t, l, runs[labelled])
		text.WriteString(restartTable(l, variants, runs))
	}
	t.Logf("\n%s", text.String())
}

// restart makes a gang, lets its first rank fail when all are ready, and waits until they are again.
func (g *ground) restart(t *testing.T, l load, v variant, namespace string) restartRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
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
	first, err := g.watch(ctx, namespace)
	must(err)
	must(g.create(ctx, l, v, namespace))
	err = allReady(ctx, first, l.Ranks)
	first.Stop()
	must(err)
	if v == labelled {
		must(g.running(ctx, namespace))
	}
	g.audit.quiet(t, settled)
	_ = g.audit.writes(t, namespace) // those of its beginning
	again, err := g.watch(ctx, namespace)
	must(err)
	old, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	must(err)
	defer again.Stop()
	before := cpu(t)
	r := g.fell(t, ctx, l, v, namespace, old.Items, again)
	if v == labelled {
		must(g.running(ctx, namespace))
	}
	g.audit.quiet(t, settled)
	r.CPU = map[string]float64{}
	for name, seconds := range cpu(t) {
		r.CPU[name] = seconds - before[name]
	}
	r.writes = g.audit.writes(t, namespace)
	must(g.clear(ctx, namespace))
	return r
}

// fell lets the first rank fail and follows what comes of it.
func (g *ground) fell(t *testing.T, ctx context.Context, l load, v variant, namespace string, old []corev1.Pod, pods watch.Interface) restartRun {
	t.Helper()
	begin := time.Now()
	w := restartWatch{begin: begin, old: map[string]bool{}, ready: map[string]bool{}}
	for _, p := range old {
		w.old[p.Name] = true
	}
	var err error
	switch v {
	case plain:
		err = g.fails(ctx, old[0], true)
	case labelled:
		err = g.fails(ctx, old[0], false)
	default:
		go g.restartByHand(ctx, t, namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := l.Ranks
	if v == plain {
		want = 1
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patienceWithPlain)
		defer cancel()
	}
	err = w.follow(ctx, pods, want)
	if v == plain && errors.Is(err, context.DeadlineExceeded) {
		return restartRun{Ready: patienceWithPlain.Seconds()}
	}
	if err != nil {
		t.Fatal(err)
	}
	return restartRun{Ready: time.Since(begin).Seconds(), Stopped: w.stopped.Seconds()}
}

// fails reports what a kubelet does when the container of a pod ends with an error: that the pod failed, or, where the
// container starts anew in its place, that it did so once.
func (g *ground) fails(ctx context.Context, p corev1.Pod, pod bool) error {
	end := map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "finishedAt": time.Now().UTC().Format(time.RFC3339)}}
	status := map[string]any{"containerStatuses": []map[string]any{{
		"name": container, "image": p.Spec.Containers[0].Image, "imageID": "", "ready": true, "restartCount": 1, "lastState": end, "state": map[string]any{"running": map[string]any{}}}}}
	if pod {
		status = map[string]any{"phase": corev1.PodFailed, "containerStatuses": []map[string]any{{
			"name": container, "image": p.Spec.Containers[0].Image, "imageID": "", "ready": false, "restartCount": 0, "state": end}}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("writing the failure of a pod: %w", err)
	}
	if _, err = g.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("reporting the failure of %s: %w", p.Name, err)
	}
	return nil
}

// restartByHand is what a user with a script does: suspend, wait, resume.
func (g *ground) restartByHand(ctx context.Context, t *testing.T, namespace string) {
	jobs := g.client.BatchV1().Jobs(namespace)
	list, err := jobs.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d Jobs, %v", len(list.Items), err)
		return
	}
	name := list.Items[0].Name
	set := func(suspend bool) error {
		_, err := jobs.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, suspend), metav1.PatchOptions{})
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
		if j, ok := e.Object.(*batchv1.Job); ok && halted(j) {
			if err := set(false); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the watch of the Job ended")
}

func halted(j *batchv1.Job) bool {
	suspended := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	return suspended && j.Status.Active == 0 && j.Status.Terminating != nil && *j.Status.Terminating == 0
}

// restartWatch reads a watch of pods until enough new ones are ready.
type restartWatch struct {
	begin      time.Time
	old, ready map[string]bool
	stopped    time.Duration
}

func (w *restartWatch) follow(ctx context.Context, pods watch.Interface, want int) error {
	for len(w.ready) < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d new pods, of which %d are ready: %w", want, len(w.ready), ctx.Err())
		case e, open := <-pods.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			switch {
			case !open || !ok:
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			case w.old[p.Name] && e.Type == watch.Deleted:
				w.stopped = time.Since(w.begin)
			case !w.old[p.Name] && isReady(p):
				w.ready[p.Name] = true
			}
		}
	}
	return nil
}

// checkRestartWrites: what Rollcall writes for a restart does not depend on the size.
func checkRestartWrites(t *testing.T, l load, runs []restartRun) {
	t.Helper()
	for _, r := range runs {
		got := maps.Clone(r.writes)
		maps.DeleteFunc(got, func(w write, _ int) bool { return w.Writer != rollcall || w.Refused })
		spec, status := got[write{Writer: rollcall, Verb: "patch", Resource: "jobs"}], got[write{Writer: rollcall, Verb: "patch", Resource: "jobs/status"}]
		// Suspended and let go; that it runs no more, and that it runs again. A gang that takes a while is said to
		// start between the two.
		if spec != 2 || status != 2 && status != 3 {
			t.Errorf("%s: %d patches of the Job and %d of its status, want 2, and 2 or 3: %v", l, spec, status, got)
		}
	}
}

// restartTable shows the medians to people.
func restartTable(l load, variants []variant, runs map[variant][]restartRun) string {
	var text strings.Builder
	middleOf := func(v variant, of func(restartRun) float64) float64 {
		var all []float64
		for _, r := range runs[v] {
			all = append(all, of(r))
		}
		return middle(all)
	}
	ready := func(r restartRun) float64 { return r.Ready }
	fmt.Fprintf(&text, "=== %s, the first of which fails: labelled/by-hand %.2f (goal %.2f)\n", l, middleOf(labelled, ready)/middleOf(byHand, ready), restartGoal)
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
	row("until the last old pod is gone", func(v variant) float64 { return middleOf(v, func(r restartRun) float64 { return r.Stopped }) })
	row("until the new pods are ready", func(v variant) float64 { return middleOf(v, ready) })
	for i := range rounds {
		row(fmt.Sprintf("round %d", i+1), func(v variant) float64 { return runs[v][i].Ready })
	}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "manager"} {
		row("CPU seconds of "+program, func(v variant) float64 { return middleOf(v, func(r restartRun) float64 { return r.CPU[program] }) })
	}
	for _, resource := range []string{"jobs", "jobs/status", "events"} {
		row("Rollcall's writes to "+resource, func(v variant) float64 {
			return middleOf(v, func(r restartRun) (n float64) {
				for k, count := range r.writes {
					if k.Writer == rollcall && k.Resource == resource && !k.Refused {
						n += float64(count)
					}
				}
				return n
			})
		})
	}
	fmt.Fprintln(w)
	_ = w.Flush()
	text.WriteString("A plain Job replaces the one pod; its other ranks are not started anew.\n")
	return text.String()
}
