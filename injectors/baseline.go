package injectors

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Variables that every member of every gang gets.
const (
	EnvGang = "ROLLCALL_GANG"
	EnvRole = "ROLLCALL_ROLE"
	EnvRank = "ROLLCALL_RANK"
	EnvSize = "ROLLCALL_SIZE"
	// EnvAttempt is the number of restarts before this one; Jobs alone have it.
	EnvAttempt = "ROLLCALL_ATTEMPT"
)

// Pod labels of training-operator (pkg/apis/kubeflow.org/v1/common_types.go), by
// which users' selectors, dashboards and scripts find a job's pods.
const (
	labelJobName     = "training.kubeflow.org/job-name"
	labelReplicaType = "training.kubeflow.org/replica-type"
)

// labelIstioInject keeps Istio's sidecar out: it would outlive the training
// container (istio/istio#6324) and stand between ranks that speak raw TCP.
const labelIstioInject = "sidecar.istio.io/inject"

// The memory-backed /dev/shm, which the runtime's default of 64 MiB is too small
// for data loaders and NCCL (kubernetes/kubernetes#28272).
const (
	shmVolume = "rollcall-shm"
	shmPath   = "/dev/shm"
)

// baseline is what every gang gets.
func baseline(g gang.Gang) plan.Plan {
	p := plan.Plan{
		By: "rollcall",
		Env: []plan.Env{
			plan.Value(EnvGang, g.Name),
			plan.Value(EnvRole, g.Role),
			plan.FieldEnv(EnvRank, plan.PodLabelField(g.RankLabel)),
		},
		PodLabels: []plan.Label{
			{Name: gang.LabelGang, Value: g.Name},
			{Name: gang.LabelFramework, Value: g.Framework.Name},
			{Name: gang.LabelRole, Value: g.Role},
			{Name: labelJobName, Value: g.Name, Policy: plan.Yield},
			{Name: labelReplicaType, Value: g.Role, Policy: plan.Yield},
			{Name: labelIstioInject, Value: "false", Policy: plan.Yield},
		},
		Children: plan.Children{Service: &plan.Service{
			Name:     g.Service,
			PortName: g.Framework.PortName,
			Port:     g.Port,
			Selector: map[string]string{gang.LabelGang: g.Name},
		}},
	}
	if g.Kind == gang.Job && g.Lifecycle.Restart == gang.RestartGang {
		p.RestartInPlace, p.LiftLimits = g.RestartRules, true
		p.Env = append(p.Env, plan.FieldEnv(EnvAttempt, plan.PodLabelField(gang.LabelAttempt)))
		p.PodLabels = append(p.PodLabels, plan.Label{Name: gang.LabelAttempt, Value: "0"})
	}
	p.SuccessOfFirst = g.EndsWithFirst(g.Own()) && (g.Own().Size > 1 || g.Lifecycle.Success == gang.SuccessRank0)
	if g.Elastic == nil { // the size of the others moves while they run
		p.Env = append(p.Env, plan.Value(EnvSize, strconv.Itoa(int(g.Size))))
	}
	if g.Offset > 0 {
		p.PodLabels = append(p.PodLabels, plan.Label{Name: gang.LabelRankOffset, Value: strconv.Itoa(int(g.Offset))})
	}
	if v, ok := shm(g); ok {
		p.Volumes = []plan.Volume{v}
	}
	if g.GPUs != nil {
		p.Resources = []plan.Resource{{Name: corev1.ResourceName(g.GPUs.Resource), Count: g.GPUs.Count}}
	}
	return p
}

// shm is the volume at /dev/shm. What is written there counts to the containers'
// memory, so half of the largest limit leaves the other half to the program; with
// no limit the kernel's own bound for tmpfs, half of the node, holds.
func shm(g gang.Gang) (plan.Volume, bool) {
	if g.Shm.None {
		return plan.Volume{}, false
	}
	size := g.Shm.Size
	if size == nil {
		var limit int64
		for _, c := range g.Containers {
			limit = max(limit, c.Memory)
		}
		if limit > 1 {
			size = resource.NewQuantity(limit/2, resource.BinarySI)
		}
	}
	return plan.Volume{
		Volume: corev1.Volume{
			Name: shmVolume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium:    corev1.StorageMediumMemory,
				SizeLimit: size,
			}},
		},
		Mounts: []corev1.VolumeMount{{MountPath: shmPath}},
		Policy: plan.Yield,
	}, true
}
