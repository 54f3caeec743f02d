package gang

import (
	"cmp"
	"slices"
	"strings"
)

// HasRoles reports whether the workload has the annotation [AnnotationRoles], which makes it a
// member of a multi-workload gang.
func (w Workload) HasRoles() bool {
	_, ok := w.Meta().Annotations[AnnotationRoles]
	return ok
}

// ResolveName returns the name of the workload's gang. After admission it is the name on the pod
// template, which is immutable in a Job. Before admission it follows from the metadata.
func ResolveName(w Workload, frameworks Frameworks) string {
	requested := w.Meta().Labels[LabelGang]
	if w.HasRoles() {
		requested = cmp.Or(requested, DeriveName(w, frameworks))
	}
	return cmp.Or(w.Template().Labels[LabelGang], requested, w.Meta().Name)
}

// DeriveName returns the name of the multi-workload gang that the workload's own name suggests:
// "train" for the workload train-worker with the role worker. It is empty if the workload is not
// named after its role.
func DeriveName(w Workload, frameworks Frameworks) string {
	f, _ := frameworks.Find(w.Meta().Labels[LabelFramework])
	role := f.roleOf(w.Meta())
	if name, ok := strings.CutSuffix(w.Meta().Name, "-"+role); ok && role != "" {
		return name
	}
	return ""
}

// IsMultiWorkloadMember reports whether a workload is a member of the multi-workload gang with the
// workload's gang name, if that gang exists. The workload has roles, or its name consists of the
// name of the gang and its role. A single-workload gang of the same name is a different gang, and
// must not decide whether the multi-workload gang succeeds.
func IsMultiWorkloadMember(w Workload, frameworks Frameworks) bool {
	return w.HasRoles() || DeriveName(w, frameworks) == ResolveName(w, frameworks)
}

// Group is a gang as the set of its existing workloads. Members that do not exist yet are only in
// the annotation [AnnotationRoles] of the others.
type Group struct {
	// Namespace and Name identify the gang. Several single-workload gangs can share a name.
	Namespace, Name string
	// MultiWorkload is true if at least one workload has the annotation [AnnotationRoles].
	MultiWorkload bool
	// Workloads has at least one element. The order is that of the input of [GroupWorkloads].
	Workloads []Workload
}

// GroupWorkloads returns the gangs that the workloads form, ordered by their first workload.
// Workloads without [LabelFramework] and workloads that opted out are not in any gang.
//
// Workloads with the same namespace and gang name are one gang if at least one of them has roles.
// Members of that gang are the workloads for which [IsMultiWorkloadMember] is true. Every other
// workload is a gang of its own, even if the name is the same, as for the Jobs of a CronJob.
func GroupWorkloads(workloads []Workload, frameworks Frameworks) []Group {
	type key struct{ namespace, name string }
	keyOf := func(w Workload) key { return key{w.Meta().Namespace, ResolveName(w, frameworks)} }
	managed := slices.DeleteFunc(slices.Clone(workloads), func(w Workload) bool {
		return !w.HasFrameworkLabel() || w.OptedOut()
	})
	multiWorkload := map[key]bool{}
	for _, w := range managed {
		if w.HasRoles() {
			multiWorkload[keyOf(w)] = true
		}
	}
	var groups []Group
	groupIndex := map[key]int{}
	for _, w := range managed {
		k := keyOf(w)
		isMember := multiWorkload[k] && IsMultiWorkloadMember(w, frameworks)
		if i, exists := groupIndex[k]; exists && isMember {
			groups[i].Workloads = append(groups[i].Workloads, w)
			continue
		}
		if isMember {
			groupIndex[k] = len(groups)
		}
		groups = append(groups, Group{
			Namespace: k.namespace, Name: k.name, MultiWorkload: isMember, Workloads: []Workload{w},
		})
	}
	return groups
}
