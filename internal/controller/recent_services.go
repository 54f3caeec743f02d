package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recentServices remembers Services for [serviceRetryInterval]: those of users, which the cache does not
// contain, and new ones, which it does not contain yet. A gang that starts has several passes per second.
// The zero value is empty and ready for use. Its methods are safe for concurrent use.
type recentServices struct {
	mu    sync.Mutex
	byKey map[client.ObjectKey]recentService
}

// recentService is a Service and the time at which it was read or created. It is never changed.
type recentService struct {
	service  *corev1.Service
	readTime time.Time
}

// find returns a Service that was read or created recently; nil if there is none.
func (s *recentServices) find(key client.ObjectKey, now time.Time) *corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.byKey[key]; ok && now.Before(found.readTime.Add(serviceRetryInterval)) {
		return found.service.DeepCopy()
	}
	return nil
}

// remember records what the cache would keep of a Service. It drops the Services that are not recent.
func (s *recentServices) remember(service *corev1.Service, now time.Time) {
	trimmed, _ := TrimService(service.DeepCopy()) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[client.ObjectKey]recentService{}
	}
	for other, found := range s.byKey {
		if !now.Before(found.readTime.Add(serviceRetryInterval)) {
			delete(s.byKey, other)
		}
	}
	s.byKey[client.ObjectKeyFromObject(service)] = recentService{service: trimmed.(*corev1.Service), readTime: now}
}

// forget drops a Service that was deleted.
func (s *recentServices) forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}

// findService returns a Service of the cache, or one that was read or created recently. It returns nil if
// neither exists.
func (r *Reconciler) findService(ctx context.Context, key client.ObjectKey) (*corev1.Service, error) {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, key, service)
	switch {
	case apierrors.IsNotFound(err):
		return r.services.find(key, r.Clock.Now()), nil
	case err != nil:
		return nil, fmt.Errorf("reading the Service %s: %w", key.Name, err)
	}
	return service, nil
}
