package plan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Stick keeps a StatefulSet that is updated as it was admitted, for as long as
// the user's inputs stay the same: otherwise a new release of Rollcall would
// restart a training run at the next reconciliation of whatever applies its
// manifest. It reports whether it did; if not, the inputs have moved and the
// plan has to be applied anew.
//
// Clients differ in what they send: a patch arrives with the injection in place,
// a replace without. Both are compared by what remains without it.
func Stick(old, updated *appsv1.StatefulSet) (bool, error) {
	was, err := ReadRecord(gang.Workload{StatefulSet: old})
	if err != nil || was == nil || was.Inputs == "" {
		return false, nil //nolint:nilerr // an unreadable record is no record; Apply reports it
	}
	keepImmutable(old, updated, was)
	now, err := ReadRecord(gang.Workload{StatefulSet: updated})
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	digest, err := inputs(gang.Workload{StatefulSet: updated}, now)
	if err != nil {
		return false, err
	}
	// No replicas means that the gang is held back, by a user or while it is
	// restarted; it comes back as the same gang.
	replicas := ptr.Deref(updated.Spec.Replicas, 1)
	if digest != was.Inputs || replicas != was.Size && replicas != 0 {
		return false, nil
	}
	updated.Spec.Template = *old.Spec.Template.DeepCopy()
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	updated.Annotations[gang.AnnotationInjected] = old.Annotations[gang.AnnotationInjected]
	// What was written back is no wish of the user's either, and a replace drops it.
	if _, ok := updated.Labels[gang.LabelPhase]; !ok && old.Labels[gang.LabelPhase] != "" {
		updated.Labels[gang.LabelPhase] = old.Labels[gang.LabelPhase]
	}
	if _, ok := updated.Annotations[gang.AnnotationStatus]; !ok && old.Annotations[gang.AnnotationStatus] != "" {
		updated.Annotations[gang.AnnotationStatus] = old.Annotations[gang.AnnotationStatus]
	}
	return true, nil
}

// keepImmutable carries over the fields that admission once set and that cannot
// change afterwards.
func keepImmutable(old, updated *appsv1.StatefulSet, was *Record) {
	if slices.Contains(was.Fields, "serviceName") && updated.Spec.ServiceName == "" {
		updated.Spec.ServiceName = old.Spec.ServiceName
	}
	if slices.Contains(was.Fields, "podManagementPolicy") {
		updated.Spec.PodManagementPolicy = old.Spec.PodManagementPolicy
	}
}

// inputs digests what the user wrote: the keys under our prefix, and the template
// without what the record names as ours.
func inputs(w gang.Workload, r *Record) (string, error) {
	set := w.StatefulSet
	clean := gang.Workload{StatefulSet: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: *set.Spec.Template.DeepCopy()}}}
	if r != nil {
		p := newPod(clean)
		if sum, err := r.sum(p); err == nil && sum == r.Sum {
			for _, s := range r.slots() {
				p.remove(s)
			}
		}
	}
	spec := &clean.Template().Spec
	spec.EnableServiceLinks = nil
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].Env = orNil(list[i].Env)
			list[i].VolumeMounts = orNil(list[i].VolumeMounts)
		}
	}
	text, err := json.Marshal(map[string]any{
		"labels":      userKeys(set.Labels),
		"annotations": userKeys(set.Annotations),
		"template":    clean.Template(),
	})
	if err != nil {
		return "", fmt.Errorf("digesting the inputs of %s: %w", set.Name, err)
	}
	sum := sha256.Sum256(text)
	return digest(sum[:]), nil
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// userKeys keeps the keys under our prefix that users write.
func userKeys(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if strings.HasPrefix(k, gang.Prefix) && !gang.WrittenBack(k) {
			out[k] = v
		}
	}
	return out
}

func (r *Record) equal(o *Record) bool { return reflect.DeepEqual(r, o) }
