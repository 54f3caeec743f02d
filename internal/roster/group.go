package roster

import (
	"slices"

	"rollcall.training/gang"
)

// Group is a gang as the set of its existing workloads. Members that do not exist yet are only in
// the annotation [gang.AnnotationRoles] of the others.
type Group struct {
	// Namespace and Name identify the gang. Several single-workload gangs can share a name.
	Namespace, Name string
	// MultiWorkload is true if at least one workload has the annotation [gang.AnnotationRoles].
	MultiWorkload bool
	// Workloads has at least one element. The order is that of the input of [GroupWorkloads].
	Workloads []gang.Workload
}

// GroupWorkloads returns the gangs that the workloads form, ordered by their first workload.
// Workloads without [gang.LabelFramework] and workloads that opted out are not in any gang.
//
// Workloads with the same namespace and gang name are one gang if at least one of them has roles.
// Members of that gang are the workloads for which [IsMultiWorkloadMember] is true. Every other
// workload is a gang of its own, even if the name is the same, as for the Jobs of a CronJob.
func GroupWorkloads(workloads []gang.Workload, frameworks gang.Frameworks) []Group {
	type key struct{ namespace, name string }
	keyOf := func(w gang.Workload) key { return key{w.Meta().Namespace, gang.ResolveName(w, frameworks)} }
	managed := slices.DeleteFunc(slices.Clone(workloads), func(w gang.Workload) bool {
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
		isMember := multiWorkload[k] && gang.IsMultiWorkloadMember(w, frameworks)
		if i, exists := groupIndex[k]; exists && isMember {
			groups[i].Workloads = append(groups[i].Workloads, w)
			continue
		}
		if isMember {
			groupIndex[k] = len(groups)
		}
		groups = append(groups, Group{
			Namespace: k.namespace, Name: k.name, MultiWorkload: isMember, Workloads: []gang.Workload{w},
		})
	}
	return groups
}
