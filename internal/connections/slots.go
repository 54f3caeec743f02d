package connections

import (
	"context"
	"slices"
	"sync"
)

// slots are the places of the requests that are handled at the same time. Peers take turns, so that nobody waits for
// all requests of another address. The requests of one peer are served by namespace: first those of the namespace
// with the fewest slots. A namespace has at most half of the slots.
type slots struct {
	mu         sync.Mutex
	free       int
	share      int            // the maximum of one namespace
	namespaces map[string]int // slots in use
	queues     []*peerQueue   // in the order of their turns; never empty
}

// peerQueue are the requests of one peer that wait for a slot.
type peerQueue struct {
	peer    string
	waiting []*ticket
}

// ticket is a request that waits for a slot. The channel is closed when it gets the slot.
type ticket struct {
	namespace string
	granted   chan struct{}
}

func newSlots(count int) *slots {
	return &slots{free: count, share: max(1, count/2), namespaces: map[string]int{}}
}

// acquire waits for a slot. It returns false if the context ends first. The caller must release a slot that it gets.
func (s *slots) acquire(ctx context.Context, peer, namespace string) bool {
	if ctx.Err() != nil {
		return false
	}
	t := &ticket{namespace: namespace, granted: make(chan struct{})}
	s.mu.Lock()
	s.enqueue(peer, t)
	s.grant()
	s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.granted: // at the same time
		return true
	default:
		s.dequeue(peer, t)
		return false
	}
}

// release returns a slot of a namespace.
func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.namespaces[namespace]--; s.namespaces[namespace] == 0 {
		delete(s.namespaces, namespace)
	}
	s.grant()
}

// The following methods require the mutex.

func (s *slots) enqueue(peer string, t *ticket) {
	i := slices.IndexFunc(s.queues, func(q *peerQueue) bool { return q.peer == peer })
	if i < 0 {
		i = len(s.queues)
		s.queues = append(s.queues, &peerQueue{peer: peer})
	}
	s.queues[i].waiting = append(s.queues[i].waiting, t)
}

func (s *slots) dequeue(peer string, t *ticket) {
	i := slices.IndexFunc(s.queues, func(q *peerQueue) bool { return q.peer == peer })
	q := s.queues[i]
	q.waiting = slices.DeleteFunc(q.waiting, func(other *ticket) bool { return other == t })
	if len(q.waiting) == 0 {
		s.queues = slices.Delete(s.queues, i, i+1)
	}
}

// grant gives free slots to waiting requests.
func (s *slots) grant() {
	for s.free > 0 {
		peer, t := s.next()
		if t == nil {
			return
		}
		s.free--
		s.namespaces[t.namespace]++
		close(t.granted)
		s.dequeue(peer.peer, t)
		if i := slices.Index(s.queues, peer); i >= 0 { // it has more requests, so it is last in the next round
			s.queues = append(slices.Delete(s.queues, i, i+1), peer)
		}
	}
}

// next returns the request that gets the next slot, or nil if every namespace has its share.
func (s *slots) next() (*peerQueue, *ticket) {
	for _, q := range s.queues {
		var best *ticket
		for _, t := range q.waiting {
			if used := s.namespaces[t.namespace]; used < s.share && (best == nil || used < s.namespaces[best.namespace]) {
				best = t
			}
		}
		if best != nil {
			return q, best
		}
	}
	return nil, nil
}
