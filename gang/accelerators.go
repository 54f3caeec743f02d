package gang

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultGPUResource is the extended resource that [AnnotationGPUs] counts.
const DefaultGPUResource = "nvidia.com/gpu"

// maxPerPod bounds accelerators and processes per pod. The largest coherent
// machines sold have 72 accelerators in one domain; an order of magnitude above
// that is room enough, and a number beyond it is a slip (bytes for GPUs, say).
const maxPerPod = 1024

// vendors lists the extended resources by which device plugins publish
// accelerators; a trailing * stands for any ending (MIG profiles, generations).
var vendors = []string{
	"nvidia.com/gpu", "nvidia.com/mig-*",
	"amd.com/gpu",
	"gpu.intel.com/*",
	"habana.ai/gaudi",
	"aws.amazon.com/neuron*",
	resourceTPU,
}

func isAccelerator(name corev1.ResourceName) bool {
	for _, v := range vendors {
		if prefix, wild := strings.CutSuffix(v, "*"); wild && strings.HasPrefix(string(name), prefix) || string(name) == v {
			return true
		}
	}
	return false
}

// accelerators counts those of all vendors in a container's limits. Requests
// count where a limit is absent; for extended resources the API server demands
// that the two be equal, so a resource is never counted twice.
func accelerators(r corev1.ResourceRequirements) int64 {
	var n int64
	for name, q := range r.Limits {
		if isAccelerator(name) {
			n += q.Value()
		}
	}
	for name, q := range r.Requests {
		if _, limited := r.Limits[name]; !limited && isAccelerator(name) {
			n += q.Value()
		}
	}
	return n
}

// resourceTPU is the extended resource of Google's TPUs.
const resourceTPU = "google.com/tpu"

func hasTPU(r corev1.ResourceRequirements, gpus *GPUs) bool {
	_, limited := r.Limits[resourceTPU]
	_, requested := r.Requests[resourceTPU]
	return limited || requested || gpus != nil && gpus.Resource == resourceTPU
}

// gpus reads the wish for accelerators.
func (p *parser) gpus() *GPUs {
	res, hasRes := p.meta.Annotations[AnnotationGPUResource]
	if !hasRes {
		res = DefaultGPUResource
	} else if msgs := validation.IsQualifiedName(res); len(msgs) > 0 || !strings.Contains(res, "/") {
		p.invalid(annotationsPath.Key(AnnotationGPUResource), res,
			"must be an extended resource, vendor/name, such as nvidia.com/gpu or amd.com/gpu")
	}
	v, ok := p.meta.Annotations[AnnotationGPUs]
	if !ok {
		if hasRes {
			p.warn(annotationsPath.Key(AnnotationGPUResource), "has no effect without "+AnnotationGPUs)
		}
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > maxPerPod {
		p.invalid(annotationsPath.Key(AnnotationGPUs), v, fmt.Sprintf(
			"must be a whole number from 1 to %d: the accelerators of each pod; remove the annotation for none", maxPerPod))
		return nil
	}
	return &GPUs{Resource: res, Count: n}
}

// shm reads the wish for /dev/shm.
func (p *parser) shm() Shm {
	v, ok := p.meta.Annotations[AnnotationShm]
	switch {
	case !ok:
		return Shm{}
	case v == "none":
		return Shm{None: true}
	}
	q, err := resource.ParseQuantity(v)
	if err != nil || q.Sign() <= 0 {
		p.invalid(annotationsPath.Key(AnnotationShm), v, "must be a quantity above 0, such as 8Gi, or none")
		return Shm{}
	}
	return Shm{Size: &q}
}
