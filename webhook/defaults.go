package webhook

import (
	"context"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

// applyDefaults sets the defaults of the policy in a new workload that Rollcall manages. A second call for the
// same workload changes nothing. The error is a denial: the workload selects a profile that does not exist,
// or the policy is not known yet.
func (j *Judge) applyDefaults(ctx context.Context, w gang.Workload) (gang.Warnings, error) {
	if !w.HasFrameworkLabel() || w.OptedOut() {
		return nil, nil
	}
	if j == nil {
		var none *policy.Policy
		return none.ApplyDefaults(w, policy.Namespace{Name: w.Meta().Namespace})
	}
	current, namespace, err := j.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	return current.ApplyDefaults(w, namespace)
}
