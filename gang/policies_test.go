package gang_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

func TestParseMaxDisruptions(t *testing.T) {
	const path = "metadata.annotations[rollcall.training/max-disruptions]: "
	for name, c := range map[string]struct {
		annotations map[string]string
		want        int32
		wantError   string // empty for a valid value
		wantWarning string // empty for none
	}{
		"disruptions are unlimited by default": {want: gang.UnlimitedDisruptions},
		"unlimited is a value of a user": {
			annotations: map[string]string{gang.AnnotationMaxDisruptions: "unlimited"}, want: gang.UnlimitedDisruptions,
		},
		"a number is the limit": {
			annotations: map[string]string{gang.AnnotationMaxDisruptions: "10"}, want: 10,
		},
		"0 fails the gang after the first disruption": {
			annotations: map[string]string{gang.AnnotationMaxDisruptions: "0"}, want: 0,
		},
		"the number of the API for no limit is not a value of a user": {
			annotations: map[string]string{gang.AnnotationMaxDisruptions: "-1"}, want: gang.UnlimitedDisruptions,
			wantError: path + `Invalid value: "-1": must be a whole number from 0 to 1000, or unlimited; ` +
				"0 means that the first disruption fails the gang",
		},
		"a number above the maximum is invalid": {
			annotations: map[string]string{gang.AnnotationMaxDisruptions: "1001"}, want: gang.UnlimitedDisruptions,
			wantError: path + `Invalid value: "1001": must be a whole number from 0 to 1000, or unlimited; ` +
				"0 means that the first disruption fails the gang",
		},
		"the limit has no effect if the workload restarts its pods": {
			annotations: map[string]string{
				gang.AnnotationMaxDisruptions: "10", gang.AnnotationRestartPolicy: string(gang.RestartPolicyPod),
			},
			want: 10,
			wantWarning: path + "has no effect: the workload controller restarts pods individually; " +
				"set rollcall.training/restart-policy to gang or never",
		},
		"a key without its dash has a suggestion": {
			annotations: map[string]string{gang.Prefix + "maxdisruptions": "10"}, want: gang.UnlimitedDisruptions,
			wantWarning: "metadata.annotations[rollcall.training/maxdisruptions]: unknown key, has no effect; " +
				`did you mean "rollcall.training/max-disruptions"?`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Name: "train", Labels: map[string]string{gang.LabelFramework: "flow"}, Annotations: c.annotations,
			}}
			job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
			w := gang.Workload{Job: job}
			frameworks := gang.Frameworks{{Name: "flow", DefaultRole: "worker", Roles: []gang.Role{{Name: "worker"}}}}
			g, warnings, denials := gang.Parse(w, frameworks, gang.Config{})
			gotError := ""
			if len(denials) > 0 {
				gotError = denials[0].Error.Error()
			}
			if g.RestartRules.MaxDisruptions != c.want {
				t.Errorf("MaxDisruptions = %d, want %d", g.RestartRules.MaxDisruptions, c.want)
			}
			if diff := cmp.Diff(c.wantError, gotError); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantWarning, strings.Join(warnings.Strings(), "\n")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompletesWithFirstPod(t *testing.T) {
	withChief := gang.Framework{
		Name: "flow", DefaultRole: "worker", FirstPodCompletionRole: "worker",
		Roles: []gang.Role{
			{Name: "chief", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
			{Name: "ps", LongRunning: true},
		},
	}
	workersOnly := gang.Framework{Name: "peers", DefaultRole: "worker", Roles: []gang.Role{{Name: "worker"}}}
	for name, c := range map[string]struct {
		framework     gang.Framework
		successPolicy string
		roles         []string
		wantRole      string // the role that completes with its first pod; empty for none
	}{
		"all ranks must succeed by default": {
			framework: workersOnly, roles: []string{"worker"},
		},
		"rank0 is the first worker": {
			framework: workersOnly, successPolicy: gang.SuccessPolicyRank0, roles: []string{"worker"}, wantRole: "worker",
		},
		"worker 0 replaces an absent chief": {
			framework: withChief, roles: []string{"worker"}, wantRole: "worker",
		},
		"parameter servers do not determine completion": {
			framework: withChief, roles: []string{"worker", "ps"}, wantRole: "worker",
		},
		"chief determines completion": {
			framework: withChief, roles: []string{"chief", "worker"},
		},
		"success policy all": {
			framework: withChief, successPolicy: gang.SuccessPolicyAll, roles: []string{"worker"},
		},
		"success policy with a role requires all of its pods": {
			framework: withChief, successPolicy: "worker", roles: []string{"worker", "ps"},
		},
		"rank0 of several roles is in the first role": {
			framework:     withChief,
			successPolicy: gang.SuccessPolicyRank0,
			roles:         []string{"chief", "worker"},
			wantRole:      "chief",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang.Gang{Framework: c.framework, RestartRules: gang.RestartRules{SuccessPolicy: c.successPolicy}}
			for _, role := range c.roles {
				g.Members = append(g.Members, gang.Member{Role: role, WorkloadName: "train-" + role, Size: 2})
			}
			for _, m := range g.Members {
				if got, want := g.CompletesWithFirstPod(m), m.Role == c.wantRole; got != want {
					t.Errorf("CompletesWithFirstPod(%s) = %v, want %v", m.Role, got, want)
				}
			}
		})
	}
}
