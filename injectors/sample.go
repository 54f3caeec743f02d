package injectors

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Sample is a workload of a made-up gang and what it receives: for the command line
// and the reference, which thus say what the code does.
type Sample struct {
	// Gang is what the workload was read as.
	Gang gang.Gang
	// Roles is its annotation of that name; empty for a gang of one workload.
	Roles string
	// Plan is what its framework's injector gives it.
	Plan plan.Plan
}

// Samples are the workloads by which a framework is shown: one alone where there is
// such a gang, one of each role of a gang of several, and an elastic one.
func (r Registry) Samples(framework string) ([]Sample, error) {
	inj, err := r.find(framework)
	if err != nil {
		return nil, err
	}
	f := inj.Framework()
	var out []Sample
	add := func(role gang.Role, annotations map[string]string) error {
		s, err := sample(inj, role, annotations)
		out = append(out, s)
		return err
	}
	alone, _ := f.Find(f.Role)
	if len(alone.Requires) == 0 {
		err = add(alone, map[string]string{})
	}
	if roles := f.Together(); err == nil && len(roles) > 1 {
		text := make([]string, len(roles))
		for i, role := range roles {
			text[i] = fmt.Sprintf("%s=%d", role.Name, sampleSize(f, role))
		}
		for _, role := range roles {
			if err == nil {
				err = add(role, map[string]string{gang.AnnotationRoles: strings.Join(text, ",")})
			}
		}
	}
	if err == nil && f.Elastic != "" {
		elastic, _ := f.Find(f.Elastic)
		annotations := map[string]string{gang.AnnotationElastic: "2:8"}
		if len(elastic.Requires) > 0 { // shown by whom it follows
			elastic, _ = f.Find(elastic.Requires[0])
			annotations[gang.AnnotationRoles] = fmt.Sprintf("%s=1,%s=4", elastic.Name, f.Elastic)
		}
		err = add(elastic, annotations)
	}
	return out, err
}

func sampleSize(f gang.Framework, role gang.Role) int32 {
	switch {
	case role.Max > 0:
		return role.Max
	case role.Name == f.Role || f.Launches:
		return 4
	default:
		return 1
	}
}

// sample reads a Job with 8 accelerators and 64 cores in each pod.
func sample(inj Injector, role gang.Role, annotations map[string]string) (Sample, error) {
	f, name := inj.Framework(), "train"
	size := sampleSize(f, role)
	if annotations[gang.AnnotationRoles] != "" {
		name += "-" + role.Name
	}
	if f.Launches {
		annotations[gang.AnnotationSlots] = "8"
	}
	w := gang.Workload{Job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Annotations: annotations,
			Labels: map[string]string{gang.LabelFramework: f.Name, gang.LabelRole: role.Name}},
		Spec: batchv1.JobSpec{Parallelism: &size, Completions: &size},
	}}
	w.Template().Spec.Containers = []corev1.Container{{Name: "trainer", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8"),
	}}}}
	g, _, errs := gang.Parse(w, gang.Frameworks{f}, gang.Config{})
	if len(errs) > 0 {
		return Sample{}, fmt.Errorf("reading a sample of %s: %w", f.Name, errs.ToAggregate())
	}
	return Sample{Gang: g, Roles: annotations[gang.AnnotationRoles], Plan: inj.Plan(g)}, nil
}

// Variables are the names of what the framework's injector sets anywhere, sorted.
func Variables(samples []Sample) []string {
	var out []string
	for _, s := range samples {
		for _, e := range s.Plan.Env {
			out = append(out, e.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
