package traces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// container is the name of the only container.
const container = "trainer"

// forPods returns a step that calls a function with each pod, in the order of their indexes.
func forPods(name string, do func(*run, *corev1.Pod) error) Step {
	return Step{Name: name, do: func(r *run) error {
		r.observe()
		pods := slices.SortedFunc(maps.Values(r.pods), func(a, b *corev1.Pod) int {
			return cmp.Compare(r.names[a.UID], r.names[b.UID])
		})
		for _, pod := range pods {
			if err := do(r, pod); err != nil {
				return err
			}
		}
		return nil
	}}
}

// forPod returns a step that calls a function with the newest pod of an index.
func forPod(name string, index int32, do func(*run, *corev1.Pod) error) Step {
	return Step{Name: "rank " + strconv.Itoa(int(index)) + " " + name, do: func(r *run) error {
		pod, err := r.pod(index)
		if err != nil {
			return err
		}
		return do(r, pod)
	}}
}

// report writes the status of a pod as a kubelet does.
func report(r *run, pod *corev1.Pod, phase corev1.PodPhase, code int32) error {
	return r.Update(pod, "status", func(o client.Object) {
		s, now := &o.(*corev1.Pod).Status, metav1.NewTime(r.Now().Truncate(time.Second))
		ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		if phase != corev1.PodRunning {
			ready = corev1.ConditionFalse
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now}}
		}
		s.Phase = phase
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: now,
		})
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: state, Ready: phase == corev1.PodRunning}}
	})
}

// start starts the programs of all pods that have not started.
func start() Step {
	return forPods("all pods become ready", func(r *run, pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodPending {
			return nil
		}
		return report(r, pod, corev1.PodRunning, 0)
	})
}

// ready starts the program of a rank.
func ready(index int32) Step {
	return forPod("becomes ready", index, func(r *run, pod *corev1.Pod) error {
		return report(r, pod, corev1.PodRunning, 0)
	})
}

// exit ends the program of a rank.
func exit(index, code int32) Step {
	return forPod("exits with code "+strconv.Itoa(int(code)), index, func(r *run, pod *corev1.Pod) error {
		return report(r, pod, phaseOf(code), code)
	})
}

// restart restarts the container of a rank in its pod.
func restart(index, count int32) Step {
	name := fmt.Sprintf("has restarted its container %d times", count)
	return forPod(name, index, func(r *run, pod *corev1.Pod) error {
		return r.Update(pod, "status", func(o client.Object) {
			o.(*corev1.Pod).Status.ContainerStatuses[0].RestartCount = count
		})
	})
}

func phaseOf(code int32) corev1.PodPhase {
	if code == 0 {
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// confirm reports the exit code of a terminating pod, and then that its containers are gone.
func confirm(r *run, pod *corev1.Pod, code int32) error {
	if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return nil
	}
	if pod.Status.Phase == corev1.PodRunning {
		if err := report(r, pod, phaseOf(code), code); err != nil {
			return err
		}
	}
	return r.Delete(pod, true)
}

func terminated(index, code int32) Step {
	return forPod("has terminated with code "+strconv.Itoa(int(code)), index, func(r *run, pod *corev1.Pod) error {
		return confirm(r, pod, code)
	})
}

func allTerminated(code int32) Step {
	return forPods("all terminating pods have terminated with code "+strconv.Itoa(int(code)),
		func(r *run, pod *corev1.Pod) error { return confirm(r, pod, code) })
}

func evict(index int32) Step {
	return forPod("is evicted", index, func(r *run, pod *corev1.Pod) error { return r.Evict(pod) })
}

func deletePod(index int32) Step {
	return forPod("is deleted", index, func(r *run, pod *corev1.Pod) error { return r.Delete(pod, false) })
}

func forceDelete(index int32) Step {
	return forPod("is deleted by force", index, func(r *run, pod *corev1.Pod) error { return r.Delete(pod, true) })
}

// untrack removes the finalizer of a pod, as Rollcall does with deleted pods of a gang that has failed.
func untrack(index int32) Step {
	return forPod("loses its finalizer", index, func(r *run, pod *corev1.Pod) error {
		return r.Update(pod, "", func(o client.Object) { o.SetFinalizers(nil) })
	})
}

func changeJob(name, subresource string, change func(*batchv1.Job)) Step {
	return Step{Name: name, do: func(r *run) error {
		r.observe()
		return r.Update(r.workload, subresource, func(o client.Object) { change(o.(*batchv1.Job)) })
	}}
}

func suspend() Step {
	return changeJob("the Job is suspended", "", func(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) })
}

// resume starts another attempt.
func resume(attempt string) Step {
	return changeJob("the Job is resumed with attempt "+attempt, "", func(job *batchv1.Job) {
		job.Spec.Suspend, job.Spec.Template.Labels[gang.LabelAttempt] = ptr.To(false), attempt
	})
}

// reset resets the status as package attempt does.
func reset() Step {
	return changeJob("the status is reset", "status", func(job *batchv1.Job) {
		job.Status.StartTime, job.Status.Succeeded, job.Status.CompletedIndexes = nil, 0, ""
	})
}

func resizeJob(n int32) Step {
	return changeJob("the Job is resized to "+strconv.Itoa(int(n)), "", func(job *batchv1.Job) {
		job.Spec.Parallelism, job.Spec.Completions = ptr.To(n), ptr.To(n)
	})
}

func scaleSet(n int32) Step {
	return Step{Name: "the StatefulSet is scaled to " + strconv.Itoa(int(n)), do: func(r *run) error {
		r.observe()
		return r.Update(r.workload, "", func(o client.Object) { o.(*appsv1.StatefulSet).Spec.Replicas = ptr.To(n) })
	}}
}

func updateSet() Step {
	return Step{Name: "the template changes", do: func(r *run) error {
		r.observe()
		return r.Update(r.workload, "", func(o client.Object) {
			o.(*appsv1.StatefulSet).Spec.Template.Annotations = map[string]string{"example.com/version": "2"}
		})
	}}
}

func deleteWorkload() Step {
	return Step{Name: "the workload is deleted", do: func(r *run) error { return r.Delete(r.workload, false) }}
}
