package check

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// judgeLeader judges whether a controller reconciles gangs.
func (f Facts) judgeLeader() Result {
	i := f.Installation
	c := i.Controller
	elects, _ := c.Flag("leader-elect")
	switch {
	case c.Deployment.Value == nil:
		return newProblem(CodeLeader, Unknown, "the leader: the Deployment of the controller is not known", "")
	case elects != "true" && c.replicas() > 1:
		return newProblem(CodeLeader, Error,
			fmt.Sprintf("%d controllers reconcile the same gangs without leader election", c.replicas()), i.upgradeCommand())
	case elects != "true":
		return newOK(CodeLeader, "the controller reconciles without leader election")
	}
	name, _ := c.Flag("lease-name")
	fix := fmt.Sprintf("nobody restarts gangs; find the reason: kubectl --namespace %s logs deployment/%s",
		i.Namespace, c.Deployment.Value.Name)
	lease := i.Lease.Value
	switch {
	case i.Lease.Err != nil:
		return i.Lease.explainUnknown(CodeLeader, "the Lease "+name)
	case lease == nil:
		return newProblem(CodeLeader, Error, "the Lease "+name+" does not exist, so there was no leader", fix)
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		return newProblem(CodeLeader, Error, "the Lease "+name+" has no holder, so there is no leader", fix)
	case !i.LeaseRenewed && f.isStale(i):
		return newProblem(CodeLeader, Error, fmt.Sprintf("the Lease %s was last renewed at %s, so there is no leader",
			name, lease.Spec.RenewTime.UTC().Format(time.RFC3339)), fix)
	}
	return newOK(CodeLeader, "%s is the leader", *lease.Spec.HolderIdentity)
}

// isStale reports whether the Lease has expired by the clock of this machine.
func (f Facts) isStale(i *Installation) bool {
	spec := i.Lease.Value.Spec
	if spec.RenewTime == nil {
		return true
	}
	duration := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 15)) * time.Second
	return f.Time.Sub(spec.RenewTime.Time) > duration
}

// judgePermissions judges the permissions of the controller.
func (i *Installation) judgePermissions() []Result {
	if i.Permissions.Err != nil {
		return []Result{i.Permissions.explainUnknown(CodeControllerPermissions, "the permissions of the controller")}
	}
	if len(i.Permissions.Value) == 0 {
		return []Result{newProblem(CodeControllerPermissions, Unknown,
			"the permissions of the controller: its Deployment is not known", "")}
	}
	var missing, dropped []string
	for _, a := range i.Permissions.Value {
		if a.Allowed {
			continue
		}
		if feature := a.Permission.Dropped; feature != "" {
			if !slices.Contains(dropped, feature) {
				dropped = append(dropped, feature)
			}
			continue
		}
		text := a.Permission.String()
		if a.Namespace != "" {
			text += " in " + a.Namespace
		}
		missing = append(missing, text)
	}
	switch {
	case len(missing) > 0:
		return []Result{newProblem(CodeControllerPermissions, Error, "the controller must not "+joinNames(missing),
			i.upgradeCommand())}
	case len(dropped) > 0:
		return []Result{newOK(CodeControllerPermissions, "the controller has its permissions; dropped by values: %s",
			joinNames(dropped))}
	}
	return []Result{newOK(CodeControllerPermissions, "the controller has all permissions of the chart")}
}

// judgePolicy judges the policy for gangs, and which policy is in force.
func (i *Installation) judgePolicy() Result {
	p := i.Policy
	switch {
	case i.Controller.Deployment.Value == nil:
		return newProblem(CodePolicy, Unknown, "the policy: the Deployment of the controller is not known", "")
	case p == nil:
		return newOK(CodePolicy, "the chart has no policy for gangs")
	case p.Current.Err != nil:
		return p.Current.explainUnknown(CodePolicy, "the ConfigMap "+p.ConfigMap)
	case p.Accepted.Err != nil:
		return p.Accepted.explainUnknown(CodePolicy, "the ConfigMap with the last valid policy")
	}
	current, accepted := p.Current.Value, p.Accepted.Value
	switch {
	case current.Digest == "" && accepted.Digest != "":
		return newProblem(CodePolicy, Error, fmt.Sprintf(
			"the policy is not valid, and the last valid policy %s is in force: %s", accepted.Digest, current.Mistake),
			"correct the ConfigMap "+p.ConfigMap+"; rollcall policy check shows all mistakes")
	case current.Digest == "":
		return newProblem(CodePolicy, Error, "the policy is not valid, and there is no last valid policy, so labeled "+
			"workloads are rejected: "+current.Mistake,
			"correct the ConfigMap "+p.ConfigMap+"; rollcall policy check shows all mistakes")
	case current.Digest != accepted.Digest:
		return newProblem(CodePolicy, Warning,
			fmt.Sprintf("the policy %s is valid, but the leader of the controller has not recorded it", current.Digest),
			"see the result of Leader; the leader records a policy within seconds")
	}
	return newOK(CodePolicy, "the policy %s with %s is in force, at most in the mode %s", current.Digest,
		gang.FormatCount(current.Rules, "rule"), p.Ceiling)
}
