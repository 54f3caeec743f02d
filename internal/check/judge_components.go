package check

import (
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Labels of the objects of the chart.
const (
	labelChart      = "helm.sh/chart"
	labelInstance   = "app.kubernetes.io/instance"
	labelComponent  = "app.kubernetes.io/component"
	labelAppVersion = "app.kubernetes.io/version"
)

// judgeReadiness judges whether the pods of a component run.
func (c Component) judgeReadiness(r *reporter) {
	d := c.Value
	switch {
	case c.Err != nil:
		r.addUnread("the Deployment of the "+c.Name, c.Err)
		return
	case d == nil:
		r.fail("restore it: helm upgrade --reset-then-reuse-values", "the Deployment of the %s does not exist", c.Name)
		return
	}
	kubectl := "kubectl --namespace " + d.Namespace
	describe := "find the reason: " + kubectl + " describe pods --selector " +
		labels.FormatLabels(d.Spec.Selector.MatchLabels)
	ready, want := d.Status.ReadyReplicas, c.replicas()
	summary := fmt.Sprintf("%d of %d pods of the Deployment %s are ready", ready, want, d.Name)
	switch {
	case want == 0:
		r.fail(kubectl+" scale deployment "+d.Name+" --replicas=2", "the Deployment %s is scaled to 0", d.Name)
	case ready == 0:
		r.fail(describe, "%s", summary)
	case ready < want:
		r.warn(describe, "%s", summary)
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < want:
		r.warn("wait: "+kubectl+" rollout status deployment "+d.Name, "the rollout of the Deployment %s is not complete",
			d.Name)
	default:
		r.ok("%s", summary)
	}
}

// judgeVersions judges whether both components and the command have one version.
func judgeVersions(r *reporter, f Facts) {
	i := f.Installation
	if i.Webhook.Value == nil || i.Controller.Value == nil {
		r.unknown("", "the versions: a Deployment is not known")
		return
	}
	if a, b := i.Webhook.findContainer().Image, i.Controller.findContainer().Image; a != b {
		r.fail(i.upgradeCommand(), "the webhook runs the image %s, but the controller %s", a, b)
	}
	ofChart := i.Webhook.Value.Labels
	command, err := version.ParseSemantic(f.CommandVersion)
	installed, chartErr := version.ParseSemantic(ofChart[labelAppVersion])
	switch {
	case err != nil || command.PreRelease() != "":
		r.unknown("use the command of a release",
			"the command has the version %s of a development build, which cannot be compared with the chart %s",
			f.CommandVersion, ofChart[labelAppVersion])
	case chartErr != nil:
		r.unknown("", "the chart has no version: %v", chartErr)
	case command.Major() != installed.Major() || command.Minor() != installed.Minor():
		r.warn("use the command of the same minor release", "the command has the version %s, but the chart %s",
			f.CommandVersion, ofChart[labelAppVersion])
	}
	if len(r.results) == 0 {
		r.ok("the webhook, the controller and the command are of the chart %s", ofChart[labelChart])
	}
}

// judgeAvailability judges the number of pods of the webhook together with the failure policy. Another check
// reports a Deployment and a configuration that do not exist, and a Deployment without pods.
func judgeAvailability(r *reporter, i *Installation) {
	replicas := i.Webhook.replicas()
	if i.Webhook.Value == nil || i.Mutating.Value == nil || replicas == 0 {
		return
	}
	policy := i.findWebhook(injectWebhook).failurePolicy
	consequence := "API servers reject labeled workloads"
	if policy == admissionv1.Ignore {
		consequence = "API servers create labeled workloads without injection"
	}
	if replicas < 2 {
		r.warn("set the value webhook.replicas to 2 or more", "the webhook has %s, so %s while a node is drained or lost",
			gang.FormatCount(replicas, "pod"), consequence)
		return
	}
	r.ok("the webhook has %d pods; while none is ready, %s (failurePolicy %s)", replicas, consequence, policy)
}

// judgeLeader judges whether a controller reconciles gangs.
func judgeLeader(r *reporter, f Facts) {
	i, lease := f.Installation, f.Installation.Lease.Value
	elects, _ := i.Controller.Flag("leader-elect")
	switch {
	case i.Controller.Value == nil:
		r.unknown("", "the leader: the Deployment of the controller is not known")
		return
	case elects != "true" && i.Controller.replicas() > 1:
		r.fail(i.upgradeCommand(), "%d controllers reconcile the same gangs without leader election",
			i.Controller.replicas())
		return
	case elects != "true":
		r.ok("the controller reconciles without leader election")
		return
	}
	name, _ := i.Controller.Flag("lease-name")
	fix := fmt.Sprintf("nobody restarts gangs; find the reason: kubectl --namespace %s logs deployment/%s",
		i.Namespace, i.Controller.Value.Name)
	switch {
	case i.Lease.Err != nil:
		r.addUnread("the Lease "+name, i.Lease.Err)
	case lease == nil:
		r.fail(fix, "the Lease %s does not exist, so there was no leader", name)
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		r.fail(fix, "the Lease %s has no holder, so there is no leader", name)
	case !i.LeaseRenewed && i.isStale(f.Time):
		r.fail(fix, "the Lease %s was last renewed at %s, so there is no leader", name,
			ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).UTC().Format(time.RFC3339))
	default:
		r.ok("%s is the leader", *lease.Spec.HolderIdentity)
	}
}

// judgePermissions judges the permissions of the controller.
func judgePermissions(r *reporter, i *Installation) {
	p := i.Permissions.Value
	switch {
	case i.Permissions.Err != nil:
		r.addUnread("the permissions of the controller", i.Permissions.Err)
	case p == nil:
		r.unknown("", "the permissions of the controller: its Deployment is not known")
	case len(p.Missing) > 0:
		r.fail(i.upgradeCommand(), "the controller must not %s", joinNames(p.Missing))
	case len(p.Dropped) > 0:
		r.ok("the controller has its permissions; dropped by values: %s", joinNames(p.Dropped))
	default:
		r.ok("the controller has all permissions of the chart")
	}
}

// judgePolicy judges the policy for gangs.
func judgePolicy(r *reporter, i *Installation) {
	p := i.Policy.Value
	switch {
	case i.Controller.Value == nil:
		r.unknown("", "the policy: the Deployment of the controller is not known")
	case i.Policy.Err != nil:
		r.addUnread("the ConfigMap with the policy", i.Policy.Err)
	case p == nil:
		r.ok("the chart has no policy for gangs")
	case p.Mistake != "":
		r.fail("correct the ConfigMap "+p.ConfigMap+"; rollcall policy check shows all mistakes",
			"the policy is not valid, and the last valid policy is in force, if there is one: %s", p.Mistake)
	default:
		r.ok("the policy with %s is valid", gang.FormatCount(p.Rules, "rule"))
	}
}
