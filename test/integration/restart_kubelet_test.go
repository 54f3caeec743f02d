package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
)

// trainee is a gang in a namespace of its own, whose pods a node of the test's runs.
type trainee struct {
	*manager
	t  *testing.T
	ns string
	// members are its workloads.
	jobs, sets []string
}

// node runs the pods of a namespace until the test ends: it reports each new one as running and ready, but for those
// that lag names. Pods that no real node has are gone as soon as they are deleted.
func (m *manager) node(t *testing.T, ns string, lag func(corev1.Pod) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			list, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
			if err == nil {
				for _, p := range list.Items {
					if p.DeletionTimestamp == nil && p.Status.StartTime == nil && p.Status.Phase == corev1.PodPending && (lag == nil || !lag(p)) {
						m.starts(ctx, p)
					}
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// starts reports a pod as running. It may be gone by now, or have changed; then the next look finds it.
func (m *manager) starts(ctx context.Context, p corev1.Pod) {
	now := metav1.Now()
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }),
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	_, _ = m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
}

// gangOf creates the workloads of a gang and waits until it runs.
func (m *manager) gangOf(t *testing.T, ns string, workloads ...gang.Workload) *trainee {
	t.Helper()
	r := &trainee{manager: m, t: t, ns: ns}
	for _, w := range workloads {
		if w.Job != nil {
			r.jobs = append(r.jobs, m.createJob(t, ns, w.Job).Name)
		} else {
			r.sets = append(r.sets, m.createStatefulSet(t, ns, w.StatefulSet).Name)
		}
	}
	return r
}

// trains is gangOf on a node, and waits until the gang runs.
func (m *manager) trains(t *testing.T, ns string, workloads ...gang.Workload) *trainee {
	t.Helper()
	m.node(t, ns, nil)
	r := m.gangOf(t, ns, workloads...)
	r.reaches(gang.Running, 0)
	return r
}

// workloads reads the members.
func (r *trainee) workloads(ctx context.Context) ([]gang.Workload, error) {
	var out []gang.Workload
	for _, name := range r.jobs {
		j, err := r.Client.BatchV1().Jobs(r.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, gang.Workload{Job: j})
	}
	for _, name := range r.sets {
		s, err := r.Client.AppsV1().StatefulSets(r.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, gang.Workload{StatefulSet: s})
	}
	return out, nil
}

// reaches waits until all members say the phase and the attempt, and returns what the first of them says.
func (r *trainee) reaches(phase gang.Phase, attempt int32) gang.Status {
	r.t.Helper()
	var out gang.Status
	eventually(r.t, fmt.Sprintf("%s in attempt %d", phase, attempt), func(ctx context.Context) error {
		if err := r.are(phase, attempt)(ctx); err != nil {
			return err
		}
		all, err := r.workloads(ctx)
		if err == nil {
			out = gang.StatusOf(all[0])
		}
		return err
	})
	return out
}

// are checks whether all members say the phase and the attempt.
func (r *trainee) are(phase gang.Phase, attempt int32) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err != nil {
			return err
		}
		for _, w := range all {
			if s := gang.StatusOf(w); gang.PhaseOf(w) != phase || s.Attempt != attempt {
				return fmt.Errorf("%s: label %q, status %s", w.Meta().Name, gang.PhaseOf(w), w.Meta().Annotations[gang.AnnotationStatus])
			}
		}
		return nil
	}
}

// stays fails the test if the gang leaves its phase or attempt within d.
func (r *trainee) stays(d time.Duration) {
	r.t.Helper()
	all, err := r.workloads(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	before := gang.StatusOf(all[0])
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if all, err = r.workloads(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		for _, w := range all {
			if s := gang.StatusOf(w); s.Phase != before.Phase || s.Attempt != before.Attempt {
				r.t.Fatalf("%s left %s of attempt %d: %+v", w.Meta().Name, before.Phase, before.Attempt, s)
			}
		}
	}
}

// alive returns the gang's pods that were not told to go, by role and index.
func (r *trainee) alive() map[string]corev1.Pod {
	r.t.Helper()
	list, err := r.Client.CoreV1().Pods(r.ns).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		owner := metav1.GetControllerOf(&p)
		if owner == nil || !slices.Contains(slices.Concat(r.jobs, r.sets), owner.Name) {
			continue
		}
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
			out[fmt.Sprintf("%s-%d", p.Labels[gang.LabelRole], gang.IndexOf(&p))] = p
		}
	}
	return out
}

// pod is one of them.
func (r *trainee) pod(name string) corev1.Pod {
	r.t.Helper()
	p, ok := r.alive()[name]
	if !ok {
		r.t.Fatalf("there is no pod %s", name)
	}
	return p
}

// report writes a pod's status, and nothing else of it: the Job controller may have taken its finalizer away meanwhile.
func (r *trainee) report(p corev1.Pod) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": p.Status})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Client.CoreV1().Pods(r.ns).Patch(r.t.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		r.t.Fatalf("reporting the status of %s: %v", p.Name, err)
	}
}

// falls lets the container of a pod end with an exit code and start anew in place, as the kubelet does (KEP-5307).
func (r *trainee) falls(p corev1.Pod, code int32) {
	r.t.Helper()
	r.report(fallen(p, code))
}

// mayFall is falls for a pod that may have been taken away by now.
func (r *trainee) mayFall(p corev1.Pod, code int32) {
	r.t.Helper()
	p = fallen(p, code)
	p.ResourceVersion = ""
	_, err := r.Client.CoreV1().Pods(r.ns).UpdateStatus(r.t.Context(), &p, metav1.UpdateOptions{})
	if err != nil && !wentMeanwhile(err) {
		r.t.Fatalf("reporting the status of %s: %v", p.Name, err)
	}
}

// wentMeanwhile says of a write to a pod why it failed. Until 1.36, that is told as a conflict of UIDs.
func wentMeanwhile(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err)
}

func fallen(p corev1.Pod, code int32) corev1.Pod {
	p = *p.DeepCopy()
	c := &p.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Error", Message: fmt.Sprintf("%s says %d", gang.AnnotationStatus, code), FinishedAt: metav1.Now()}
	return p
}

// ends lets a pod end well.
func (r *trainee) ends(p corev1.Pod) {
	r.t.Helper()
	r.setPods(r.t, []corev1.Pod{p}, corev1.PodSucceeded)
}

// fresh fails the test unless all ranks run in pods that are not among those of before, and as many.
func (r *trainee) fresh(before map[string]corev1.Pod, attempt string) {
	r.t.Helper()
	now := r.alive()
	if len(now) != len(before) {
		r.t.Errorf("%d pods, want %d", len(now), len(before))
	}
	for name, p := range now {
		if p.UID == before[name].UID {
			r.t.Errorf("%s was not started anew", name)
		}
		if metav1.GetControllerOf(&p).Kind == string(gang.Job) && p.Labels[gang.LabelAttempt] != attempt {
			r.t.Errorf("%s is labelled with attempt %q, want %q", name, p.Labels[gang.LabelAttempt], attempt)
		}
	}
}

// jobFailed waits until a Job has failed.
func (r *trainee) jobFailed(name string) *batchv1.Job {
	r.t.Helper()
	var j *batchv1.Job
	eventually(r.t, "the failure of the Job "+name, func(ctx context.Context) (err error) {
		if j, err = r.Client.BatchV1().Jobs(r.ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		has := map[batchv1.JobConditionType]bool{}
		for _, c := range j.Status.Conditions {
			has[c.Type] = c.Status == corev1.ConditionTrue
		}
		if !has[batchv1.JobFailed] || !has["GangFailed"] || has["GangRunning"] {
			return fmt.Errorf("conditions %v", has)
		}
		return nil
	})
	return j
}

// gone waits until no pod is left that was not told to go.
func (r *trainee) gone(role string) {
	r.t.Helper()
	eventually(r.t, "the end of the pods", func(context.Context) error {
		for name, p := range r.alive() {
			if strings.HasPrefix(name, role+"-") && p.Status.Phase != corev1.PodSucceeded {
				return errors.New(name + " is left")
			}
		}
		return nil
	})
}

func (r *trainee) patchPod(p corev1.Pod, patch string) {
	r.t.Helper()
	if _, err := r.Client.CoreV1().Pods(r.ns).Patch(r.t.Context(), p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatalf("patching %s with %s: %v", p.Name, patch, err)
	}
}

func (r *trainee) patchJob(name, patch string) {
	r.t.Helper()
	if _, err := r.Client.BatchV1().Jobs(r.ns).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatalf("patching %s with %s: %v", name, patch, err)
	}
}

// training is a Job that may be restarted: it does not say how often its pods may fail.
func training(ranks int32, annotations ...string) gang.Workload {
	j := job("train", ranks)
	j.Spec.BackoffLimit = nil
	j.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		j.Annotations[annotations[i]] = annotations[i+1]
	}
	return gang.Workload{Job: j}
}

// memberJob is a member of a gang of several Jobs.
func memberJob(role string, ranks int32, roles string, annotations ...string) gang.Workload {
	w := training(ranks, append(annotations, gang.AnnotationRoles, roles)...)
	w.Job.Name = "train-" + role
	w.Job.Labels[gang.LabelRole] = role
	return w
}

// masterAndWorkers are two Jobs of 1 and 2 ranks.
func masterAndWorkers(annotations ...string) []gang.Workload {
	const roles = "master=1,worker=2"
	return []gang.Workload{memberJob("master", 1, roles, annotations...), memberJob("worker", 2, roles, annotations...)}
}

// launcherAndWorkers are a Job and a StatefulSet.
func launcherAndWorkers(workers int32) []gang.Workload {
	l := launcher(workers)
	l.Spec.BackoffLimit = nil
	return []gang.Workload{{Job: l}, {StatefulSet: worker(workers)}}
}

var oneSet = gang.Workload{StatefulSet: statefulSet("train", 3)}

func pending(p corev1.Pod) bool { return p.Labels[gang.LabelAttempt] == "0" && gang.IndexOf(&p) == 1 }
