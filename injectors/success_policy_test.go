package injectors_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestEditedSuccessPolicy checks that a saved manifest with another success policy loses the successPolicy
// of its earlier injection, but not that of its user.
func TestEditedSuccessPolicy(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		annotation string
		index      string // of the edited successPolicy, empty if it is not edited
		wantIndex  string
	}{
		"rank 0 still decides":          {annotation: gang.SuccessPolicyRank0, wantIndex: "0"},
		"all ranks decide":              {annotation: gang.SuccessPolicyAll},
		"the user has edited the index": {annotation: gang.SuccessPolicyAll, index: "1", wantIndex: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(map[string]string{gang.AnnotationSuccessPolicy: gang.SuccessPolicyRank0}, 2)
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			job.Annotations[gang.AnnotationSuccessPolicy] = c.annotation
			if c.index != "" {
				job.Spec.SuccessPolicy.Rules[0].SucceededIndexes = ptr.To(c.index)
			}
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			if got := readSucceededIndexes(job); got != c.wantIndex {
				t.Errorf("successPolicy has the indexes %q, want %q", got, c.wantIndex)
			}
		})
	}
}

// readSucceededIndexes returns the indexes of the successPolicy; empty without one.
func readSucceededIndexes(job *batchv1.Job) string {
	if job.Spec.SuccessPolicy == nil {
		return ""
	}
	return ptr.Deref(job.Spec.SuccessPolicy.Rules[0].SucceededIndexes, "")
}
