package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// newWorkloads returns Jobs and StatefulSets of every role in several sizes, by name. Each role is a gang of
// one workload if possible, and a member of a gang with all compatible roles.
func (s suite) newWorkloads() map[string]gang.Workload {
	out := map[string]gang.Workload{}
	f := s.injector.Framework()
	add := func(name, workloadName string, r gang.Role, size int32, annotations map[string]string) {
		if f.HasLauncher {
			annotations[gang.AnnotationSlotsPerWorker] = "2"
		}
		meta := metav1.ObjectMeta{
			Name:        workloadName,
			Namespace:   "team",
			Labels:      map[string]string{gang.LabelFramework: f.Name, gang.LabelRole: r.Name},
			Annotations: annotations,
		}
		out["Job "+name] = gang.Workload{Job: &batchv1.Job{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       batchv1.JobSpec{Parallelism: &size, Completions: &size, Template: newPodTemplate()},
		}}
		out["StatefulSet "+name] = gang.Workload{StatefulSet: &appsv1.StatefulSet{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       appsv1.StatefulSetSpec{Replicas: &size, Template: newPodTemplate()},
		}}
	}
	for _, size := range []int32{1, 2, 1000} {
		for _, r := range f.Roles {
			if len(r.Requires) == 0 && (r.MaxPods == 0 || size <= r.MaxPods) {
				add(fmt.Sprintf("of %d, %s", size, r.Name), "train", r, size, map[string]string{})
			}
		}
		if roles := f.CompatibleRoles(); len(roles) > 1 {
			text := formatRoles(roles, size)
			for _, r := range roles {
				annotations := map[string]string{gang.AnnotationRoles: text}
				add(fmt.Sprintf("%s of %s", r.Name, text), "train-"+r.Name, r, limitSize(r, size), annotations)
			}
		}
	}
	if r, ok := f.FindRole(f.ElasticRole); ok && len(r.Requires) == 0 {
		add("elastic", "train", r, 3, map[string]string{gang.AnnotationElastic: "2:4"})
	}
	return out
}

// formatRoles returns the annotation for size pods of each role, or fewer if the role has a limit.
func formatRoles(roles []gang.Role, size int32) string {
	var items []string
	for _, r := range roles {
		items = append(items, fmt.Sprintf("%s=%d", r.Name, limitSize(r, size)))
	}
	return strings.Join(items, ",")
}

// limitSize returns size, or the maximum number of pods of the role if that is less.
func limitSize(r gang.Role, size int32) int32 {
	if r.MaxPods > 0 {
		return min(size, r.MaxPods)
	}
	return size
}

// testMemberConsistency parses every member of the gang of w. The members must have the same list of
// members, and their ranks must be consecutive.
func (s suite) testMemberConsistency(t *testing.T, w gang.Workload) {
	if !w.HasRoles() {
		return // a gang of one workload
	}
	frameworks := s.engine.Frameworks()
	var nextRank int32
	var first gang.Gang
	for i, r := range s.injector.Framework().CompatibleRoles() {
		other := w.DeepCopy()
		other.Meta().Name, other.Meta().Labels[gang.LabelRole] = "train-"+r.Name, r.Name
		resizeWorkload(other, gang.DeclaredSize(other, frameworks))
		g, _, errs := gang.Parse(other, frameworks, gang.Config{})
		if len(errs) > 0 {
			t.Fatal(errs.ErrorList().ToAggregate())
		}
		if g.RankOffset != nextRank {
			t.Errorf("%s starts at rank %d, want %d", r.Name, g.RankOffset, nextRank)
		}
		nextRank += g.OwnMember().Size
		if i == 0 {
			first = g
			continue
		}
		diff := cmp.Diff(first.Members, g.Members)
		sameAddress := first.RankFQDN(g.RankOffset) == g.PodFQDN(g.OwnMember(), 0)
		if diff != "" || !sameAddress || first.Size != g.Size {
			t.Errorf("the gangs of %s and %s differ (-%[2]s +%[1]s):\n%[3]s", g.Role, first.Role, diff)
		}
	}
	if nextRank != first.Size {
		t.Errorf("the members have %d ranks, but the gang has %d", nextRank, first.Size)
	}
}

// resizeWorkload sets the number of pods of w.
func resizeWorkload(w gang.Workload, size int32) {
	if w.Job != nil {
		w.Job.Spec.Parallelism, w.Job.Spec.Completions = &size, &size
		return
	}
	w.StatefulSet.Spec.Replicas = &size
}
