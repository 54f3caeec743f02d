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

// metricsReader is the ClusterRole for clients that read metrics.
const metricsReader = "rollcall-metrics-reader"

// chartRules are the rules that the chart grants to one part of Rollcall, by scope.
type chartRules struct {
	clusterWide []rbacv1.PolicyRule
	// byNamespace contains the rules of Roles by their namespace.
	byNamespace map[string][]rbacv1.PolicyRule
}

// renderRules returns the rules of each ServiceAccount of the chart. It follows the bindings.
func renderRules(t *testing.T, c *cluster.Cluster, args ...string) map[string]chartRules {
	t.Helper()
	objects := renderChart(t, c, args...)
	roles := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			if role.Name != metricsReader { // the chart binds this role to no account
				roles["ClusterRole/"+role.Name] = role.Rules
			}
		case *rbacv1.Role:
			roles[role.Namespace+"/Role/"+role.Name] = role.Rules
		}
	}
	rules := map[string]chartRules{
		installation.WebhookName:    {byNamespace: map[string][]rbacv1.PolicyRule{}},
		installation.ControllerName: {byNamespace: map[string][]rbacv1.PolicyRule{}},
	}
	bound := 0
	for _, o := range objects {
		switch binding := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			for _, subject := range binding.Subjects {
				of := rules[subject.Name]
				of.clusterWide = append(of.clusterWide, roles["ClusterRole/"+binding.RoleRef.Name]...)
				rules[subject.Name] = of
			}
			bound++
		case *rbacv1.RoleBinding:
			of := rules[binding.Subjects[0].Name]
			of.byNamespace[binding.Namespace] = append(of.byNamespace[binding.Namespace],
				roles[binding.Namespace+"/"+binding.RoleRef.Kind+"/"+binding.RoleRef.Name]...)
			bound++
		}
	}
	if bound != len(roles) || len(rules) != 2 {
		t.Fatalf("%d bindings for %d roles and %d accounts", bound, len(roles), len(rules))
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
	all := renderRules(t, c)
	for account, rules := range all {
		t.Run(account, func(t *testing.T) { testMinimalRules(t, rules) })
	}
	testSeparateRules(t, all)
	testDroppedPermissions(t, c, all[installation.ControllerName])
}

// testMinimalRules checks that there are no rules for all objects of a kind if names are possible.
func testMinimalRules(t *testing.T, rules chartRules) {
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
}

// testSeparateRules checks that the webhook has no permissions on gangs, and that the controller has none
// on certificates.
func testSeparateRules(t *testing.T, all map[string]chartRules) {
	webhook, controller := all[installation.WebhookName], all[installation.ControllerName]
	for _, rule := range slices.Concat(webhook.clusterWide, webhook.byNamespace[installation.Namespace]) {
		for _, resource := range rule.Resources {
			if resource != "secrets" && !strings.HasSuffix(resource, "webhookconfigurations") {
				t.Errorf("the webhook may %v %s", rule.Verbs, resource)
			}
		}
	}
	if len(verbs(webhook.clusterWide, "secrets")) > 0 {
		t.Error("the webhook may access Secrets in the whole cluster")
	}
	for _, rule := range controller.clusterWide {
		if slices.Contains(rule.APIGroups, "admissionregistration.k8s.io") {
			t.Errorf("the controller may %v %v", rule.Verbs, rule.Resources)
		}
	}
	if v := verbs(controller.byNamespace[installation.Namespace], "secrets"); len(v) > 0 {
		t.Errorf("the controller may %v Secrets in the namespace of the release", v)
	}
}

// testDroppedPermissions checks that values drop permissions of the controller.
func testDroppedPermissions(t *testing.T, c *cluster.Cluster, rules chartRules) {
	t.Helper()
	for feature, dropped := range map[string]struct{ resource, verb string }{
		"createKeyPairs": {resource: "secrets", verb: "create"},
		"deletePods":     {resource: "pods", verb: "deletecollection"},
		"untrackPods":    {resource: "pods/status", verb: "patch"},
	} {
		if !slices.Contains(verbs(rules.clusterWide, dropped.resource), dropped.verb) {
			t.Errorf("the controller must not %s %s by default", dropped.verb, dropped.resource)
		}
		without := renderRules(t, c, "--set", "permissions."+feature+"=false")[installation.ControllerName]
		if slices.Contains(verbs(without.clusterWide, dropped.resource), dropped.verb) {
			t.Errorf("without %s, the controller may still %s %s", feature, dropped.verb, dropped.resource)
		}
	}
}

// testPermissionTable checks that the table of the security page contains each rule of the chart and
// nothing else.
func testPermissionTable(t *testing.T, c *cluster.Cluster) {
	const withReports = "policy.enabled=true,policy.reports=openreports,permissions.createPodGroups=true"
	all := renderRules(t, c, "--set", withReports+",permissions.createKueueWorkloads=true,permissions.orderRanks=true,"+
		"permissions.readLogs=true")
	webhook, controller := all[installation.WebhookName], all[installation.ControllerName]
	withNamespaces := renderRules(t, c, "--set", withReports+",namespaces={a,b}")[installation.ControllerName]
	secure := renderRules(t, c, "--set", "metrics.secure=true")
	reading := renderRules(t, c, "--set", "policy.enabled=true,policy.readNamespaces=true")
	want := slices.Concat(
		formatPermissions("webhook", "cluster", webhook.clusterWide),
		formatPermissions("webhook", "own namespace", webhook.byNamespace[installation.Namespace]),
		formatPermissions("controller", "gangs", controller.clusterWide),
		formatPermissions("controller", "own namespace", controller.byNamespace[installation.Namespace]),
		formatPermissions("controller", "own namespace",
			selectRules(withNamespaces.byNamespace[installation.Namespace], "events")),
	)
	for part, account := range map[string]string{
		"webhook": installation.WebhookName, "controller": installation.ControllerName,
	} {
		want = append(want, formatPermissions(part, "cluster", slices.Concat(
			selectRules(secure[account].clusterWide, "tokenreviews", "subjectaccessreviews"),
			selectRules(reading[account].clusterWide, "namespaces"),
		))...)
	}
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) > 5 && slices.Contains([]string{"webhook", "controller"}, strings.TrimSpace(cells[1])) {
			got = append(got, strings.Join(cells[:5], "|")+"|")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions in %s: -want, +got:\n%s", securityPage, diff)
	}
	withoutReports := renderRules(t, c, "--set", "policy.enabled=true")[installation.ControllerName]
	if v := verbs(withoutReports.clusterWide, "reports"); len(v) > 0 {
		t.Errorf("without policy.reports, the controller may %v reports", v)
	}
	if len(withNamespaces.clusterWide) > 0 {
		t.Errorf("with a list of namespaces, the controller has permissions in the whole cluster: %v",
			withNamespaces.clusterWide)
	}
	// The queues of gangs require permissions in the whole cluster, so the list of namespaces excludes them.
	inNamespaces := renderRules(t, c, "--set", withReports)[installation.ControllerName].clusterWide
	for _, namespace := range []string{"a", "b"} {
		if diff := cmp.Diff(inNamespaces, withNamespaces.byNamespace[namespace]); diff != "" {
			t.Errorf("permissions in the namespace %s: -want, +got:\n%s", namespace, diff)
		}
	}
	testNamespaceSelector(t, c, selectRules(reading[installation.ControllerName].clusterWide, "namespaces"))
}

// testNamespaceSelector checks that with a selector for namespaces, only the controller gets rules for
// namespaces: those that it also gets for a policy.
func testNamespaceSelector(t *testing.T, c *cluster.Cluster, want []rbacv1.PolicyRule) {
	t.Helper()
	const selector = "webhook.namespaceSelector.matchLabels.team=research"
	for _, values := range []string{selector, selector + ",namespaces={a,b}"} {
		rules := renderRules(t, c, "--set", values)
		if diff := cmp.Diff(want, selectRules(rules[installation.ControllerName].clusterWide, "namespaces")); diff != "" {
			t.Errorf("permissions of the controller with %s: -want, +got:\n%s", values, diff)
		}
		if v := verbs(rules[installation.WebhookName].clusterWide, "namespaces"); len(v) > 0 {
			t.Errorf("with %s, the webhook may %v namespaces", values, v)
		}
	}
}

// formatPermissions returns the first cells of the rows of the security page for rules.
func formatPermissions(part, scope string, rules []rbacv1.PolicyRule) []string {
	var rows []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			if group == "events.k8s.io" {
				continue // a second API of the same objects
			}
			for _, resource := range rule.Resources {
				row := fmt.Sprintf("| %s | %s | %s | %s |", part, scope, resource, strings.Join(rule.Verbs, ", "))
				if !slices.Contains(rows, row) { // the PodGroups of several API groups
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

// selectRules returns the rules whose first resource is one of the resources.
func selectRules(rules []rbacv1.PolicyRule, resources ...string) []rbacv1.PolicyRule {
	var selected []rbacv1.PolicyRule
	for _, rule := range rules {
		if slices.Contains(resources, rule.Resources[0]) {
			selected = append(selected, rule)
		}
	}
	return selected
}
