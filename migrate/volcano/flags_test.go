package volcano

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/migrate/ledger"
	"rollcall.training/plan"
)

func TestReadFlags(t *testing.T) {
	for _, c := range []struct {
		reason string
		plugin string
		args   []any
		want   map[string]string
		lost   []string
	}{
		{"two dashes and a value", "pytorch", []any{"--master=chief"}, map[string]string{"master": "chief"}, nil},
		{"one dash is as good", "pytorch", []any{"-port=1"}, map[string]string{"port": "1"}, nil},
		{"the value follows", "pytorch", []any{"--worker", "crew", "--port=1"}, map[string]string{"worker": "crew", "port": "1"}, nil},
		{"a switch takes no value", "svc", []any{"--disable-network-policy", "--inject-hosts-env=false"},
			map[string]string{"disable-network-policy": "true", "inject-hosts-env": "false"}, nil},
		{"nothing is read after a flag that is none", "pytorch", []any{"--port=1", "--speed=2", "--worker=x"},
			map[string]string{"port": "1"}, []string{"args[1]", "args[2]"}},
		{"nor after a word", "pytorch", []any{"port", "--worker=x"}, map[string]string{}, []string{"args[0]", "args[1]"}},
		{"a value that is missing", "pytorch", []any{"--master"}, map[string]string{"master": ""}, nil},
		{"the last one counts", "pytorch", []any{"--port=1", "--port=2"}, map[string]string{"port": "2"}, nil},
		{"the value has an equal sign", "ssh", []any{"--ssh-private-key=a=b"}, map[string]string{"ssh-private-key": "a=b"}, nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var account ledger.Ledger
			root := account.Root(map[string]any{"args": c.args})
			got := map[string]string{}
			for name, v := range readFlags(c.plugin, root.Get("args")).values {
				got[name] = v.text
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
			var lost []string
			for _, e := range account.Entries() {
				if e.Outcome == ledger.Lost {
					lost = append(lost, e.Path)
				}
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFrameworks compares what this package knows of the frameworks with what their
// injectors declare.
func TestFrameworks(t *testing.T) {
	var known []string
	for _, injector := range injectors.Builtin() {
		want := injector.Framework()
		known = append(known, want.Name)
		got, ok := frameworkOf(want.Name)
		if !ok {
			t.Errorf("%s is missing", want.Name)
			continue
		}
		if got.byDefault != want.Role || got.port != want.Port || got.launches != want.Launches {
			t.Errorf("%s: default %s, port %d, launches %v; the injector says %s, %d, %v",
				want.Name, got.byDefault, got.port, got.launches, want.Role, want.Port, want.Launches)
		}
		var have, roles []role
		for _, r := range want.Roles {
			roles = append(roles, role{name: r.Name, one: r.Max == 1, decides: r.Decides, serves: r.Serves})
		}
		for _, r := range got.roles {
			r.words = nil
			have = append(have, r)
		}
		if diff := cmp.Diff(roles, have, cmp.AllowUnexported(role{})); diff != "" {
			t.Errorf("roles of %s (-injector +here):\n%s", want.Name, diff)
		}
		for _, e := range injector.Plan(sample(want)).Env {
			if e.Policy == plan.Own && e.Name != "PET_NPROC_PER_NODE" && !slices.Contains(got.own, e.Name) {
				t.Errorf("%s suffers no other value of %s, and the list does not have it", want.Name, e.Name)
			}
		}
	}
	slices.Sort(known)
	if diff := cmp.Diff(known, frameworkNames()); diff != "" {
		t.Errorf("frameworks (-injectors +here):\n%s", diff)
	}
}

// sample is a gang of two pods in the framework's default role.
func sample(f gang.Framework) gang.Gang {
	m := gang.Member{Role: f.Role, Workload: "train", Size: 2}
	return gang.Gang{Name: "train", Namespace: "default", Framework: f, Role: f.Role, Kind: gang.Job, Workload: "train",
		Members: []gang.Member{m}, Size: 2, IndexLabel: "index", RankLabel: "index", Service: "train", Domain: "cluster.local",
		Port: f.Port, Containers: []gang.Container{{Name: "main"}}, Launch: gang.Launch{Slots: 1}}
}
