package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantWrites is all that Rollcall writes for a gang until it runs, whatever its size.
var wantWrites = map[write]int{
	// The headless Service.
	{Writer: rollcall, Verb: "create", Resource: "services"}: 1,
	// Label, annotation and condition of the phase Running, in one. Those of Pending are set at admission.
	{Writer: rollcall, Verb: "patch", Resource: "jobs/status"}: 1,
	// ServiceCreated and GangRunning.
	{Writer: rollcall, Verb: "create", Resource: "events"}: 2,
}

// wantEnv is a part of the environment by which the whole is told: what every PyTorch program reads.
var wantEnv = []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}

// check looks whether each rank has its environment, which plain ones must not have.
func (g *ground) check(ctx context.Context, l load, v variant, namespace string) error {
	pods, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	if len(pods.Items) != l.Gangs*l.Ranks {
		return fmt.Errorf("%d pods, want %d", len(pods.Items), l.Gangs*l.Ranks)
	}
	var errs []error
	for _, p := range pods.Items {
		env := map[string]string{}
		for _, e := range p.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool { return !slices.Contains(wantEnv, name) })
		switch {
		case v == plain && len(got) > 0:
			errs = append(errs, fmt.Errorf("pod %s of a plain Job has %q", p.Name, got))
		case v != plain && !slices.Equal(got, wantEnv):
			errs = append(errs, fmt.Errorf("pod %s has %q, want %q", p.Name, got, wantEnv))
		case v != plain && (env["WORLD_SIZE"] != fmt.Sprint(l.Ranks) || p.Spec.Subdomain == ""):
			errs = append(errs, fmt.Errorf("pod %s: WORLD_SIZE %q, subdomain %q", p.Name, env["WORLD_SIZE"], p.Spec.Subdomain))
		}
	}
	return errors.Join(errs...)
}

// checkWrites compares what Rollcall wrote for each gang with what it may, which is nothing without the label. Refused
// writes are left out: how often Rollcall and the Job controller meet depends on time.
func checkWrites(t *testing.T, l load, v variant, r run) {
	t.Helper()
	want := map[write]int{}
	if v == labelled {
		for w, count := range wantWrites {
			want[w] = count * l.Gangs
		}
	}
	got := maps.Clone(r.writes)
	maps.DeleteFunc(got, func(w write, _ int) bool { return w.Writer != rollcall || w.Refused })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s: Rollcall's writes: -want, +got:\n%s", l, v, diff)
	}
}
