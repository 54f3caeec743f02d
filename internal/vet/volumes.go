package vet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

func volumeChecks() []Check {
	return []Check{
		{
			Code: CodeNoCheckpointVolume, Severity: Info, checkGang: checkCheckpointVolume,
			Title: "The gang restarts, but no volume keeps its checkpoints",
			Why: "When a rank fails or loses its node, Rollcall restarts all ranks in new pods. " +
				"Files in an emptyDir or in the container are deleted with the old pods. " +
				"vet accepts a writable volume that outlives the pods. " +
				"It also accepts a storage URL such as s3:// in the command or in a variable. " +
				"It reports gangs with accelerators, and gangs whose restart policy is set explicitly. " +
				"It does not report programs for MPI other than Python, because most of them save no checkpoints.",
			Fix: "Mount a PersistentVolumeClaim where the program saves checkpoints, and load the latest one at startup. " +
				"Or set `" + gang.AnnotationRestartPolicy + ": never`.",
		},
		{
			Code: CodeVolumeNotReadWriteMany, Severity: Warning, checkGang: checkVolumeNotReadWriteMany,
			Title: "Several pods mount a claim that only one node or pod can mount",
			Why: "A ReadWriteOnce volume is attached to one node, so pods on other nodes wait indefinitely. " +
				"Only one pod can mount a ReadWriteOncePod volume " +
				"(Kubernetes documentation, persistent volumes, access modes).",
			Fix: "Request ReadWriteMany with a storage class that supports it. " +
				"For data that is only read, request ReadOnlyMany.",
		},
	}
}

func checkCheckpointVolume(in *input, w *labeledWorkload) []issue {
	if !canRestart(w) || !in.isFirstMember(w) {
		return nil
	}
	members := in.gangMembers(w)
	for _, m := range members {
		if m.gang == nil || policy.SavesCheckpoints(*m.gang, m.admitted.Template().Spec) {
			return nil
		}
	}
	if !slices.ContainsFunc(members, (*labeledWorkload).isExpensiveToRepeat) || runsOtherMPIProgram(members) {
		return nil
	}
	message := "Kubernetes replaces failed pods, but no volume outlives the pods, so their data is lost"
	if w.gang.RestartRules.RestartPolicy == gang.RestartPolicyGang {
		message = "the gang restarts after failures and disruptions, but no volume outlives its pods, " +
			"so each attempt starts from scratch"
	}
	return []issue{{
		field:   podSpecPath + ".volumes",
		message: message,
		fix: fmt.Sprintf("mount a PersistentVolumeClaim where the program saves checkpoints, or set %s: never",
			gang.AnnotationRestartPolicy),
	}}
}

// canRestart reports whether pods of the workload can run again after a failure or a disruption.
func canRestart(w *labeledWorkload) bool {
	switch policies := w.gang.RestartRules; policies.RestartPolicy {
	case gang.RestartPolicyNever:
		return false
	case gang.RestartPolicyGang:
		return policies.MaxRestarts > 0 || policies.MaxDisruptions != 0
	default:
		return w.workload.Job == nil || ptr.Deref(w.workload.Job.Spec.BackoffLimit, 1) > 0
	}
}

// isExpensiveToRepeat reports whether the workload uses accelerators, or asks for restarts
// explicitly.
func (w *labeledWorkload) isExpensiveToRepeat() bool {
	for _, c := range w.trainingContainers() {
		if c.parsed.Accelerators > 0 || c.parsed.HasResourceClaims {
			return true
		}
	}
	_, isExplicit := w.target.Annotations[gang.AnnotationRestartPolicy]
	return isExplicit
}

// runsOtherMPIProgram reports whether the gang runs a program over MPI that does not look like
// training, such as a benchmark of the network or a simulation.
func runsOtherMPIProgram(members []*labeledWorkload) bool {
	isMPI, mentionsPython := false, false
	for _, m := range members {
		isMPI = isMPI || m.gang.Framework.Name == "mpi"
		for _, c := range m.trainingContainers() {
			mentionsPython = mentionsPython || strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), " "), "python")
		}
	}
	return isMPI && !mentionsPython
}

func checkVolumeNotReadWriteMany(in *input, w *labeledWorkload) []issue {
	var issues []issue
	for _, v := range w.workload.Template().Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		o := in.findObject("PersistentVolumeClaim", w.namespace, name)
		var claim corev1.PersistentVolumeClaim
		if o == nil || o.Decode(&claim) != nil || len(claim.Spec.AccessModes) == 0 {
			continue
		}
		modes := claim.Spec.AccessModes
		if slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany) {
			continue
		}
		pods := in.countMountingPods(w, name)
		if pods < 2 {
			continue
		}
		limit := "one node"
		if slices.Contains(modes, corev1.ReadWriteOncePod) {
			limit = "one pod"
		}
		issues = append(issues, issue{
			field: fmt.Sprintf("%s.volumes[%s].persistentVolumeClaim", podSpecPath, v.Name),
			message: fmt.Sprintf("the claim %s has the access mode %s, so only %s can mount it, but %d pods of the gang use it",
				name, joinAccessModes(modes), limit, pods),
			fix: fmt.Sprintf("request ReadWriteMany in %s, line %d, with a storage class that supports it",
				o.Document.Source, o.Line("spec.accessModes")),
		})
	}
	return issues
}

func joinAccessModes(modes []corev1.PersistentVolumeAccessMode) string {
	names := make([]string, len(modes))
	for i, mode := range modes {
		names[i] = string(mode)
	}
	return strings.Join(names, ", ")
}

// countMountingPods returns the number of pods of the gang that mount a claim.
func (in *input) countMountingPods(w *labeledWorkload, claim string) int32 {
	mountsClaim := func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	}
	var pods int32
	for _, m := range in.gangMembers(w) {
		if m.gang != nil && slices.ContainsFunc(m.workload.Template().Spec.Volumes, mountsClaim) {
			own, _ := m.maxPods()
			pods += own
		}
	}
	return pods
}
