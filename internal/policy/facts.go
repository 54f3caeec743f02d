package policy

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Facts are what a policy judges of a gang, as one of its workloads shows it.
type Facts struct {
	// Namespace and Name identify the gang.
	Namespace, Name string
	// Framework and Role are the labels of the workload, or their defaults.
	Framework, Role string
	// Kind is the kind of the workload.
	Kind gang.Kind
	// Size is the number of ranks of all members. An elastic gang has the maximum of its bounds.
	Size int64
	// MinSize is the minimum number of ranks. It equals Size unless the gang is elastic.
	MinSize int64
	// Elastic is true if the number of ranks can change.
	Elastic bool
	// Pods is the number of pods of the workload, or the maximum if it is elastic.
	Pods int64
	// GPUsPerPod is the number of accelerators of each pod of the workload.
	GPUsPerPod int64
	// GPUs is the number of accelerators of the gang. If GPUsUnknown is true, it is a lower bound.
	GPUs int64
	// GPUsUnknown is true if the workload does not show all accelerators of the gang: those of other
	// members, or those of resource claims.
	GPUsUnknown bool
	// Runtime is the maximum runtime of an attempt; nil without one.
	Runtime *time.Duration
	// TTL is the time after which the finished workload is deleted; nil without one.
	TTL *time.Duration
	// RestartPolicy is the reaction to a failed rank.
	RestartPolicy gang.RestartPolicy
	// Restarts is the maximum number of restarts, 0 if the gang never restarts.
	Restarts int64
	// Disruptions is the maximum number of disruptions after which Rollcall restarts the gang, or
	// [UnlimitedDisruptions]. It is 0 unless the restart policy is gang.
	Disruptions int64
	// Profile is the profile that the workload selects; empty without one.
	Profile string
	// Queue is the value of the label of Kueue.
	Queue string
	// PriorityClass is the priority class of the pods.
	PriorityClass string
	// Labels are the labels of the workload.
	Labels map[string]string
	// Images are the images of all containers and volumes.
	Images []ImageFact
	// HiddenGPUs are the variables that expose accelerators which the pod did not request.
	HiddenGPUs []VariableFact
	// Checkpoints is true if a training container can write data that outlives its pod. It is false for
	// a member whose peers save the checkpoints, and CheckpointsUnknown is then true.
	Checkpoints, CheckpointsUnknown bool

	template  *corev1.PodTemplateSpec // the pods of the workload, which the facts do not own
	members   int                     // the number of members of the gang
	hasClaims bool                    // the pods have resource claims
	// endsWithout is true if the gang finishes regardless of the workload, so that another member bounds its runtime.
	endsWithout  bool
	membersKnown bool           // withMembers has set the facts of all members
	gangRuntime  *time.Duration // Runtime, or that of a member that the gang finishes with; nil without one
	paths        fieldPaths
}

// UnlimitedDisruptions is the number of disruptions of a gang without a limit. It exceeds every limit, also in
// an expression.
const UnlimitedDisruptions int64 = math.MaxInt64

// ImageFact is the image of a container or a volume.
type ImageFact struct {
	// Path is the path of the field.
	Path string
	// Name is the name of the image as written.
	Name string
}

// VariableFact is an environment variable of a container.
type VariableFact struct {
	// Path is the path of the value, or of its source.
	Path string
	// Name and Value are those of the variable. The value is empty if it is in a source.
	Name, Value string
}

// fieldPaths are the fields that the user wrote, for the facts that different fields can determine.
type fieldPaths struct {
	size, gpus, restarts string
}

var (
	specPath        = field.NewPath("spec")
	podSpecPath     = specPath.Child("template", "spec")
	labelsPath      = field.NewPath("metadata", "labels")
	annotationsPath = field.NewPath("metadata", "annotations")
)

// NewFacts returns the facts of a gang. The workload is the admitted workload from which the gang was
// parsed.
func NewFacts(g gang.Gang, w gang.Workload) Facts {
	f := Facts{
		Namespace:     g.Namespace,
		Name:          g.Name,
		Framework:     g.Framework.Name,
		Role:          g.Role,
		Kind:          g.Kind,
		Size:          int64(g.Size),
		MinSize:       int64(g.Size),
		Elastic:       g.Elastic != nil,
		Profile:       w.Meta().Annotations[gang.AnnotationProfile],
		RestartPolicy: g.Policies.RestartPolicy,
		Queue:         w.Meta().Labels[gang.LabelQueueName],
		PriorityClass: w.Template().Spec.PriorityClassName,
		Labels:        w.Meta().Labels,
		Checkpoints:   SavesCheckpoints(g, w.Template().Spec),
		template:      w.Template(),
		paths:         findFieldPaths(g, w),
	}
	if g.Elastic != nil {
		current := findElasticMember(g).Size
		f.Size += int64(g.Elastic.Max - current)
		f.MinSize += int64(g.Elastic.Min - current)
	}
	if g.Policies.RestartPolicy != gang.RestartPolicyNever {
		f.Restarts = int64(g.Policies.MaxRestarts)
	}
	if g.Policies.RestartPolicy == gang.RestartPolicyGang {
		f.Disruptions = countDisruptions(g.Policies.MaxDisruptions)
	}
	if w.Job != nil {
		f.Runtime = secondsOf(w.Job.Spec.ActiveDeadlineSeconds)
		if ttl := w.Job.Spec.TTLSecondsAfterFinished; ttl != nil {
			f.TTL = ptr.To(time.Duration(*ttl) * time.Second)
		}
	}
	f.gangRuntime, f.endsWithout = f.Runtime, g.EndsWithout(g.OwnMember())
	f.membersKnown = len(g.Members) == 1
	f.addAccelerators(g, w.Template().Spec)
	f.addContainers(w.Template().Spec)
	f.CheckpointsUnknown = !f.Checkpoints && f.members > 1
	return f
}

func countDisruptions(limit int32) int64 {
	if limit == gang.UnlimitedDisruptions {
		return UnlimitedDisruptions
	}
	return int64(limit)
}

// findElasticMember returns the member whose number of pods can change.
func findElasticMember(g gang.Gang) gang.Member {
	for _, m := range g.Members {
		if m.Role == g.Framework.ElasticRole {
			return m
		}
	}
	return g.OwnMember()
}

func secondsOf(seconds *int64) *time.Duration {
	if seconds == nil {
		return nil
	}
	return ptr.To(time.Duration(min(*seconds, int64(maxDuration/time.Second))) * time.Second)
}

// addAccelerators sets the numbers of accelerators. The pods of the workload show their own. Those of
// other members are not known: their workloads may not exist yet.
func (f *Facts) addAccelerators(g gang.Gang, spec corev1.PodSpec) {
	f.GPUsPerPod = countPodAccelerators(spec)
	f.Pods = int64(g.OwnMember().Size)
	if g.Elastic != nil && findElasticMember(g).Role == g.Role {
		f.Pods = int64(g.Elastic.Max)
	}
	f.GPUs = f.Pods * f.GPUsPerPod
	f.members, f.hasClaims = len(g.Members), len(spec.ResourceClaims) > 0
	f.GPUsUnknown = f.members > 1 || f.hasClaims
}

// WorkloadGPUs returns the number of accelerators of all pods of the workload. It returns false if
// resource claims determine the number.
func (f Facts) WorkloadGPUs() (int64, bool) { return f.Pods * f.GPUsPerPod, !f.hasClaims }

// withMembers returns the facts with what the other members show, if the list contains the facts of all
// members: who saves checkpoints, the accelerators, and the runtime of the gang. If a member has resource
// claims, the number of accelerators remains a lower bound. The list can contain f itself.
func (f Facts) withMembers(members []Facts) Facts {
	gpusByRole := map[string]int64{}
	checkpoints, hasClaims, runtime := false, false, f.gangRuntime
	for _, m := range members {
		checkpoints, hasClaims = checkpoints || m.Checkpoints, hasClaims || m.hasClaims
		gpusByRole[m.Role] = m.Pods * m.GPUsPerPod
		if f.endsWithout && !m.endsWithout {
			runtime = m.Runtime
		}
	}
	if len(gpusByRole) != f.members {
		return f
	}
	f.Checkpoints, f.CheckpointsUnknown = checkpoints, false
	f.GPUs, f.GPUsUnknown, f.membersKnown = 0, hasClaims, true
	if f.gangRuntime == nil {
		f.gangRuntime = runtime
	}
	for _, gpus := range gpusByRole {
		f.GPUs += gpus
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

// nvidiaVisibleDevices is the variable from which the NVIDIA container runtime reads the devices of a
// container (NVIDIA Container Toolkit documentation, environment variables). The device plugin sets
// it in containers that requested accelerators.
const nvidiaVisibleDevices = "NVIDIA_VISIBLE_DEVICES"

// addContainers sets the facts of all containers, and the images of volumes.
func (f *Facts) addContainers(spec corev1.PodSpec) {
	add := func(path *field.Path, containers []corev1.Container) {
		for i, c := range containers {
			item := path.Index(i)
			f.Images = append(f.Images, ImageFact{Path: item.Child("image").String(), Name: c.Image})
			if gang.CountAccelerators(c.Resources) == 0 {
				f.addHiddenGPUs(item.Child("env"), c.Env)
			}
		}
	}
	add(podSpecPath.Child("initContainers"), spec.InitContainers)
	add(podSpecPath.Child("containers"), spec.Containers)
	for i, v := range spec.Volumes {
		if v.Image != nil {
			path := podSpecPath.Child("volumes").Index(i).Child("image", "reference")
			f.Images = append(f.Images, ImageFact{Path: path.String(), Name: v.Image.Reference})
		}
	}
}

// addHiddenGPUs adds the variables that expose accelerators. A resource claim does not permit them, because its
// driver does not need the variable, and the claim can be for another device.
func (f *Facts) addHiddenGPUs(path *field.Path, variables []corev1.EnvVar) {
	for i, v := range variables {
		switch {
		case v.Name != nvidiaVisibleDevices:
		case v.ValueFrom != nil:
			f.HiddenGPUs = append(f.HiddenGPUs, VariableFact{Path: path.Index(i).Child("valueFrom").String(), Name: v.Name})
		case !slices.Contains([]string{"", "none", "void"}, v.Value):
			f.HiddenGPUs = append(f.HiddenGPUs, VariableFact{
				Path: path.Index(i).Child("value").String(), Name: v.Name, Value: v.Value,
			})
		}
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
	if _, ok := annotations[gang.AnnotationMaxRestarts]; !ok && hasOwnBackoffLimit(w) {
		paths.restarts = specPath.Child("backoffLimit").String()
	}
	return paths
}

// hasOwnBackoffLimit reports whether the number of restarts can come from spec.backoffLimit.
func hasOwnBackoffLimit(w gang.Workload) bool {
	return w.Job != nil && !gang.IsDefaultBackoffLimit(w.Job.Spec.BackoffLimit)
}
