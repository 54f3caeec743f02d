package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/gang"
)

// Judge returns the report about facts. It depends only on its argument.
func Judge(f Facts) Report {
	var r Report
	i := f.Installation
	if i != nil {
		r.Installed, r.Release, r.Namespace = true, i.Name, i.Namespace
	}
	r.add(f.judgeInstallation())
	r.add(f.judgeKubernetesVersion())
	r.add(f.judgeAdmissionPolicies())
	r.add(f.judgeRankAssignment())
	r.add(f.judgeRestartRules())
	if i == nil {
		r.add(f.judgeInstallPermissions())
		r.add(f.judgeLeftovers()...)
		return r
	}
	r.add(i.Webhook.judgeReadiness(CodeWebhookReady))
	r.add(i.Controller.judgeReadiness(CodeControllerReady))
	r.add(f.judgeVersions()...)
	r.add(i.judgeAvailability()...)
	r.add(f.judgeConfigurations()...)
	r.add(i.judgeService())
	r.add(i.judgeBundles()...)
	r.add(f.judgeCertificates()...)
	r.add(f.judgeInjection())
	r.add(i.judgeDenial())
	r.add(f.judgeLeader())
	r.add(i.judgePermissions()...)
	r.add(i.judgePolicy())
	r.add(f.judgeOtherWebhooks()...)
	r.add(f.judgeWorkloads()...)
	r.add(f.judgeLeftovers()...)
	return r
}

// judgeInstallation judges whether there is exactly one installation to check.
func (f Facts) judgeInstallation() Result {
	releases := f.Releases.Value
	switch {
	case f.Installation != nil && f.Releases.Err == nil:
		return newOK(CodeInstallation, "the release %s is installed in the namespace %s",
			f.Installation.Name, f.Installation.Namespace)
	case f.Releases.Err != nil:
		return f.Releases.explainUnknown(CodeInstallation, "the installed releases")
	case f.OnlyPrerequisites && len(releases) > 0:
		return newOK(CodeInstallation, "Rollcall is installed as %s; only the prerequisites are checked", releases[0])
	case len(releases) > 1:
		var names []string
		for _, release := range releases {
			names = append(names, release.String())
		}
		return newProblem(CodeInstallation, Error, "several releases are installed: "+joinNames(names),
			"choose one with --release-namespace")
	case f.ReleaseNamespace != "" && !f.OnlyPrerequisites:
		return newProblem(CodeInstallation, Error, "no release is installed in the namespace "+f.ReleaseNamespace,
			"correct --release-namespace, or check only the prerequisites with --pre")
	}
	return newOK(CodeInstallation, "Rollcall is not installed; only the prerequisites are checked")
}

func (f Facts) judgeKubernetesVersion() Result {
	if f.ServerVersion.Err != nil {
		return f.ServerVersion.explainUnknown(CodeKubernetesVersion, "the version of the API server")
	}
	if err := gang.ValidateKubernetesVersion(f.ServerVersion.Value); err != nil {
		return newProblem(CodeKubernetesVersion, Error, "the API server: "+err.Error(),
			"upgrade the cluster to Kubernetes "+gang.MinKubernetesVersion+" or newer")
	}
	return newOK(CodeKubernetesVersion, "the API server has the version %s", f.ServerVersion.Value)
}

func (f Facts) judgeAdmissionPolicies() Result {
	switch {
	case f.AdmissionKinds.Err != nil:
		return f.AdmissionKinds.explainUnknown(CodeAdmissionPolicies, "the kinds of admissionregistration.k8s.io/v1")
	case !slices.Contains(f.AdmissionKinds.Value, "ValidatingAdmissionPolicy"):
		return newProblem(CodeAdmissionPolicies, Error, "the API server does not serve ValidatingAdmissionPolicy v1",
			"remove ValidatingAdmissionPolicy from --feature-gates and --runtime-config of the API server")
	}
	return newOK(CodeAdmissionPolicies, "the API server serves ValidatingAdmissionPolicy v1")
}

// servesMutatingPolicies reports whether the API server can set ranks.
func (f Facts) servesMutatingPolicies() bool {
	return slices.Contains(f.AdmissionKinds.Value, "MutatingAdmissionPolicy")
}

// judgeRankAssignment judges what sets the ranks of gangs of several workloads: a policy, or a webhook.
func (f Facts) judgeRankAssignment() Result {
	switch {
	case f.AdmissionKinds.Err != nil:
		return f.AdmissionKinds.explainUnknown(CodeRankAssignment, "the kinds of admissionregistration.k8s.io/v1")
	case f.Installation == nil && f.servesMutatingPolicies():
		return newOK(CodeRankAssignment, "a MutatingAdmissionPolicy can set the ranks of several workloads")
	case f.Installation == nil:
		return newOK(CodeRankAssignment,
			"the webhook will set the ranks of several workloads, because MutatingAdmissionPolicy v1 is not served")
	case f.Installation.Mutating.Err != nil:
		return f.Installation.Mutating.explainUnknown(CodeRankAssignment, "the MutatingWebhookConfiguration")
	case f.hasRankWebhook():
		return newOK(CodeRankAssignment, "the webhook sets the ranks of several workloads")
	case !f.servesMutatingPolicies():
		return newProblem(CodeRankAssignment, Error,
			"nothing sets the ranks of several workloads: the webhook has no rules, and the API server serves no policy",
			f.Installation.upgradeCommand())
	}
	for _, kind := range []string{kindMutatingPolicy, kindMutatingBinding} { // a policy without a binding has no effect
		if objects := f.ChartObjects[kind]; objects.Err != nil {
			return objects.explainUnknown(CodeRankAssignment, "the objects of the kind "+kind)
		}
		if !f.hasChartObject(kind) {
			return newProblem(CodeRankAssignment, Error,
				"nothing sets the ranks of several workloads: the webhook has no rules, and no "+kind+" exists",
				f.Installation.upgradeCommand())
		}
	}
	return newOK(CodeRankAssignment, "a MutatingAdmissionPolicy sets the ranks of several workloads")
}

// hasRankWebhook reports whether the webhook is called for pods.
func (f Facts) hasRankWebhook() bool {
	if f.Installation.Mutating.Value == nil {
		return false
	}
	for _, w := range f.Installation.Mutating.Value.Webhooks {
		if w.Name == rankWebhook {
			return len(w.Rules) > 0
		}
	}
	return false
}

// hasChartObject reports whether the release has an object of a kind. If the name of the release is not known,
// an object of any release counts.
func (f Facts) hasChartObject(kind string) bool {
	return slices.ContainsFunc(f.ChartObjects[kind].Value, func(o ChartObject) bool {
		return f.Installation.Name == "" || o.Release == f.Installation.Name
	})
}

func (f Facts) judgeRestartRules() Result {
	if f.ServerVersion.Err != nil {
		return f.ServerVersion.explainUnknown(CodeRestartRules, "the version of the API server")
	}
	supported, err := gang.SupportsContainerRestartRules(f.ServerVersion.Value)
	switch {
	case err != nil:
		return newProblem(CodeRestartRules, Unknown, "restart rules of containers: "+err.Error(), "")
	case supported:
		return newOK(CodeRestartRules, "failed containers restart in their pods")
	}
	return newOK(CodeRestartRules, "failed pods are replaced, because restart rules of containers need Kubernetes 1.35")
}

// upgradeCommand is the fix for objects of the chart that are missing or changed.
func (i *Installation) upgradeCommand() string {
	return fmt.Sprintf("restore the objects of the chart: helm upgrade %s CHART --namespace %s --reuse-values",
		cmp.Or(i.Name, "RELEASE"), cmp.Or(i.Namespace, "NAMESPACE"))
}

// judgeInstallPermissions judges the permissions of the user who installs the chart.
func (f Facts) judgeInstallPermissions() Result {
	if f.InstallPermissions.Err != nil {
		return f.InstallPermissions.explainUnknown(CodeInstallPermissions, "the permissions of the user")
	}
	missing := listMissing(f.InstallPermissions.Value, false)
	canEscalate := slices.ContainsFunc(f.InstallPermissions.Value, func(a Answer) bool {
		return a.Permission == escalate && a.Allowed
	})
	missing = slices.DeleteFunc(missing, func(text string) bool { return text == escalate.String() })
	// Without escalate, a user can only grant permissions that he has.
	gangMissing := listMissing(f.InstallPermissions.Value, true)
	if !canEscalate {
		missing = append(missing, gangMissing...)
	}
	if len(missing) > 0 {
		return newProblem(CodeInstallPermissions, Error, "the user must not "+joinNames(missing),
			"install with the ClusterRole cluster-admin, or grant these permissions")
	}
	return newOK(CodeInstallPermissions, "the user has the permissions to install the chart")
}

// gangPermission reports whether the controller needs a permission in the namespaces of gangs.
func gangPermission(p Permission) bool {
	return slices.ContainsFunc(GangPermissions(), func(g Permission) bool { return g == p })
}

// listMissing returns the permissions that are not granted, either those of gangs or all others.
func listMissing(answers []Answer, ofGangs bool) []string {
	var missing []string
	for _, a := range answers {
		isOfGang := a.Namespace == "" && gangPermission(a.Permission)
		if text := a.Permission.String(); !a.Allowed && isOfGang == ofGangs && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	return missing
}

// judgeLeftovers judges cluster-scoped objects whose release is not installed.
func (f Facts) judgeLeftovers() []Result {
	if f.Releases.Err != nil {
		return []Result{f.Releases.explainUnknown(CodeLeftovers, "the installed releases")}
	}
	installed := map[string]bool{}
	for _, release := range f.Releases.Value {
		installed[release.Name] = true
	}
	var results []Result
	var left []string
	for _, kind := range slices.Sorted(maps.Keys(f.ChartObjects)) {
		objects := f.ChartObjects[kind]
		if objects.Err != nil {
			results = append(results, objects.explainUnknown(CodeLeftovers, "leftover objects"))
			continue
		}
		for _, o := range objects.Value {
			if !installed[o.Release] {
				left = append(left, strings.ToLower(kind)+"/"+o.Name)
			}
		}
	}
	slices.Sort(left)
	switch {
	case len(left) > 0:
		return append(results, newProblem(CodeLeftovers, Warning,
			"objects of a release that is not installed exist, and can reject labeled workloads: "+joinNames(left),
			"delete them: kubectl delete "+strings.Join(left, " ")))
	case len(results) > 0:
		return results[:1]
	}
	return []Result{newOK(CodeLeftovers, "no objects of an uninstalled release exist")}
}
