package connections

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// queueRequests makes requests wait for a slot in the given order, each as peer and namespace. It returns the list of
// the requests that got a slot so far.
func queueRequests(t *testing.T, s *slots, requests ...[2]string) *[]string {
	t.Helper()
	var granted []string
	for _, r := range requests {
		go func() {
			if s.acquire(t.Context(), r[0], r[1]) {
				granted = append(granted, fmt.Sprint(r[0], "/", r[1]))
			}
		}()
		synctest.Wait()
	}
	return &granted
}

// TestSlots checks who gets the next slot. Each step releases a slot of a namespace.
func TestSlots(t *testing.T) {
	for name, c := range map[string]struct {
		count    int
		requests [][2]string
		releases []string
		want     []string
	}{
		"a namespace leaves half of the slots to others": {
			count: 4, requests: [][2]string{{"p", "a"}, {"p", "a"}, {"p", "a"}, {"p", "a"}, {"p", "b"}},
			want: []string{"p/a", "p/a", "p/b"},
		},
		"the namespace with the fewest slots is next": {
			count: 2, requests: [][2]string{{"p", "a"}, {"p", "b"}, {"p", "a"}, {"p", "c"}}, releases: []string{"b"},
			want: []string{"p/a", "p/b", "p/c"},
		},
		"peers take turns": {
			count:    2,
			requests: [][2]string{{"p", "a"}, {"p", "b"}, {"p", "c"}, {"p", "d"}, {"p", "e"}, {"q", "f"}},
			releases: []string{"a", "b"},
			want:     []string{"p/a", "p/b", "p/c", "q/f"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlots(c.count)
				granted := queueRequests(t, s, c.requests...)
				for _, namespace := range c.releases {
					s.release(namespace)
					synctest.Wait()
				}
				if diff := cmp.Diff(c.want, *granted); diff != "" {
					t.Errorf("requests with a slot (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestQueuedRequest checks that a request without a client gets no slot, and that a request that no longer waits
// leaves the queue.
func TestQueuedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		queueRequests(t, s, [2]string{"p", "a"})
		go func() {
			if s.acquire(ctx, "p", "b") {
				t.Error("a request without a client got a slot")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		s.release("a")
		if s.acquire(ctx, "p", "b") {
			t.Error("a request without a client got a slot")
		}
		if s.free != 1 || len(s.queues) != 0 {
			t.Errorf("%d free slots and %d queues, want 1 and 0", s.free, len(s.queues))
		}
	})
}
