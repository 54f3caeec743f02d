package controller

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFairQueue checks the order of requests of several namespaces.
func TestFairQueue(t *testing.T) {
	for name, c := range map[string]struct {
		added, want []string // namespace/name
	}{
		"one namespace is in the order of arrival": {
			added: []string{"a/1", "a/2", "a/3"}, want: []string{"a/1", "a/2", "a/3"},
		},
		"namespaces take turns": {
			added: []string{"a/1", "a/2", "a/3", "b/1", "b/2", "c/1"},
			want:  []string{"a/1", "b/1", "c/1", "a/2", "b/2", "a/3"},
		},
		"a request that waits already keeps its place": {
			added: []string{"a/1", "a/2", "a/1"}, want: []string{"a/1", "a/2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newRequestQueue("", NewRateLimiter())
			defer q.ShutDown()
			for _, text := range c.added {
				q.Add(Request{Namespace: text[:1], Name: text[2:]})
			}
			var got []string
			for q.Len() > 0 {
				req, _ := q.Get()
				got = append(got, req.Namespace+"/"+req.Name)
				q.Done(req)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFairness checks that a request waits for one request of each other namespace, even if a namespace
// has 1,000 gangs that are added again as soon as they were reconciled.
func TestFairness(t *testing.T) {
	const noisyNamespaces, gangs, rounds = 3, 1000, 100
	q := newRequestQueue("", NewRateLimiter())
	defer q.ShutDown()
	for n := range noisyNamespaces {
		for i := range gangs {
			q.Add(Request{Namespace: fmt.Sprintf("noisy-%d", n), Name: fmt.Sprint(i)})
		}
	}
	quiet := Request{Namespace: "quiet", Name: "train"}
	for range rounds {
		q.Add(quiet)
		for before := 0; ; before++ {
			req, _ := q.Get()
			q.Done(req)
			if req == quiet {
				break
			}
			if before == noisyNamespaces {
				t.Fatalf("more than %d requests were handled first", noisyNamespaces)
			}
			q.Add(req) // the gang fails again
		}
	}
	if want := noisyNamespaces * gangs; q.Len() != want {
		t.Errorf("%d requests wait, want %d", q.Len(), want)
	}
}
