package gang_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
)

func TestFindRole(t *testing.T) {
	declared := gang.Role{Name: "ps", LongRunning: true}
	fixed := gang.Framework{Roles: []gang.Role{declared}}
	free := gang.Framework{Roles: []gang.Role{declared}, AnyRoles: true}
	for name, c := range map[string]struct {
		framework gang.Framework
		role      string
		want      gang.Role
		found     bool
	}{
		"a declared role":                      {framework: fixed, role: "ps", want: declared, found: true},
		"another role":                         {framework: fixed, role: "actor"},
		"a declared role keeps its properties": {framework: free, role: "ps", want: declared, found: true},
		"any other role has no properties":     {framework: free, role: "actor", want: gang.Role{Name: "actor"}, found: true},
		"an uppercase name is not a DNS label": {framework: free, role: "Actor"},
		"an empty name":                        {framework: free, role: ""},
		"a name of 64 characters":              {framework: free, role: strings.Repeat("a", 64)},
		"a success policy for all roles":       {framework: free, role: gang.SuccessPolicyAll},
		"a success policy for rank 0":          {framework: free, role: gang.SuccessPolicyRank0},
		"an unknown framework":                 {role: "worker"},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := c.framework.FindRole(c.role)
			if diff := cmp.Diff(c.want, got); diff != "" || found != c.found {
				t.Errorf("FindRole(%q) found: %t, want %t (-want +got):\n%s", c.role, found, c.found, diff)
			}
		})
	}
}

func TestCompareRoles(t *testing.T) {
	roles := []gang.Role{{Name: "master"}, {Name: "worker"}}
	for name, c := range map[string]struct {
		framework gang.Framework
		want      []string
	}{
		"the framework orders its roles, and unknown roles are last": {
			framework: gang.Framework{Roles: roles}, want: []string{"master", "worker", "actor"},
		},
		"the user orders any roles": {
			framework: gang.Framework{Roles: roles, AnyRoles: true}, want: []string{"actor", "worker", "master"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{"actor", "worker", "master"}
			slices.SortStableFunc(got, c.framework.CompareRoles)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the order differs (-want +got):\n%s", diff)
			}
		})
	}
}
