package controller

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// maxServiceBytes is the maximum memory of a Service in the cache. The Service of 300 gangs of one name is
// smaller.
const maxServiceBytes = 64 << 10

// TrimService is a transform function of the cache. It returns a Service with the fields that the reconciler
// compares or patches: labels, owners, selector, ports, and whether it is headless. A Service that is still
// larger than maxServiceBytes keeps only its labels, and no gang uses it. TrimService does not change its
// argument. Objects of other types are returned unchanged.
func TrimService(o any) (any, error) {
	service, ok := o.(*corev1.Service)
	if !ok || isTooLarge(service) {
		return o, nil // a tombstone, or the result of an earlier call
	}
	out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: intern(service.Namespace), Name: service.Name, UID: service.UID,
		ResourceVersion: service.ResourceVersion, CreationTimestamp: service.CreationTimestamp,
		DeletionTimestamp: service.DeletionTimestamp,
		Labels:            internLabels(gang.SelectKeys(service.Labels)),
	}}
	if by := service.Labels[injectors.LabelManagedBy]; by != "" && out.Labels != nil {
		out.Labels[injectors.LabelManagedBy] = intern(by)
	}
	kept := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: service.OwnerReferences},
		Spec:       corev1.ServiceSpec{Selector: service.Spec.Selector, Ports: service.Spec.Ports},
	}
	if gang.MeasureMemory(&kept, math.MaxInt) > maxServiceBytes {
		out.Annotations = map[string]string{annotationTooLarge: ""}
		return out, nil
	}
	out.OwnerReferences = internEach(service.OwnerReferences, func(o *metav1.OwnerReference) {
		o.APIVersion, o.Kind = intern(o.APIVersion), intern(o.Kind)
	})
	out.Spec = corev1.ServiceSpec{
		ClusterIP:                intern(service.Spec.ClusterIP),
		Selector:                 internLabels(service.Spec.Selector),
		PublishNotReadyAddresses: service.Spec.PublishNotReadyAddresses,
		Ports: internEach(service.Spec.Ports, func(p *corev1.ServicePort) {
			p.Name, p.Protocol = intern(p.Name), intern(p.Protocol)
		}),
	}
	return out, nil
}

// serviceEventHandler returns the event handler for Services. Only a deletion affects a gang. A Service that is too
// large gets an Event, so that its namespace knows it.
func (r *Reconciler) serviceEventHandler() handler.TypedEventHandler[client.Object, Request] {
	type queue = workqueue.TypedRateLimitingInterface[Request]
	return handler.TypedFuncs[client.Object, Request]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) {
			r.reportTooLargeService(ctx, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) {
			if !isTooLarge(e.ObjectOld) {
				r.reportTooLargeService(ctx, e.ObjectNew)
			}
		},
		DeleteFunc: handler.TypedEnqueueRequestsFromMapFunc(r.RequestsFor).Delete,
	}
}

func (r *Reconciler) reportTooLargeService(ctx context.Context, service client.Object) {
	if !isTooLarge(service) {
		return
	}
	managed, err := r.isManagedNamespace(ctx, service.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report a Service that is too large", "service", service.GetName())
	} else if managed {
		r.Recorder.Eventf(service, nil, corev1.EventTypeWarning, string(gang.ReasonTooLarge), eventActionCheckService,
			"Rollcall does not use the Service because it needs more than %d KiB of memory. "+
				"Remove the label %s, or delete the Service", maxServiceBytes>>10, gang.LabelGang)
	}
}

// recentService is a Service and the time at which it was read or created. It is never changed.
type recentService struct {
	service  *corev1.Service
	readTime time.Time
}

// rememberService records what the cache would keep of a Service. It drops the Services that are not recent.
func (s *sessions) rememberService(service *corev1.Service, now time.Time) {
	trimmed, _ := TrimService(service.DeepCopy()) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, found := range s.services {
		if !now.Before(found.readTime.Add(obstacleRetryInterval)) {
			delete(s.services, other)
		}
	}
	put(&s.services, client.ObjectKeyFromObject(service),
		recentService{service: trimmed.(*corev1.Service), readTime: now})
}

// forgetService drops a Service that was deleted.
func (s *sessions) forgetService(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, key)
}

// findService returns a Service of the cache, or one that was read or created within [obstacleRetryInterval]; nil if
// neither exists. The cache contains neither the Services of users nor those that were just created, and a gang that
// starts has several passes per second.
func (r *Reconciler) findService(ctx context.Context, key client.ObjectKey) (*corev1.Service, error) {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, key, service)
	switch {
	case err == nil:
		return service, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading the Service %s: %w", key.Name, err)
	}
	r.sessions.mu.Lock()
	defer r.sessions.mu.Unlock()
	found, ok := r.sessions.services[key]
	if !ok || !r.Clock.Now().Before(found.readTime.Add(obstacleRetryInterval)) {
		return nil, nil
	}
	return found.service.DeepCopy(), nil
}
