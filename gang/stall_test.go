package gang_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// TestProbeCommand checks the period and the command of the probe.
func TestProbeCommand(t *testing.T) {
	for name, c := range map[string]struct {
		rules gang.StallRules
		want  []string
	}{
		"the shortest timeout": {
			rules: gang.StallRules{File: "/f", Timeout: 10 * time.Second, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "10s", "1s"},
		},
		"a period in whole seconds": {
			rules: gang.StallRules{File: "/f", Timeout: 19 * time.Second, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "19s", "1s"},
		},
		"the longest period": {
			rules: gang.StallRules{File: "/f", Timeout: time.Hour, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "1h0m0s", "30s"},
		},
		"a report does not wait": {
			rules: gang.StallRules{File: "/f", Timeout: time.Minute, Action: gang.StallReport},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "1m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.rules.ProbeCommand(); !slices.Equal(got, c.want) {
				t.Errorf("the command is %q, want %q", got, c.want)
			}
		})
	}
}

// TestDescribeStall checks that only the readiness probe of Rollcall describes a stall.
func TestDescribeStall(t *testing.T) {
	newProbe := func(command ...string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}}
	}
	rules := gang.StallRules{File: "/f", Timeout: time.Minute, Action: gang.StallReport}
	want := "Stalled: did not write /f for 1m0s"
	if got := gang.DescribeStall(newProbe(rules.ProbeCommand()...)); got != want {
		t.Errorf("the description is %q, want %q", got, want)
	}
	for name, probe := range map[string]*corev1.Probe{
		"no probe": nil, "no command": {}, "another program": newProbe("cat", "progress", "/f", "1m0s"),
	} {
		if got := gang.DescribeStall(probe); got != "" {
			t.Errorf("%s: the description is %q", name, got)
		}
	}
}

// TestProgressPattern checks the denials and the warnings for patterns.
func TestProgressPattern(t *testing.T) {
	frameworks := gang.Frameworks{{Name: "test", Roles: []gang.Role{{Name: "worker"}}, DefaultRole: "worker", Port: 29500}}
	for name, c := range map[string]struct {
		annotations map[string]string
		omitLogs    bool
		isDenied    bool
		want        []string // the keys with warnings
	}{
		"a pattern in a cluster in which Rollcall reads logs": {
			annotations: map[string]string{gang.AnnotationProgressPattern: "step", gang.AnnotationStallTimeout: "1m"},
		},
		"a pattern in a cluster in which Rollcall reads no logs": {
			annotations: map[string]string{gang.AnnotationProgressPattern: "step"}, omitLogs: true,
			want: []string{gang.AnnotationProgressPattern},
		},
		"a pattern and a file in a cluster in which Rollcall reads no logs": {
			annotations: map[string]string{gang.AnnotationProgressPattern: "step", gang.AnnotationProgressFile: "/f"},
			omitLogs:    true,
		},
		"a pattern that does not compile": {
			annotations: map[string]string{gang.AnnotationProgressPattern: "step ("}, isDenied: true,
		},
		"an action without a pattern": {
			annotations: map[string]string{gang.AnnotationStallAction: "restart"}, want: []string{gang.AnnotationStallAction},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Name: "train", Labels: map[string]string{gang.LabelFramework: "test"}, Annotations: c.annotations,
			}}
			job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
			g, warnings, denials := gang.Parse(gang.Workload{Job: job}, frameworks, gang.Config{OmitLogs: c.omitLogs})
			var got []string
			for _, w := range warnings {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(w.Path, "metadata.annotations["), "]"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("keys with warnings (-want +got):\n%s", diff)
			}
			hasPattern := c.annotations[gang.AnnotationProgressPattern] != "" && !c.isDenied
			if (len(denials) > 0) != c.isDenied || (g.StallRules.Pattern != nil) != hasPattern {
				t.Errorf("denials %v, pattern %v", denials, g.StallRules.Pattern)
			}
		})
	}
}
