package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrimService is a transform function of the cache. It returns a Service with the fields that the reconciler
// compares or patches: labels, owners, selector, ports, and whether it is headless. TrimService does not change
// its argument. Objects of other types are returned unchanged.
func TrimService(o any) (any, error) {
	service, ok := o.(*corev1.Service)
	if !ok {
		return o, nil // a tombstone
	}
	out := &corev1.Service{ObjectMeta: trimObjectMetadata(&service.ObjectMeta)}
	out.OwnerReferences = internOwners(service.OwnerReferences)
	out.Spec = corev1.ServiceSpec{
		ClusterIP:                intern(service.Spec.ClusterIP),
		Selector:                 internLabels(service.Spec.Selector),
		Ports:                    internPorts(service.Spec.Ports),
		PublishNotReadyAddresses: service.Spec.PublishNotReadyAddresses,
	}
	return out, nil
}

// internOwners returns owners that share the memory of their kinds with those of other objects.
func internOwners(owners []metav1.OwnerReference) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, owner := range owners {
		owner.APIVersion, owner.Kind = intern(owner.APIVersion), intern(owner.Kind)
		out = append(out, owner)
	}
	return out
}

// internPorts returns ports that share the memory of their names with those of other Services.
func internPorts(ports []corev1.ServicePort) []corev1.ServicePort {
	out := slices.Clone(ports)
	for i := range out {
		out[i].Name, out[i].Protocol = intern(out[i].Name), intern(out[i].Protocol)
	}
	return out
}
