package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/gang"
)

// Code identifies a check. Codes are stable: they are never renamed and never reused.
type Code string

// checks are all checks in the order of a report. Only prerequisites need no installation.
var checks = []struct {
	code           Code
	isPrerequisite bool
	facts          func(*reporter, Facts)
	parts          func(*reporter, *Installation)
}{
	{code: "Installation", isPrerequisite: true, facts: judgeInstallation},
	{code: "KubernetesVersion", isPrerequisite: true, facts: judgeKubernetesVersion},
	{code: "RankAssignment", isPrerequisite: true, facts: judgeRankAssignment},
	{code: "InstallPermissions", isPrerequisite: true, facts: judgeInstallPermissions},
	{code: "WebhookReady", parts: func(r *reporter, i *Installation) { i.Webhook.judgeReadiness(r) }},
	{code: "ControllerReady", parts: func(r *reporter, i *Installation) { i.Controller.judgeReadiness(r) }},
	{code: "Versions", facts: judgeVersions},
	{code: "Availability", parts: judgeAvailability},
	{code: "WebhookConfigurations", parts: judgeConfigurations},
	{code: "WebhookService", parts: judgeService},
	{code: "CABundle", parts: judgeBundles},
	{code: "Certificate", facts: judgeCertificate},
	{code: "Injection", parts: judgeInjection},
	{code: "Denial", parts: judgeDenial},
	{code: "Leader", facts: judgeLeader},
	{code: "ControllerPermissions", parts: judgePermissions},
	{code: "Policy", parts: judgePolicy},
	{code: "NotInjected", facts: judgeWorkloads},
	{code: "Leftovers", isPrerequisite: true, facts: judgeLeftovers},
}

// Codes returns the codes of all checks in the order of a report.
func Codes() []Code {
	var codes []Code
	for _, c := range checks {
		codes = append(codes, c.code)
	}
	return codes
}

// Judge returns the report about facts. It depends only on its argument.
func Judge(f Facts) Report {
	var report Report
	if i := f.Installation; i != nil {
		report.Installed, report.Release, report.Namespace = true, i.Name, i.Namespace
	}
	for _, c := range checks {
		r := reporter{code: c.code}
		switch {
		case f.Installation == nil && !c.isPrerequisite:
		case c.parts != nil:
			c.parts(&r, f.Installation)
		default:
			c.facts(&r, f)
		}
		report.add(r.results)
	}
	return report
}

// judgeInstallation judges whether there is exactly one installation to check.
func judgeInstallation(r *reporter, f Facts) {
	releases := f.Releases.Value
	switch {
	case f.Releases.Err != nil:
		r.addUnread("the installed releases", f.Releases.Err)
	case f.Installation != nil:
		r.ok("the release %s is installed in the namespace %s", f.Installation.Name, f.Installation.Namespace)
	case f.OnlyPrerequisites && len(releases) > 0:
		r.ok("Rollcall is installed as %s; only the prerequisites are checked", releases[0])
	case len(releases) > 1:
		var names []string
		for _, release := range releases {
			names = append(names, release.String())
		}
		r.fail("choose one with --release-namespace", "several releases are installed: %s", joinNames(names))
	case f.ReleaseNamespace != "" && !f.OnlyPrerequisites:
		r.fail("correct --release-namespace, or check only the prerequisites with --pre",
			"no release is installed in the namespace %s", f.ReleaseNamespace)
	default:
		r.ok("Rollcall is not installed; only the prerequisites are checked")
	}
}

func judgeKubernetesVersion(r *reporter, f Facts) {
	if f.ServerVersion.Err != nil {
		r.addUnread("the version of the API server", f.ServerVersion.Err)
	} else if err := gang.ValidateKubernetesVersion(f.ServerVersion.Value); err != nil {
		r.fail("upgrade the cluster to Kubernetes "+gang.MinKubernetesVersion+" or newer", "the API server: %v", err)
	} else if supported, err := gang.SupportsContainerRestartRules(f.ServerVersion.Value); err == nil && supported {
		r.ok("the API server has the version %s", f.ServerVersion.Value)
	} else {
		r.ok("the API server has the version %s; failed ranks count toward a backoffLimit of the user, because restart "+
			"rules of containers need Kubernetes 1.35", f.ServerVersion.Value)
	}
}

// The kinds of the policy that sets ranks, and of its binding, without which it has no effect.
const (
	kindMutatingPolicy  = "MutatingAdmissionPolicy"
	kindMutatingBinding = "MutatingAdmissionPolicyBinding"
)

// judgeRankAssignment judges what sets the ranks of gangs of several workloads: a policy, or a webhook.
func judgeRankAssignment(r *reporter, f Facts) {
	i, policies, bindings := f.Installation, f.ChartObjects[kindMutatingPolicy], f.ChartObjects[kindMutatingBinding]
	// If the name of the release is not known, an object of any release counts.
	isOwn := func(o ChartObject) bool { return i.Name == "" || o.Release == i.Name }
	const nothing = "nothing sets the ranks of several workloads: the webhook has no rules, and "
	switch {
	case f.ServesPolicies.Err != nil:
		r.addUnread("the kinds of admissionregistration.k8s.io/v1", f.ServesPolicies.Err)
	case i == nil && f.ServesPolicies.Value:
		r.ok("a MutatingAdmissionPolicy can set the ranks of several workloads")
	case i == nil:
		r.ok("the webhook will set the ranks of several workloads, because MutatingAdmissionPolicy v1 is not served")
	case i.Mutating.Err != nil:
		r.addUnread("the MutatingWebhookConfiguration", i.Mutating.Err)
	case i.findWebhook(rankWebhook).rules > 0:
		r.ok("the webhook sets the ranks of several workloads")
	case !f.ServesPolicies.Value:
		r.fail(i.upgradeCommand(), nothing+"the API server serves no policy")
	case policies.Err != nil || bindings.Err != nil:
		r.addUnread("the policy that sets ranks", cmp.Or(policies.Err, bindings.Err))
	case !slices.ContainsFunc(policies.Value, isOwn):
		r.fail(i.upgradeCommand(), nothing+"no %s exists", kindMutatingPolicy)
	case !slices.ContainsFunc(bindings.Value, isOwn):
		r.fail(i.upgradeCommand(), nothing+"no %s exists", kindMutatingBinding)
	default:
		r.ok("a MutatingAdmissionPolicy sets the ranks of several workloads")
	}
}

// upgradeCommand is the fix for objects of the chart that are missing or changed.
func (i *Installation) upgradeCommand() string {
	return fmt.Sprintf("restore the objects of the chart: helm upgrade %s CHART --namespace %s --reset-then-reuse-values",
		cmp.Or(i.Name, "RELEASE"), cmp.Or(i.Namespace, "NAMESPACE"))
}

// judgeInstallPermissions judges the permissions of the user who installs the chart.
func judgeInstallPermissions(r *reporter, f Facts) {
	switch {
	case f.Installation != nil:
	case f.MissingPermissions.Err != nil:
		r.addUnread("the permissions of the user", f.MissingPermissions.Err)
	case len(f.MissingPermissions.Value) > 0:
		r.fail("install with the ClusterRole cluster-admin, or grant these permissions",
			"the user must not %s", joinNames(f.MissingPermissions.Value))
	default:
		r.ok("the user has the permissions to install the chart")
	}
}

// judgeLeftovers judges cluster-scoped objects whose release is not installed.
func judgeLeftovers(r *reporter, f Facts) {
	if f.Releases.Err != nil {
		r.addUnread("the installed releases", f.Releases.Err)
		return
	}
	var left []string
	for _, kind := range slices.Sorted(maps.Keys(f.ChartObjects)) {
		objects := f.ChartObjects[kind]
		if objects.Err != nil && len(r.results) == 0 {
			r.addUnread("leftover objects", objects.Err)
		}
		for _, o := range objects.Value {
			if !slices.ContainsFunc(f.Releases.Value, func(r Release) bool { return r.Name == o.Release }) {
				left = append(left, strings.ToLower(kind)+"/"+o.Name)
			}
		}
	}
	slices.Sort(left)
	if len(left) > 0 {
		r.warn("delete them: kubectl delete "+strings.Join(left, " "),
			"objects of a release that is not installed exist, and can reject labeled workloads: %s", joinNames(left))
	} else if len(r.results) == 0 {
		r.ok("no objects of an uninstalled release exist")
	}
}
