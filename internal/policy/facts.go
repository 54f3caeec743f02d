package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
)

// facts are what a policy judges of a gang, as one of its members shows it.
type facts struct {
	Member
	// size and minSize are the numbers of ranks of all members. They differ for an elastic gang.
	size, minSize int64
	// pods is the maximum number of pods of the workload, and gpusPerPod the number of accelerators of each.
	pods, gpusPerPod int64
	// gpus is the number of accelerators of the gang. It is a lower bound if gpusUnknown is true: the workload does not
	// show those of other members, or those of resource claims.
	gpus        int64
	gpusUnknown bool
	hasClaims   bool // the pods have resource claims
	// runtime is the maximum runtime of an attempt, and ttl the time after which the finished workload is deleted. They
	// are nil without one.
	runtime, ttl *time.Duration
	// gangRuntime is runtime, or that of a member that the gang finishes with. If endsWithout is true, the gang finishes
	// regardless of the workload, so that another member bounds its runtime.
	gangRuntime *time.Duration
	endsWithout bool
	// restarts is the maximum number of restarts, 0 if the gang never restarts.
	restarts int64
	// disruptions is the maximum number of disruptions after which Rollcall restarts the gang, or
	// unlimitedDisruptions. It is 0 unless the restart policy is gang.
	disruptions int64
	// images are the images of all containers and volumes.
	images []fieldFact
	// checkpoints is true if a training container can write data that outlives its pod. It is false for
	// a member whose peers save the checkpoints, and checkpointsUnknown is then true.
	checkpoints, checkpointsUnknown bool

	membersKnown bool // withMembers has set the facts of all members
	paths        fieldPaths
}

// unlimitedDisruptions is the number of disruptions of a gang without a limit. It exceeds every limit, also in
// an expression.
const unlimitedDisruptions int64 = math.MaxInt64

// fieldFact is the value of a field with its path.
type fieldFact struct{ path, value string }

// fieldPaths are the fields that the user wrote, for the facts that different fields can determine.
type fieldPaths struct {
	size, gpus, restarts string
}

var (
	specPath        = field.NewPath("spec")
	podSpecPath     = specPath.Child("template", "spec")
	labelsPath      = fieldpath.Labels
	annotationsPath = fieldpath.Annotations
)

func newFacts(m Member) facts {
	g, w := m.Gang, m.Workload
	template := w.Template()
	size := g.SizeBounds(g.Members...)
	f := facts{
		Member:       m,
		size:         int64(size.Max),
		minSize:      int64(size.Min),
		pods:         int64(g.SizeBounds(g.OwnMember()).Max),
		gpusPerPod:   countPodAccelerators(template.Spec),
		hasClaims:    hasClaims(template.Spec),
		endsWithout:  g.EndsWithout(g.OwnMember()),
		membersKnown: len(g.Members) == 1,
		checkpoints:  SavesCheckpoints(g, template.Spec),
		paths:        findFieldPaths(g, w),
	}
	if g.RestartRules.RestartPolicy != gang.RestartPolicyNever {
		f.restarts = int64(g.RestartRules.MaxRestarts)
	}
	if g.RestartRules.RestartPolicy == gang.RestartPolicyGang {
		f.disruptions = int64(g.RestartRules.MaxDisruptions)
		if g.RestartRules.MaxDisruptions == gang.UnlimitedDisruptions {
			f.disruptions = unlimitedDisruptions
		}
	}
	if w.Job != nil {
		f.runtime = secondsOf(w.Job.Spec.ActiveDeadlineSeconds)
		f.ttl = secondsOf(w.Job.Spec.TTLSecondsAfterFinished)
	}
	f.gangRuntime = f.runtime
	f.gpus, f.gpusUnknown = f.pods*f.gpusPerPod, len(g.Members) > 1 || f.hasClaims
	f.checkpointsUnknown = !f.checkpoints && len(g.Members) > 1
	visitContainers(template.Spec, func(path *field.Path, c corev1.Container) {
		f.images = append(f.images, fieldFact{path.Child("image").String(), c.Image})
	})
	for i, v := range template.Spec.Volumes {
		if v.Image != nil {
			path := podSpecPath.Child("volumes").Index(i).Child("image", "reference")
			f.images = append(f.images, fieldFact{path.String(), v.Image.Reference})
		}
	}
	return f
}

// queues returns the queues that the workload names: that of the gang, and that of the label of Kueue, also of a
// StatefulSet. Admission replaces the label of a Job by the queue of the gang, but an update can add the label.
func (m Member) queues() []fieldFact {
	return slices.DeleteFunc([]fieldFact{
		{annotationsPath.Key(gang.AnnotationQueue).String(), m.Gang.Queue},
		{labelsPath.Key(gang.LabelQueueName).String(), m.Workload.Meta().Labels[gang.LabelQueueName]},
	}, func(f fieldFact) bool { return f.value == "" })
}

// queue returns the queue of the gang, or else the value of the label of Kueue.
func (m Member) queue() string {
	return cmp.Or(m.Gang.Queue, m.Workload.Meta().Labels[gang.LabelQueueName])
}

func (m Member) priorityClass() string { return m.Workload.Template().Spec.PriorityClassName }

// profile returns the profile that the workload selects; empty without one.
func (m Member) profile() string { return m.Workload.Meta().Annotations[gang.AnnotationProfile] }

// FactLabels returns the labels with facts that the workload must have. It has no accelerators if resource
// claims determine them.
func (m Member) FactLabels() map[string]string {
	f := newFacts(m)
	labels := map[string]string{gang.LabelSize: formatInt(f.size)}
	if !f.hasClaims {
		labels[gang.LabelAccelerators] = formatInt(f.pods * f.gpusPerPod)
	}
	return labels
}

func secondsOf[T int32 | int64](seconds *T) *time.Duration {
	if seconds == nil {
		return nil
	}
	return ptr.To(time.Duration(min(int64(*seconds), int64(maxDuration/time.Second))) * time.Second)
}

// withMembers returns the facts with what the other members show, if the list contains the facts of all
// members: who saves checkpoints, the accelerators, and the runtime of the gang. If a member has resource
// claims, the number of accelerators remains a lower bound. The list can contain f itself.
func (f facts) withMembers(members []facts) facts {
	gpusByRole := map[string]int64{}
	checkpoints, hasClaims, runtime := false, false, f.gangRuntime
	for _, m := range members {
		checkpoints, hasClaims = checkpoints || m.checkpoints, hasClaims || m.hasClaims
		gpusByRole[m.Gang.Role] = m.pods * m.gpusPerPod
		if f.endsWithout && !m.endsWithout {
			runtime = m.runtime
		}
	}
	if len(gpusByRole) != len(f.Gang.Members) {
		return f
	}
	f.checkpoints, f.checkpointsUnknown = checkpoints, false
	f.gpus, f.gpusUnknown, f.membersKnown = 0, hasClaims, true
	if f.gangRuntime == nil {
		f.gangRuntime = runtime
	}
	for _, gpus := range gpusByRole {
		f.gpus += gpus
	}
	return f
}

// countPodAccelerators returns the accelerators that the scheduler reserves for a pod. Containers and
// sidecars run together. Other init containers run one after another before them, so only the largest
// counts (Kubernetes documentation, init containers, resource sharing).
func countPodAccelerators(spec corev1.PodSpec) int64 {
	var together, largestInit int64
	for _, c := range spec.InitContainers {
		count := gang.CountAccelerators(c.Resources)
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			together += count
			continue
		}
		largestInit = max(largestInit, together+count)
	}
	for _, c := range spec.Containers {
		together += gang.CountAccelerators(c.Resources)
	}
	return max(together, largestInit)
}

// hasClaims reports whether a pod gets devices whose kind is not known.
func hasClaims(spec corev1.PodSpec) bool {
	hasContainerClaims := func(c corev1.Container) bool { return gang.HasResourceClaims(c.Resources) }
	return len(spec.ResourceClaims) > 0 || slices.ContainsFunc(spec.Containers, hasContainerClaims) ||
		slices.ContainsFunc(spec.InitContainers, hasContainerClaims)
}

// visitContainers calls visit for each container of a pod, init containers first.
func visitContainers(spec corev1.PodSpec, visit func(path *field.Path, c corev1.Container)) {
	for i, c := range spec.InitContainers {
		visit(podSpecPath.Child("initContainers").Index(i), c)
	}
	for i, c := range spec.Containers {
		visit(podSpecPath.Child("containers").Index(i), c)
	}
}

// findFieldPaths returns the fields from which the size, the accelerators and the restarts of a gang
// were derived.
func findFieldPaths(g gang.Gang, w gang.Workload) fieldPaths {
	annotations := w.Meta().Annotations
	paths := fieldPaths{size: specPath.Child("parallelism").String()}
	if w.StatefulSet != nil {
		paths.size = specPath.Child("replicas").String()
	}
	for _, key := range []string{gang.AnnotationRoles, gang.AnnotationElastic} {
		if _, ok := annotations[key]; ok {
			paths.size = annotationsPath.Key(key).String()
		}
	}
	paths.gpus = podSpecPath.Child("containers").String()
	if g.GPUs != nil {
		paths.gpus = annotationsPath.Key(gang.AnnotationGPUs).String()
	} else if i := slices.IndexFunc(w.Template().Spec.Containers, func(c corev1.Container) bool {
		return gang.CountAccelerators(c.Resources) > 0
	}); i >= 0 {
		paths.gpus = podSpecPath.Child("containers").Index(i).Child("resources", "limits").String()
	}
	paths.restarts = annotationsPath.Key(gang.AnnotationMaxRestarts).String()
	hasOwnBackoffLimit := w.Job != nil && !gang.IsDefaultBackoffLimit(w.Job.Spec.BackoffLimit)
	if _, ok := annotations[gang.AnnotationMaxRestarts]; !ok && hasOwnBackoffLimit {
		paths.restarts = specPath.Child("backoffLimit").String()
	}
	return paths
}
