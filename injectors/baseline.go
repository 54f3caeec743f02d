package injectors

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/scheduling"
	"rollcall.training/plan"
)

// Variables that the engine sets for every framework. An elastic gang has no EnvSize, because its
// size changes while its ranks run.
const (
	EnvGang = "ROLLCALL_GANG"
	EnvRole = "ROLLCALL_ROLE"
	EnvRank = "ROLLCALL_RANK"
	EnvSize = gang.EnvSize
	// EnvAttempt is the number of the current attempt. Only Jobs with the restart
	// policy "gang" have the variable.
	EnvAttempt = "ROLLCALL_ATTEMPT"
)

// Pod labels of training-operator (pkg/apis/kubeflow.org/v1/common_types.go). Selectors, dashboards
// and scripts of former users find the pods of a job by these labels.
const (
	labelJobName     = "training.kubeflow.org/job-name"
	labelReplicaType = "training.kubeflow.org/replica-type"
)

// labelIstioInject disables the sidecar of Istio, which would keep running after the training
// container (istio/istio#6324) and would intercept the TCP connections between ranks.
const labelIstioInject = "sidecar.istio.io/inject"

// istioPrefixes are prefixes of labels and annotations that configure the sidecar of Istio, such as the
// label istio.io/rev (istio.io/latest/docs/reference/config/annotations).
var istioPrefixes = []string{"istio.io/", "sidecar.istio.io/", "proxy.istio.io/", "traffic.sidecar.istio.io/"}

// The memory-backed volume at /dev/shm. The 64 MiB that container runtimes provide are too small for
// data loaders and NCCL (kubernetes/kubernetes#28272).
const (
	shmVolumeName = "rollcall-shm"
	shmMountPath  = "/dev/shm"
)

// addBaseline adds the needs of every gang, independent of its framework, to a plan.
func addBaseline(p *plan.Plan, g gang.Gang) {
	p.Env = append(p.Env,
		plan.LiteralEnv(EnvGang, g.Name),
		plan.LiteralEnv(EnvRole, g.Role),
		plan.FieldEnv(EnvRank, plan.PodLabelFieldPath(g.RankLabel)),
	)
	p.PodLabels = append(p.PodLabels,
		plan.Label{Name: gang.LabelGang, Value: g.Name},
		plan.Label{Name: gang.LabelFramework, Value: g.Framework.Name},
		plan.Label{Name: gang.LabelRole, Value: g.Role},
		plan.Label{
			Name: labelIstioInject, Value: "false", Policy: plan.KeepUser,
			Disables: "the sidecar of Istio", DisabledPrefixes: istioPrefixes,
		},
	)
	p.Children.Service = cmp.Or(p.Children.Service, &plan.Service{
		Name:     g.ServiceName,
		PortName: g.Framework.PortName,
		Port:     g.Port,
		Selector: g.ServiceSelector(),
	})
	if g.HasKubeflowNames {
		p.PodLabels = append(p.PodLabels,
			plan.Label{Name: labelJobName, Value: g.Name, Policy: plan.KeepUser},
			plan.Label{Name: labelReplicaType, Value: g.Role, Policy: plan.KeepUser})
	}
	if g.Kind == gang.Job && g.RestartRules.RestartPolicy == gang.RestartPolicyGang {
		p.RestartInPlace = p.RestartInPlace || g.ContainerRestartRules
		p.JobFailureLimit = max(p.JobFailureLimit, g.RestartRules.JobFailureLimit())
		p.Env = append(p.Env, plan.FieldEnv(EnvAttempt, plan.PodLabelFieldPath(gang.LabelAttempt)))
		p.PodLabels = append(p.PodLabels, plan.Label{Name: gang.LabelAttempt, Value: "0"})
	}
	p.CompleteWithFirstPod = p.CompleteWithFirstPod || completesWithFirstPod(g)
	if s := scheduling.Find(g.Placement.Scheduler); s != nil {
		s.PlanPods(p, g)
		if scheduling.HasPodGroups(g.Placement.Scheduler) {
			p.Children.PodGroup = g.OwnPodGroup()
		}
	}
	addPlacementAnnotations(p, g)
	if g.Elastic == nil {
		p.Env = append(p.Env, plan.LiteralEnv(EnvSize, strconv.Itoa(int(g.Size))))
	}
	if g.RankOffset > 0 {
		p.PodLabels = append(p.PodLabels, plan.Label{Name: gang.LabelRankOffset, Value: strconv.Itoa(int(g.RankOffset))})
	}
	if !g.Shm.Disabled {
		p.Volumes = append(p.Volumes, newSHMVolume(g))
	}
	if g.RestartRules.RestartOnNodeLoss {
		p.Tolerations = append(p.Tolerations, newNodeLossTolerations()...)
	}
	if g.GPUs != nil {
		p.Resources = append(p.Resources, plan.Resource{Name: corev1.ResourceName(g.GPUs.Resource), Count: g.GPUs.Count})
	}
	addProgressProbe(p, g)
}

// addPlacementAnnotations adds the annotations of pods that concern their nodes. The template decides, because the
// annotations of the workload can change while the gang runs.
func addPlacementAnnotations(p *plan.Plan, g gang.Gang) {
	scheduling.PlanTopology(p, g.Placement)
	if len(g.RankOrder) > 0 && g.Role == gang.RoleLauncher {
		p.PodAnnotations = append(p.PodAnnotations,
			plan.Label{Name: gang.AnnotationRankOrder, Value: strings.Join(g.RankOrder, ",")})
	}
	if g.Queue != "" {
		p.PodAnnotations = append(p.PodAnnotations, plan.Label{Name: gang.AnnotationQueue, Value: g.Queue})
	}
}

// nodeLossToleration is how long a pod stays on a node that does not report, instead of the default of 300 seconds.
// Rollcall restarts a gang earlier, but a lost pod that was never ready shows only by its eviction, and no manager may
// run.
const nodeLossToleration = 30 // seconds

func newNodeLossTolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		out = append(out, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](nodeLossToleration),
		})
	}
	return out
}

// completesWithFirstPod reports whether the Job needs a success policy. A Job of one pod completes with
// its first pod anyway, so it gets the policy only if the user asks for rank0.
func completesWithFirstPod(g gang.Gang) bool {
	own := g.OwnMember()
	return g.CompletesWithFirstPod(own) && (own.Size > 1 || g.RestartRules.SuccessPolicy == gang.SuccessPolicyRank0)
}

// newSHMVolume returns the volume at /dev/shm.
func newSHMVolume(g gang.Gang) plan.Volume {
	return plan.Volume{
		Volume: corev1.Volume{
			Name: shmVolumeName,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium:    corev1.StorageMediumMemory,
				SizeLimit: shmSize(g),
			}},
		},
		Mounts: []corev1.VolumeMount{{MountPath: shmMountPath}},
		Policy: plan.KeepUser,
	}
}

// shmSize returns the size of /dev/shm: the size that the user set, or half of the largest memory
// limit of a training container. The content counts toward the memory of the containers, so the
// other half remains for the program. The result is nil if no container has a limit. The kernel then
// limits the tmpfs to half of the memory of the node.
func shmSize(g gang.Gang) *resource.Quantity {
	if g.Shm.Size != nil {
		return g.Shm.Size
	}
	var limit int64
	for _, c := range g.Containers {
		limit = max(limit, c.Memory)
	}
	if limit <= 1 {
		return nil
	}
	return resource.NewQuantity(limit/2, resource.BinarySI)
}
