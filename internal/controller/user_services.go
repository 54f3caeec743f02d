package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// userServices remembers the Services of users for [serviceRetryInterval]. The cache does not contain
// them, and a gang that starts has several passes per second. The zero value is empty and ready for use.
// Its methods are safe for concurrent use.
type userServices struct {
	mu    sync.Mutex
	byKey map[client.ObjectKey]userService
}

// userService is a Service and the time at which it was read. It is never changed.
type userService struct {
	service  *corev1.Service
	readTime time.Time
}

// find returns a Service that was read recently; nil if there is none.
func (s *userServices) find(key client.ObjectKey, now time.Time) *corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.byKey[key]; ok && now.Before(found.readTime.Add(serviceRetryInterval)) {
		return found.service.DeepCopy()
	}
	return nil
}

// remember records a Service. It drops the Services that were not read recently.
func (s *userServices) remember(key client.ObjectKey, service *corev1.Service, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[client.ObjectKey]userService{}
	}
	for other, found := range s.byKey {
		if !now.Before(found.readTime.Add(serviceRetryInterval)) {
			delete(s.byKey, other)
		}
	}
	s.byKey[key] = userService{service: service.DeepCopy(), readTime: now}
}

// readUserService reads a Service that is not in the cache. The result may be as old as
// [serviceRetryInterval].
func (r *Reconciler) readUserService(ctx context.Context, key client.ObjectKey) (*corev1.Service, error) {
	now := r.Clock.Now()
	if service := r.userServices.find(key, now); service != nil {
		return service, nil
	}
	service := &corev1.Service{}
	if err := r.APIReader.Get(ctx, key, service); err != nil {
		return nil, err
	}
	r.userServices.remember(key, service, now)
	return service, nil
}
