package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

// TestDisruptionsLimit verifies the value that a new gang gets, and the findings for the gang with that value.
func TestDisruptionsLimit(t *testing.T) {
	const (
		cluster10 = "cluster: {limits: {disruptions: {max: 10}}}"
		research5 = "profiles: [{name: research, namespaces: {names: ['research-*']}, limits: {disruptions: {max: 5}}}]"
		exceeds10 = "enforce cluster/disruptions metadata.annotations[rollcall.training/max-disruptions]: allows "
		atMost10  = ` of the gang, at most 10 are allowed; set rollcall.training/max-disruptions: "10" ` +
			"(policy cluster/disruptions)"
	)
	for name, test := range map[string]struct {
		policy      string
		ceiling     policy.Mode // empty for none
		annotations map[string]string
		wantValue   string // of the annotation; empty if it is not set
		findings    []string
	}{
		"the limit is the default of a gang without an own value": {policy: cluster10, wantValue: "10"},
		"an own value within the limit is kept": {
			policy: cluster10, annotations: map[string]string{gang.AnnotationMaxDisruptions: "2"}, wantValue: "2",
		},
		"an own value above the limit is denied": {
			policy: cluster10, annotations: map[string]string{gang.AnnotationMaxDisruptions: "11"}, wantValue: "11",
			findings: []string{exceeds10 + "11 disruptions" + atMost10},
		},
		"unlimited disruptions exceed every limit": {
			policy: cluster10, annotations: map[string]string{gang.AnnotationMaxDisruptions: "unlimited"},
			wantValue: "unlimited", findings: []string{exceeds10 + "unlimited disruptions" + atMost10},
		},
		"a gang that never restarts has no disruptions": {
			policy: cluster10, wantValue: "unlimited",
			annotations: map[string]string{
				gang.AnnotationMaxDisruptions: "unlimited", gang.AnnotationRestartPolicy: string(gang.RestartPolicyNever),
			},
		},
		"an elastic gang gets no default, because its Job replaces the pods": {
			policy: cluster10, annotations: map[string]string{gang.AnnotationElastic: "1:96"},
		},
		"a gang whose Job restarts its pods gets no default": {
			policy:      cluster10,
			annotations: map[string]string{gang.AnnotationRestartPolicy: string(gang.RestartPolicyPod)},
		},
		"a default below the limit precedes it": {
			policy:    "cluster: {defaults: {disruptions: 3}, limits: {disruptions: {max: 10}}}",
			wantValue: "3",
		},
		"a default without a limit is set": {policy: "cluster: {defaults: {disruptions: 3}}", wantValue: "3"},
		"the lowest limit of all scopes is the default": {
			policy: "cluster: {limits: {disruptions: {max: 2}}}\n" + research5, wantValue: "2",
		},
		"the limit of the profile precedes the default of the cluster": {
			policy: "cluster: {defaults: {disruptions: 8}}\n" + research5, wantValue: "5",
		},
		"the default is at most the maximum of the annotation": {
			policy: "cluster: {limits: {disruptions: {max: 5000}}}", wantValue: "1000",
		},
		"a limit that warns sets no default": {
			policy: strings.Replace(cluster10, "max: 10", "max: 10, mode: warn", 1),
			findings: []string{strings.Replace(exceeds10, "enforce", "warn", 1) +
				"unlimited disruptions" + atMost10},
		},
		"a manager whose ceiling is warn sets no default": {
			policy: cluster10, ceiling: policy.ModeWarn,
			findings: []string{strings.Replace(exceeds10, "enforce", "warn", 1) + "unlimited disruptions" + atMost10},
		},
		"a rule compares unlimited disruptions as a large number": {
			policy:   "cluster: {rules: [{name: few, expression: gang.disruptions <= 1000}]}",
			findings: []string{"enforce cluster/few metadata: does not satisfy gang.disruptions <= 1000 (policy cluster/few)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := readPolicy(t, test.policy)
			if test.ceiling != "" {
				p = p.WithCeiling(test.ceiling)
			}
			w := readJob(t, bigJob)
			for key, value := range test.annotations {
				metav1.SetMetaDataAnnotation(w.Meta(), key, value)
			}
			w = applyDefaults(t, p, w)
			if value := w.Meta().Annotations[gang.AnnotationMaxDisruptions]; value != test.wantValue {
				t.Errorf("max-disruptions = %q, want %q", value, test.wantValue)
			}
			var findings []string
			for _, f := range p.Judge(newInput(t, w))[0].Findings {
				findings = append(findings, string(f.Mode)+" "+f.Rule+" "+f.String())
			}
			if diff := cmp.Diff(test.findings, findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
