package gang

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultGPUResource is the extended resource that [AnnotationGPUs] counts by default.
const DefaultGPUResource = "nvidia.com/gpu"

// acceleratorResources lists the extended resources of the device plugins for accelerators. A
// trailing * matches any suffix, such as a MIG profile or a generation.
var acceleratorResources = []string{
	"nvidia.com/gpu", "nvidia.com/mig-*",
	"amd.com/gpu",
	"gpu.intel.com/*",
	"habana.ai/gaudi",
	"aws.amazon.com/neuron*",
	resourceTPU,
}

// resourceTPU is the extended resource of Google's TPUs.
const resourceTPU = "google.com/tpu"

// AcceleratorResources returns the names of the extended resources that are accelerators. A trailing *
// matches any suffix. The caller owns the slice.
func AcceleratorResources() []string { return slices.Clone(acceleratorResources) }

func isAccelerator(name corev1.ResourceName) bool {
	for _, pattern := range acceleratorResources {
		prefix, isPattern := strings.CutSuffix(pattern, "*")
		if string(name) == pattern || isPattern && strings.HasPrefix(string(name), prefix) {
			return true
		}
	}
	return false
}

// CountAccelerators returns the number of accelerators of all vendors in the limits of a container.
// A request counts if the resource has no limit. The API server requires the limit and the request
// of an extended resource to be equal, so no resource counts twice.
func CountAccelerators(r corev1.ResourceRequirements) int64 {
	var count int64
	for name, limit := range r.Limits {
		if isAccelerator(name) {
			count += limit.Value()
		}
	}
	for name, request := range r.Requests {
		if _, limited := r.Limits[name]; !limited && isAccelerator(name) {
			count += request.Value()
		}
	}
	return count
}

// resourceDeviceClassPrefix is the prefix of the extended resources that stand for the devices of a DeviceClass
// (KEP-5004, k8s.io/api/resource/v1, ResourceDeviceClassPrefix).
const resourceDeviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// HasResourceClaims reports whether a container gets devices by resource claims, whose kind is not known: its own
// claims, or the claim that the scheduler creates for a resource that names a DeviceClass.
func HasResourceClaims(r corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if strings.HasPrefix(string(name), resourceDeviceClassPrefix) {
				return true
			}
		}
	}
	return len(r.Claims) > 0
}

func hasTPU(r corev1.ResourceRequirements, gpus *GPUs) bool {
	_, limited := r.Limits[resourceTPU]
	_, requested := r.Requests[resourceTPU]
	return limited || requested || gpus != nil && gpus.Resource == resourceTPU
}

// parseGPUs parses the requested accelerators. It returns nil without a valid [AnnotationGPUs].
func (p *parser) parseGPUs() *GPUs {
	name, hasName := p.meta.Annotations[AnnotationGPUResource]
	if !hasName {
		name = DefaultGPUResource
	} else if msgs := validation.IsQualifiedName(name); len(msgs) > 0 || !strings.Contains(name, "/") {
		p.addInvalid(annotationsPath.Key(AnnotationGPUResource), name,
			"must be an extended resource, vendor/name, such as nvidia.com/gpu or amd.com/gpu")
	}
	if _, ok := p.meta.Annotations[AnnotationGPUs]; !ok {
		if hasName {
			p.addWarning(annotationsPath.Key(AnnotationGPUResource), "has no effect without "+AnnotationGPUs)
		}
		return nil
	}
	count := p.parseInt(AnnotationGPUs, 1, MaxProcessesPerPod, 0,
		": the accelerators of each training container; to request none, remove the annotation")
	if count == 0 {
		return nil
	}
	return &GPUs{Resource: name, Count: count}
}

// parseShm parses the requested /dev/shm.
func (p *parser) parseShm() Shm {
	text, ok := p.meta.Annotations[AnnotationShmSize]
	switch {
	case !ok:
		return Shm{}
	case text == "none":
		return Shm{Disabled: true}
	}
	size, err := ParseQuantity(text)
	if err != nil || size.Sign() <= 0 {
		p.addInvalid(annotationsPath.Key(AnnotationShmSize), text, "must be a quantity above 0, such as 8Gi, or none")
		return Shm{}
	}
	return Shm{Size: &size}
}
