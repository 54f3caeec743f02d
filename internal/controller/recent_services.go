package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recentService is a Service and the time at which it was read or created. It is never changed.
type recentService struct {
	service  *corev1.Service
	readTime time.Time
}

// findService returns a Service that was read or created within [serviceRetryInterval]; nil if there is none. The cache
// contains neither the Services of users nor those that were just created, and a gang that starts has several passes
// per second.
func (s *sessions) findService(key client.ObjectKey, now time.Time) *corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.services[key]; ok && now.Before(found.readTime.Add(serviceRetryInterval)) {
		return found.service.DeepCopy()
	}
	return nil
}

// rememberService records what the cache would keep of a Service. It drops the Services that are not recent.
func (s *sessions) rememberService(service *corev1.Service, now time.Time) {
	trimmed, _ := TrimService(service.DeepCopy()) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, found := range s.services {
		if !now.Before(found.readTime.Add(serviceRetryInterval)) {
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

// findService returns a Service of the cache, or one that was read or created recently. It returns nil if
// neither exists.
func (r *Reconciler) findService(ctx context.Context, key client.ObjectKey) (*corev1.Service, error) {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, key, service)
	switch {
	case apierrors.IsNotFound(err):
		return r.sessions.findService(key, r.Clock.Now()), nil
	case err != nil:
		return nil, fmt.Errorf("reading the Service %s: %w", key.Name, err)
	}
	return service, nil
}
