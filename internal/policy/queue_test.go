package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// TestAttackQueueOfGang checks that limits, rules and locked defaults see the queue of a gang of several workloads,
// which admission moves from the label to the annotation.
func TestAttackQueueOfGang(t *testing.T) {
	const (
		annotation = "metadata.annotations[rollcall.training/queue]"
		label      = "metadata.labels[kueue.x-k8s.io/queue-name]"
		required   = "cluster: {limits: {queue: {required: true, allow: [team]}}, rules: [{name: q, expression: " +
			"\"gang.queue == 'team'\"}]}"
		locked = "cluster: {defaults: {queue: {value: team, locked: true}}}"
	)
	for name, test := range map[string]struct {
		policy, annotation, label string
		addedLabel                string // by an update
		findings                  []string
	}{
		"an allowed label satisfies the limit":      {policy: required, label: "team"},
		"an allowed annotation satisfies the limit": {policy: required, annotation: "team"},
		"another label violates the limit": {
			policy: required, label: "other", findings: []string{"cluster/q metadata", "cluster/queue " + annotation},
		},
		"another annotation violates the limit": {
			policy: required, annotation: "other", findings: []string{"cluster/q metadata", "cluster/queue " + annotation},
		},
		"another label than the allowed annotation, after the admission": {
			policy: required, annotation: "team", addedLabel: "other", findings: []string{"cluster/queue " + label},
		},
		"a locked default is set":             {policy: locked},
		"an annotation with the locked value": {policy: locked, annotation: "team"},
		"an annotation without the locked value": {policy: locked, annotation: "other", findings: []string{
			"cluster/defaults.queue " + annotation,
		}},
		"another label than the locked annotation, after the admission": {
			policy: locked, annotation: "team", addedLabel: "other", findings: []string{
				"cluster/defaults.queue " + label,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := readPolicy(t, test.policy), readJob(t, memberJob)
			if test.annotation != "" {
				w.Job.Annotations[gang.AnnotationQueue] = test.annotation
			}
			if test.label != "" {
				w.Job.Labels[gang.LabelQueueName] = test.label
			}
			w = applyDefaults(t, p, w)
			result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{QueueGangs: true}).Admit(w)
			if err != nil {
				t.Fatal(err)
			}
			if test.addedLabel != "" {
				w.Job.Labels[gang.LabelQueueName] = test.addedLabel
			}
			var got []string
			in := policy.Input{Members: []policy.Member{{Gang: result.Gang, Workload: w}}, Now: today}
			for _, f := range p.Judge(in)[0].Findings {
				got = append(got, f.Rule+" "+f.Field)
			}
			if diff := cmp.Diff(test.findings, got); diff != "" {
				t.Error("findings (-want +got):\n" + diff)
			}
		})
	}
}
