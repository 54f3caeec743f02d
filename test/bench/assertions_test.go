package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
func checkPodEnv(l load, v variant, pods []corev1.Pod) error {
	if len(pods) != l.Gangs*l.Ranks {
		return fmt.Errorf("%d pods, want %d", len(pods), l.Gangs*l.Ranks)
	}
	isInjected := v != variantPlain && v != variantJobSet
	var errs []error
	for _, p := range pods {
		env := map[string]string{}
		for _, e := range p.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
			return !slices.Contains(expectedEnv, name)
		})
		switch {
		case !isInjected && len(got) > 0:
			errs = append(errs, fmt.Errorf("pod %s of a plain Job has %q", p.Name, got))
		case isInjected && !slices.Equal(got, expectedEnv):
			errs = append(errs, fmt.Errorf("pod %s has %q, want %q", p.Name, got, expectedEnv))
		case isInjected && (env["WORLD_SIZE"] != fmt.Sprint(l.Ranks) || p.Spec.Subdomain == ""):
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
	statusPatch := writeKind{Writer: writerRollcall, Verb: "patch", Resource: "jobs/status"}
	if wasSlow := r.ReadySeconds > 3; want[statusPatch] > 0 && wasSlow && got[statusPatch] <= 2*want[statusPatch] {
		// Gangs whose ranks become ready at different times report the phase Starting.
		want[statusPatch] = got[statusPatch]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s: Rollcall's writes: -want, +got:\n%s", l, v, diff)
	}
}
