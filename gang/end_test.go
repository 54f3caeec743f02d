package gang_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// TestEndsWithFirst: whose first pod ends the gang.
func TestEndsWithFirst(t *testing.T) {
	flow := gang.Framework{Name: "flow", Role: "worker", First: "worker", Roles: []gang.Role{
		{Name: "chief", Max: 1, Decides: true}, {Name: "worker"}, {Name: "ps", Serves: true}}}
	peers := gang.Framework{Name: "peers", Role: "worker", Roles: []gang.Role{{Name: "worker"}}}
	for name, c := range map[string]struct {
		reason    string
		framework gang.Framework
		success   string
		roles     []string
		want      string // the role; empty for none
	}{
		"peers":             {"all of them end", peers, "", []string{"worker"}, ""},
		"rank0":             {"", peers, gang.SuccessRank0, []string{"worker"}, "worker"},
		"workers":           {"worker 0 does the chief's work", flow, "", []string{"worker"}, "worker"},
		"workers and ps":    {"", flow, "", []string{"worker", "ps"}, "worker"},
		"chief and workers": {"the chief decides", flow, "", []string{"chief", "worker"}, ""},
		"all":               {"its user wants all", flow, gang.SuccessAll, []string{"worker"}, ""},
		"a role":            {"all of that role", flow, "worker", []string{"worker", "ps"}, ""},
		"rank0 of several":  {"rank 0 is the first role's", flow, gang.SuccessRank0, []string{"chief", "worker"}, "chief"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang.Gang{Framework: c.framework, Lifecycle: gang.Lifecycle{Success: c.success}}
			for _, role := range c.roles {
				g.Members = append(g.Members, gang.Member{Role: role, Workload: "train-" + role, Size: 2})
			}
			for _, m := range g.Members {
				if got := g.EndsWithFirst(m); got != (m.Role == c.want) {
					t.Errorf("%s: of %s it is %v", c.reason, m.Role, got)
				}
			}
		})
	}
}

// TestEndOfSet: a StatefulSet is done when its ranks are, or when the first is, where that
// counts; what runs beside the training need not end.
func TestEndOfSet(t *testing.T) {
	trains := []string{"trainer"}
	pods := func(done ...int) []corev1.Pod {
		var out []corev1.Pod
		for i := range 3 {
			p := rankPod(i, helper(-1, 0))
			for _, d := range done {
				if d == i {
					ended(0, 20, true)(&p)
				}
			}
			ofSet(&p)
			out = append(out, p)
		}
		return out
	}
	for name, c := range map[string]struct {
		reason string
		first  bool
		done   []int
		phase  gang.Phase
		want   bool
	}{
		"all":                {"", false, []int{0, 1, 2}, gang.Running, true},
		"not all":            {"", false, []int{0, 1}, gang.Running, false},
		"first":              {"", true, []int{0}, gang.Running, true},
		"another":            {"it is not the one that counts", true, []int{1, 2}, gang.Running, false},
		"first, as it falls": {"what ends while the gang is stopped was told to", true, []int{0}, gang.Restarting, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := gang.Roll{{Member: gang.Member{Workload: "train", Size: 3}, Here: true, First: c.first, Seen: gang.Observation{Set: true, Size: 3}}}
			r.End("train", pods(c.done...), trains, gang.Status{Phase: c.phase})
			if got := r[0].Seen.Complete; got != c.want {
				t.Errorf("%s: complete is %v after the end of %s", c.reason, got, fmt.Sprint(c.done))
			}
		})
	}
}
