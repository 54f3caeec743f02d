package attempt

import (
	"strconv"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// Suspend suspends a Job or scales a StatefulSet to 0.
func Suspend(w gang.Workload) {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(true)
		return
	}
	w.StatefulSet.Spec.Replicas = ptr.To[int32](0)
}

// Resume resumes a Job or scales a StatefulSet to its recorded size, and reports whether it changed the
// workload. It sets the attempt label of the Job's pods: the labels of its template may change while the
// Job is suspended (KEP-2926). It does not resume a StatefulSet without a recorded size, which its user
// edited.
func Resume(w gang.Workload, attempt int32) bool {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(false)
		w.SetAttempt(attempt)
		return true
	}
	size := recordedReplicas(w)
	if size == 0 {
		return false
	}
	w.StatefulSet.Spec.Replicas = ptr.To(size)
	return true
}

// recordedReplicas returns the size to which a StatefulSet is resumed; 0 if it is not known. Users can
// edit the record. A size that exceeds the gang size in the environment of the pods is therefore not
// known: the record and the template were injected together. The environment of an elastic gang
// contains no size.
func recordedReplicas(w gang.Workload) int32 {
	if size := injection.RecordedSize(w); size <= injectedGangSize(w) {
		return size
	}
	return 0
}

// injectedGangSize returns the gang size in the environment of the pods, or [gang.MaxPods] without one.
func injectedGangSize(w gang.Workload) int32 {
	for _, c := range w.Template().Spec.Containers {
		for _, e := range c.Env {
			if size, err := strconv.ParseInt(e.Value, 10, 32); e.Name == gang.EnvSize && err == nil {
				return int32(min(size, gang.MaxPods))
			}
		}
	}
	return gang.MaxPods
}
