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

// expectedWritesPerGang lists all writes of Rollcall for a gang until the gang runs. They do not
// depend on the size of the gang.
var expectedWritesPerGang = map[writeKind]int{
	// The headless Service.
	{Writer: writerRollcall, Verb: "create", Resource: "services"}: 1,
	// One patch sets the label, annotation and condition of the phase Running. Admission sets those
	// of Pending.
	{Writer: writerRollcall, Verb: "patch", Resource: "jobs/status"}: 1,
}

// expectedEnv lists the variables that every PyTorch program reads. They represent the injected
// environment.
var expectedEnv = []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}

// checkPodEnv checks that each rank has the injected variables, and that plain pods do not have
// them.
func (g *benchCluster) checkPodEnv(ctx context.Context, l load, v variant, namespace string) error {
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
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
			return !slices.Contains(expectedEnv, name)
		})
		switch {
		case v == variantPlain && len(got) > 0:
			errs = append(errs, fmt.Errorf("pod %s of a plain Job has %q", p.Name, got))
		case v != variantPlain && !slices.Equal(got, expectedEnv):
			errs = append(errs, fmt.Errorf("pod %s has %q, want %q", p.Name, got, expectedEnv))
		case v != variantPlain && (env["WORLD_SIZE"] != fmt.Sprint(l.Ranks) || p.Spec.Subdomain == ""):
			errs = append(errs, fmt.Errorf("pod %s: WORLD_SIZE %q, subdomain %q", p.Name, env["WORLD_SIZE"], p.Spec.Subdomain))
		}
	}
	return errors.Join(errs...)
}

// checkWrites compares the writes of Rollcall for each gang with expectedWritesPerGang. Without the
// label, Rollcall must write nothing. Rejected writes do not count, because the number of conflicts
// with the Job controller depends on timing.
func checkWrites(t *testing.T, l load, v variant, r runResult) {
	t.Helper()
	want := map[writeKind]int{}
	if v == variantLabeled {
		for w, count := range expectedWritesPerGang {
			want[w] = count * l.Gangs
		}
	}
	got := maps.Clone(r.writes)
	maps.DeleteFunc(got, func(w writeKind, _ int) bool { return w.Writer != writerRollcall || w.Rejected })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s: Rollcall's writes: -want, +got:\n%s", l, v, diff)
	}
}
