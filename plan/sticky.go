package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// Stick keeps a StatefulSet that is updated as it was admitted, for as long as
// the user's inputs stay the same: otherwise a new release of Rollcall would
// restart a training run at the next reconciliation of whatever applies its
// manifest. It reports whether it did; if not, the inputs have moved and the
// plan has to be applied anew, to the set of the same gang: it is told its size and its
// state all the same.
//
// Clients differ in what they send: a patch arrives with the injection in place,
// a replace without. Old and new object are compared by what remains without what
// the old one's record names, both by this build, so that nothing depends on how
// another build would have written them.
func Stick(old, updated *appsv1.StatefulSet) (bool, error) {
	was, err := ReadRecord(gang.Workload{StatefulSet: old})
	if err != nil || was == nil {
		return false, nil //nolint:nilerr // an unreadable record is no record; Apply reports it
	}
	keepImmutable(old, updated, was)
	before, _, err := inputs(old, was)
	if err != nil {
		return false, err
	}
	now, whole, err := inputs(updated, was)
	if err != nil {
		return false, err
	}
	// No replicas means that the gang is held back, by a user or while it is
	// restarted; it comes back as the same gang.
	replicas := gang.Workload{StatefulSet: updated}.Ranks()
	restore(old, updated)
	if now != before || replicas != was.Size && replicas != 0 {
		return false, nil
	}
	if !whole {
		updated.Spec.Template = *old.Spec.Template.DeepCopy()
	}
	updated.Annotations[gang.AnnotationInjected] = old.Annotations[gang.AnnotationInjected]
	return true, nil
}

// restore brings back what Rollcall wrote to the metadata, which a replace drops.
func restore(old, updated *appsv1.StatefulSet) {
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	keep := func(was, now map[string]string, key string) {
		if _, ok := now[key]; !ok && was[key] != "" {
			now[key] = was[key]
		}
	}
	keep(old.Annotations, updated.Annotations, gang.AnnotationInjected)
	keep(old.Annotations, updated.Annotations, gang.AnnotationStatus)
	keep(old.Labels, updated.Labels, gang.LabelPhase)
}

// keepImmutable carries over the fields that admission once set and that cannot
// change afterwards.
func keepImmutable(old, updated *appsv1.StatefulSet, was *Record) {
	if was.Fields[fieldServiceName] != "" && updated.Spec.ServiceName == "" {
		updated.Spec.ServiceName = old.Spec.ServiceName
	}
	if was.Fields["podManagementPolicy"] != "" {
		updated.Spec.PodManagementPolicy = old.Spec.PodManagementPolicy
	}
}

// inputs is what the user wrote: the keys under our prefix, the ordinals, and the
// template without what the record names and the set still holds. It also tells
// whether the set holds all of that.
func inputs(set *appsv1.StatefulSet, r *Record) (text string, whole bool, err error) {
	template := set.Spec.Template.DeepCopy()
	p := newPod(template)
	intact := r.intact(p)
	for s := range intact {
		p.remove(s)
	}
	template.Spec.EnableServiceLinks = nil
	template.Spec.InitContainers = orNil(template.Spec.InitContainers)
	template.Spec.Volumes = orNil(template.Spec.Volumes)
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range list {
			list[i].Env = orNil(list[i].Env)
			list[i].VolumeMounts = orNil(list[i].VolumeMounts)
			// The API server's default, which a client need not send.
			list[i].TerminationMessagePolicy = cmp.Or(list[i].TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		}
	}
	out, err := json.Marshal(map[string]any{
		"labels":      userKeys(set.Labels),
		"annotations": userKeys(set.Annotations),
		"ordinals":    set.Spec.Ordinals,
		"template":    template,
	})
	if err != nil {
		return "", false, fmt.Errorf("reading the inputs of %s: %w", set.Name, err)
	}
	return string(out), len(intact) == r.places(), nil
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// userKeys keeps the keys under our prefix that users write, and that the template
// follows from. What is heeded while a gang runs is not among them.
func userKeys(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if strings.HasPrefix(k, gang.Prefix) && !gang.WrittenBack(k) && !gang.Live(k) {
			out[k] = v
		}
	}
	return out
}

func (r *Record) equal(o *Record) bool { return reflect.DeepEqual(r, o) }
