package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// workloads are one of each kind, role and some sizes, alone where the role can be
// alone, and as members of a gang of all roles that go together; each with an init
// container, a sidecar, limits and variables of the user's own.
func (s suite) workloads() map[string]gang.Workload {
	out := map[string]gang.Workload{}
	f := s.injector.Framework()
	add := func(name, workload string, r gang.Role, size int32, annotations map[string]string) {
		if f.Launches {
			annotations[gang.AnnotationSlots] = "2"
		}
		meta := metav1.ObjectMeta{Name: workload, Namespace: "team", Annotations: annotations,
			Labels: map[string]string{gang.LabelFramework: f.Name, gang.LabelRole: r.Name}}
		out["Job "+name] = gang.Workload{Job: &batchv1.Job{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       batchv1.JobSpec{Parallelism: &size, Completions: &size, Template: template()},
		}}
		out["StatefulSet "+name] = gang.Workload{StatefulSet: &appsv1.StatefulSet{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       appsv1.StatefulSetSpec{Replicas: &size, Template: template()},
		}}
	}
	for _, size := range []int32{1, 2, 1000} {
		for _, r := range f.Roles {
			if len(r.Requires) == 0 && (r.Max == 0 || size <= r.Max) {
				add(fmt.Sprintf("of %d, %s", size, r.Name), "train", r, size, map[string]string{})
			}
		}
		if together := f.Together(); len(together) > 1 {
			text := sizes(together, size)
			for _, r := range together {
				add(fmt.Sprintf("%s of %s", r.Name, text), "train-"+r.Name, r, limited(r, size), map[string]string{gang.AnnotationRoles: text})
			}
		}
	}
	if r, ok := f.Find(f.Elastic); ok && len(r.Requires) == 0 {
		add("elastic", "train", r, 3, map[string]string{gang.AnnotationElastic: "2:4"})
	}
	return out
}

// sizes is the annotation for as many pods of each role as it takes.
func sizes(roles []gang.Role, size int32) string {
	var items []string
	for _, r := range roles {
		items = append(items, fmt.Sprintf("%s=%d", r.Name, limited(r, size)))
	}
	return strings.Join(items, ",")
}

func limited(r gang.Role, size int32) int32 {
	if r.Max > 0 {
		return min(size, r.Max)
	}
	return size
}

// agree has each other member of the gang read its own text, and compares what they
// know of each other: the same hosts in the same order, and ranks without gap.
func (s suite) agree(t *testing.T, w gang.Workload) {
	text := w.Meta().Annotations[gang.AnnotationRoles]
	if text == "" {
		return // a gang of one workload
	}
	var next int32
	var known gang.Gang
	for i, r := range s.injector.Framework().Together() {
		other := w.DeepCopy()
		other.Meta().Name, other.Meta().Labels[gang.LabelRole] = "train-"+r.Name, r.Name
		g, _, errs := gang.Parse(resized(other, sizeIn(t, text, r.Name)), s.engine.Frameworks(), gang.Config{})
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		if g.Offset != next {
			t.Errorf("%s begins at rank %d, want %d", r.Name, g.Offset, next)
		}
		next += g.Own().Size
		if i == 0 {
			known = g
			continue
		}
		if diff := cmp.Diff(known.Members, g.Members); diff != "" || known.Host(g.Offset) != g.HostOf(g.Own(), 0) || known.Size != g.Size {
			t.Errorf("%s knows another gang than %s:\n%s", g.Role, known.Role, diff)
		}
	}
	if next != known.Size {
		t.Errorf("the members have %d ranks, and the gang %d", next, known.Size)
	}
}

// sizeIn is the number of pods that an annotation gives a role.
func sizeIn(t *testing.T, text, role string) int32 {
	t.Helper()
	for item := range strings.SplitSeq(text, ",") {
		if rest, ok := strings.CutPrefix(item, role+"="); ok {
			n, err := strconv.ParseInt(rest, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int32(n)
		}
	}
	t.Fatalf("no %s in %q", role, text)
	return 0
}

func resized(w gang.Workload, size int32) gang.Workload {
	if w.Job != nil {
		w.Job.Spec.Parallelism, w.Job.Spec.Completions = &size, &size
		return w
	}
	w.StatefulSet.Spec.Replicas = &size
	return w
}
