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

// rankEnv are the variables that each rank of a gang reads. They represent the injected environment.
type rankEnv struct {
	names []string
	// size is the variable with the number of ranks, which is one of names.
	size string
}

// The variables of torchrun, which Trainer injects, and those that Rollcall injects for PyTorch programs with and
// without torchrun.
var (
	torchrunEnv = rankEnv{[]string{"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK"}, "PET_NNODES"}
	pytorchEnv  = rankEnv{
		slices.Sorted(slices.Values(append([]string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"},
			torchrunEnv.names...))), "WORLD_SIZE",
	}
)

// expectedEnv returns the variables of the ranks of a variant. It is empty for plain Jobs and for gangs
// whose operator injects no variables.
func expectedEnv(v variant) rankEnv {
	switch v {
	case variantPlain, variantJobSet, variantMPI:
		return rankEnv{}
	case variantTrainer:
		return torchrunEnv
	default:
		return pytorchEnv
	}
}

// checkPodEnv checks that each rank has the variables of its variant and no others, and that the ranks of
// all gangs have a subdomain.
func checkPodEnv(l load, v variant, pods []corev1.Pod) error {
	if len(pods) != l.Gangs*l.Ranks {
		return fmt.Errorf("%d pods, want %d", len(pods), l.Gangs*l.Ranks)
	}
	want := expectedEnv(v)
	var errs []error
	for _, p := range pods {
		env := map[string]string{}
		for _, e := range p.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
			return !slices.Contains(pytorchEnv.names, name)
		})
		switch {
		case !slices.Equal(got, want.names):
			errs = append(errs, fmt.Errorf("pod %s has %q, want %q", p.Name, got, want.names))
		case want.size != "" && env[want.size] != fmt.Sprint(l.Ranks):
			errs = append(errs, fmt.Errorf("pod %s: %s is %q, want %d", p.Name, want.size, env[want.size], l.Ranks))
		case v != variantPlain && p.Spec.Subdomain == "":
			errs = append(errs, fmt.Errorf("pod %s has no subdomain", p.Name))
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
