package plan

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// restarts lets training containers start anew within their pods when they fail
// (KEP-5307, on by default from Kubernetes 1.35), so that the pod does not fail: a
// Job counts failed pods, one by one, and makes a gang wait for up to 10 minutes.
// A container whose user chose a policy of its own keeps it.
func (a *applier) restarts(w gang.Workload) {
	if !a.inPlace {
		return
	}
	codes, _ := inPlace(w.Job)
	rule := corev1.ContainerRestartRule{
		Action:    corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: codes},
	}
	want := restart{ptr.To(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule}}
	for _, t := range a.gang.Containers {
		c := a.pod.byName[t.Name]
		s := slot{slotRestart, c.Name, ""}
		have := restart{c.RestartPolicy, c.RestartPolicyRules}
		if !a.mine[s] && (have.Policy != nil || len(have.Rules) > 0) {
			continue
		}
		if !equality.Semantic.DeepEqual(have, want) {
			c.RestartPolicy, c.RestartPolicyRules = want.Policy, want.Rules
		}
		a.ours = append(a.ours, s)
	}
}

// restart is the value of the place slotRestart.
type restart struct {
	Policy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Rules  []corev1.ContainerRestartRule  `json:"restartPolicyRules"`
}

// inPlace returns the exit codes that are left to the pod: 0, and those that mean
// something to the Job's own podFailurePolicy, which sees a container's end only when
// the pod ends. It is false for a policy that cannot be told from failures, and for
// pods that restart their containers anyway.
func inPlace(job *batchv1.Job) ([]int32, bool) {
	if job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return nil, false
	}
	codes := []int32{0}
	if p := job.Spec.PodFailurePolicy; p != nil {
		for _, r := range p.Rules {
			if r.OnExitCodes == nil {
				continue
			}
			if r.OnExitCodes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn {
				return nil, false
			}
			codes = append(codes, r.OnExitCodes.Values...)
		}
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	const most = 255 // of a restart rule
	return codes, len(codes) <= most
}

// lastWords has the kubelet keep the last lines of a container's log when it fails
// without a termination message: they are gone with the pod otherwise. "File" is the
// API server's default, and cannot be told from a wish.
func (a *applier) lastWords() {
	for _, t := range a.gang.Containers {
		c := a.pod.byName[t.Name]
		s := slot{slotLastWords, c.Name, ""}
		switch c.TerminationMessagePolicy {
		case "", corev1.TerminationMessageReadFile:
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		case corev1.TerminationMessageFallbackToLogsOnError:
			if !a.mine[s] {
				continue
			}
		}
		a.ours = append(a.ours, s)
	}
}
