package gang

import (
	"cmp"
	"strconv"
	"strings"
)

// HasRoles reports whether the workload has the annotation [AnnotationRoles], which makes it a
// member of a multi-workload gang.
func (w Workload) HasRoles() bool {
	_, ok := w.Meta().Annotations[AnnotationRoles]
	return ok
}

// HasSeveralRoles reports whether the workload is one of several workloads of its gang.
func (w Workload) HasSeveralRoles() bool {
	return strings.Count(w.Meta().Annotations[AnnotationRoles], "=") > 1
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

// FormatRoles returns the canonical value of [AnnotationRoles]. The elastic role is written with its
// bounds, because its size can change. A gang of one workload has one role.
func (g Gang) FormatRoles() string {
	var roles []string
	for _, m := range g.Members {
		size := strconv.Itoa(int(m.Size))
		if g.IsElasticRole(m.Role) {
			size = g.Elastic.String()
		}
		roles = append(roles, m.Role+"="+size)
	}
	return strings.Join(roles, ",")
}
