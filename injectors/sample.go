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

// Sample is a workload of a sample gang together with its plan. The command line and the generated
// reference print samples, so that both always match the code.
type Sample struct {
	// Gang is the parsed workload.
	Gang gang.Gang
	// Roles is the annotation rollcall.training/roles. It is empty for a gang of one workload.
	Roles string
	// Plan is the plan of the framework's injector.
	Plan plan.Plan
}

// Samples returns the sample workloads of a framework: a gang of one workload if the default role
// allows it, a workload for each role of a gang with several roles, and an elastic workload if the
// framework is elastic. The error reports an unknown framework.
func (r Registry) Samples(framework string) ([]Sample, error) {
	inj, err := r.findInjector(framework)
	if err != nil {
		return nil, err
	}
	var out []Sample
	for _, w := range sampleWorkloads(inj.Framework()) {
		s, err := newSample(inj, w)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// SampleWorkloads returns the Jobs of [Registry.Samples]. The error reports an unknown framework.
func (r Registry) SampleWorkloads(framework string) ([]gang.Workload, error) {
	inj, err := r.findInjector(framework)
	if err != nil {
		return nil, err
	}
	return sampleWorkloads(inj.Framework()), nil
}

// Addition is a part of a sample other than a variable.
type Addition struct {
	// Kind describes the addition, such as "init container" or "volume at".
	Kind string
	// Name is the name, the path or the command of the addition.
	Name string
}

// Additions returns the fields and objects that the injector adds to the sample in addition to
// variables.
func (s Sample) Additions() []Addition {
	var additions []Addition
	for _, c := range s.Plan.InitContainers {
		additions = append(additions, Addition{Kind: "init container", Name: c.Name})
	}
	for _, v := range s.Plan.Volumes {
		for _, m := range v.Mounts {
			additions = append(additions, Addition{Kind: "volume at", Name: m.MountPath})
		}
	}
	if len(s.Plan.Command) > 0 {
		additions = append(additions, Addition{
			Kind: "command of a container without a command:", Name: strings.Join(s.Plan.Command, " "),
		})
	}
	if name := s.Plan.Children.KeyPairSecret; name != "" {
		additions = append(additions, Addition{Kind: "Secret", Name: name})
	}
	return additions
}

func sampleWorkloads(f gang.Framework) []gang.Workload {
	return slices.Concat(singleWorkloadSamples(f), multiRoleSamples(f), elasticSamples(f))
}

func singleWorkloadSamples(f gang.Framework) []gang.Workload {
	role, _ := f.FindRole(f.DefaultRole)
	if len(role.Requires) > 0 {
		return nil
	}
	return []gang.Workload{newSampleWorkload(f, role, sampleSize(f, role), map[string]string{})}
}

func multiRoleSamples(f gang.Framework) []gang.Workload {
	roles := f.CompatibleRoles()
	if len(roles) < 2 {
		return nil
	}
	sizes := make([]string, len(roles))
	for i, role := range roles {
		sizes[i] = fmt.Sprintf("%s=%d", role.Name, sampleSize(f, role))
	}
	out := make([]gang.Workload, len(roles))
	for i, role := range roles {
		annotations := map[string]string{gang.AnnotationRoles: strings.Join(sizes, ",")}
		out[i] = newSampleWorkload(f, role, sampleSize(f, role), annotations)
	}
	return out
}

// elasticSamples returns a workload of the elastic role. If this role requires another role, such as a
// launcher, the sample is a workload of the required role, which receives the list of hosts.
func elasticSamples(f gang.Framework) []gang.Workload {
	if f.ElasticRole == "" {
		return nil
	}
	role, _ := f.FindRole(f.ElasticRole)
	annotations := map[string]string{gang.AnnotationElastic: "2:8"}
	if len(role.Requires) > 0 {
		role, _ = f.FindRole(role.Requires[0])
		annotations[gang.AnnotationRoles] = fmt.Sprintf("%s=1,%s=4", role.Name, f.ElasticRole)
	}
	return []gang.Workload{newSampleWorkload(f, role, sampleSize(f, role), annotations)}
}

// sampleSize returns the number of pods of a role in a sample gang.
func sampleSize(f gang.Framework, role gang.Role) int32 {
	switch {
	case role.MaxPods > 0:
		return role.MaxPods
	case role.Name == f.DefaultRole || f.HasLauncher:
		return 4
	default:
		return 1
	}
}

// newSample plans a sample workload.
func newSample(inj Injector, w gang.Workload) (Sample, error) {
	f := inj.Framework()
	g, _, errs := gang.Parse(w, gang.Frameworks{f}, gang.Config{})
	if len(errs) > 0 {
		return Sample{}, fmt.Errorf("parsing a sample workload of framework %s: %w", f.Name, errs.ErrorList().ToAggregate())
	}
	return Sample{Gang: g, Roles: w.Meta().Annotations[gang.AnnotationRoles], Plan: inj.Plan(g)}, nil
}

// newSampleWorkload returns a Job of the given number of pods, with 8 accelerators and 64 cores in each pod. It may
// change the annotations.
func newSampleWorkload(f gang.Framework, role gang.Role, size int32, annotations map[string]string) gang.Workload {
	name := "train"
	if annotations[gang.AnnotationRoles] != "" {
		name += "-" + role.Name
	}
	if f.HasLauncher {
		annotations[gang.AnnotationSlotsPerWorker] = "8"
	}
	w := gang.Workload{Job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Annotations: annotations,
			Labels: map[string]string{gang.LabelFramework: f.Name, gang.LabelRole: role.Name}},
		Spec: batchv1.JobSpec{Parallelism: &size, Completions: &size},
	}}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8")}
	w.Template().Spec.Containers = []corev1.Container{
		{Name: "trainer", Resources: corev1.ResourceRequirements{Limits: limits}},
	}
	return w
}
