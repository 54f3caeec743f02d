package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// securityPage is the page with the table of permissions.
const securityPage = "../../docs/reference/security.md"

// chartRules are the rules that the chart grants to the managers, by scope.
type chartRules struct {
	clusterWide []rbacv1.PolicyRule
	// byNamespace contains the rules of Roles by their namespace.
	byNamespace map[string][]rbacv1.PolicyRule
}

func renderRules(t *testing.T, c *cluster.Cluster, args ...string) chartRules {
	t.Helper()
	rules := chartRules{byNamespace: map[string][]rbacv1.PolicyRule{}}
	for _, o := range renderChart(t, c, args...) {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			rules.clusterWide = append(rules.clusterWide, role.Rules...)
		case *rbacv1.Role:
			rules.byNamespace[role.Namespace] = append(rules.byNamespace[role.Namespace], role.Rules...)
		}
	}
	if len(rules.clusterWide) == 0 || len(rules.byNamespace[installation.Namespace]) == 0 {
		t.Fatalf("rules %+v: want some in the cluster and some in the namespace of the release", rules)
	}
	return rules
}

// verbs returns the verbs of a resource in rules.
func verbs(rules []rbacv1.PolicyRule, resource string) []string {
	var out []string
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) {
			out = append(out, rule.Verbs...)
		}
	}
	return out
}

// testChartRBAC checks that the permissions are minimal, and that they drop with the features.
func testChartRBAC(t *testing.T, c *cluster.Cluster) {
	rules := renderRules(t, c)
	own := rules.byNamespace[installation.Namespace]
	if len(rules.byNamespace) != 1 {
		t.Errorf("Roles in %d namespaces, want only the namespace of the release", len(rules.byNamespace))
	}
	for _, rule := range slices.Concat(rules.clusterWide, own) {
		if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames), "*") {
			t.Errorf("a wildcard: %v", rule)
		}
	}
	for _, rule := range rules.clusterWide {
		for _, resource := range rule.Resources {
			switch {
			case resource == "secrets" && !slices.Equal(rule.Verbs, []string{"create"}), resource == "pods/exec":
				t.Errorf("%s in the whole cluster: %v", resource, rule)
			case strings.HasSuffix(resource, "webhookconfigurations") && len(rule.ResourceNames) == 0:
				t.Errorf("%s of any name: %v", resource, rule)
			}
		}
	}
	for _, rule := range own {
		if len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("%v of any name: %v", rule.Verbs, rule)
		}
	}
	for feature, dropped := range map[string]struct{ resource, verb string }{
		"createKeyPairs": {resource: "secrets", verb: "create"},
		"deletePods":     {resource: "pods", verb: "deletecollection"},
		"untrackPods":    {resource: "pods/status", verb: "patch"},
	} {
		if !slices.Contains(verbs(rules.clusterWide, dropped.resource), dropped.verb) {
			t.Errorf("the managers must not %s %s by default", dropped.verb, dropped.resource)
		}
		without := renderRules(t, c, "--set", "permissions."+feature+"=false")
		if slices.Contains(verbs(without.clusterWide, dropped.resource), dropped.verb) {
			t.Errorf("without %s, the managers may still %s %s", feature, dropped.verb, dropped.resource)
		}
	}
}

// testPermissionTable checks that the table of the security page contains each rule of the chart and
// nothing else.
func testPermissionTable(t *testing.T, c *cluster.Cluster) {
	rules := renderRules(t, c)
	var want []string
	add := func(scope string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					if group == "events.k8s.io" {
						continue // a second API of the same objects
					}
					want = append(want, fmt.Sprintf("| %s | %s | %s |", scope, resource, strings.Join(rule.Verbs, ", ")))
				}
			}
		}
	}
	add("gangs", slices.DeleteFunc(slices.Clone(rules.clusterWide), func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) > 0 || slices.Contains(r.Resources, "namespaces")
	}))
	add("cluster", slices.DeleteFunc(slices.Clone(rules.clusterWide), func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && !slices.Contains(r.Resources, "namespaces")
	}))
	add("own namespace", rules.byNamespace[installation.Namespace])
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) > 4 && slices.Contains([]string{"gangs", "cluster", "own namespace"}, strings.TrimSpace(cells[1])) {
			got = append(got, strings.Join(cells[:4], "|")+"|")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions in %s: -want, +got:\n%s", securityPage, diff)
	}
	withNamespaces := renderRules(t, c, "--set", "namespaces={a,b}")
	for _, namespace := range []string{"a", "b"} {
		ofGangs := slices.DeleteFunc(slices.Clone(rules.clusterWide), func(r rbacv1.PolicyRule) bool {
			return len(r.ResourceNames) > 0 || slices.Contains(r.Resources, "namespaces")
		})
		if diff := cmp.Diff(ofGangs, withNamespaces.byNamespace[namespace]); diff != "" {
			t.Errorf("permissions in the namespace %s: -want, +got:\n%s", namespace, diff)
		}
	}
}
