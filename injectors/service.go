package injectors

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollcall.training/gang"
)

// LabelManagedBy is the label of the objects that Rollcall creates, with the value [ManagedBy].
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "rollcall"
)

// ChildLabels returns the labels of the objects that belong to the gang.
func (r Result) ChildLabels() map[string]string {
	return map[string]string{
		gang.LabelGang: r.Gang.Name, gang.LabelFramework: r.Gang.Framework.Name, LabelManagedBy: ManagedBy,
	}
}

// BuildService returns the headless Service of an admitted gang, or nil if the gang needs no Service.
// The caller sets the owner, because the UID of the owner does not exist during admission.
//
// The Service publishes addresses of pods that are not ready, because ranks must connect to each
// other to become ready (JobSet: publishNotReadyAddresses; volcano-sh/volcano#533).
func (r Result) BuildService() *corev1.Service {
	s := r.Children.Service
	if s == nil {
		return nil
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      s.Name,
			Namespace: r.Gang.Namespace,
			Labels:    r.ChildLabels(),
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 s.Selector,
			Ports: []corev1.ServicePort{{
				Name:       s.PortName,
				Port:       s.Port,
				TargetPort: intstr.FromInt32(s.Port),
				Protocol:   corev1.ProtocolTCP,
			}},
		},
	}
}
