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

func checkCheckpointVolume(r *reporter, w *labeledWorkload) {
	if !canRestart(w) || !w.isFirstMember() {
		return
	}
	members := w.group.members
	for _, m := range members {
		if m.gang == nil || policy.SavesCheckpoints(*m.gang, m.admitted.Template().Spec) {
			return
		}
	}
	if !slices.ContainsFunc(members, (*labeledWorkload).isExpensiveToRepeat) || runsOtherProgram(members) {
		return
	}
	message := "Kubernetes replaces failed pods, but no volume outlives the pods, so their data is lost"
	if w.gang.RestartRules.RestartPolicy == gang.RestartPolicyGang {
		message = "the gang restarts after failures and disruptions, but no volume outlives its pods, " +
			"so each attempt starts from scratch"
	}
	r.add(podSpecPath+".volumes",
		"mount a PersistentVolumeClaim where the program saves checkpoints, or set "+gang.AnnotationRestartPolicy+": never",
		"%s", message)
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

// runsOtherProgram reports whether the gang runs a program that does not look like
// training, such as a benchmark of the network or a simulation.
func runsOtherProgram(members []*labeledWorkload) bool {
	runsAny, mentionsPython := false, false
	for _, m := range members {
		runsAny = runsAny || m.gang.Framework.RunsAnyProgram
		for _, c := range m.trainingContainers() {
			mentionsPython = mentionsPython || strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), " "), "python")
		}
	}
	return runsAny && !mentionsPython
}

func checkVolumeNotReadWriteMany(r *reporter, w *labeledWorkload) {
	for _, v := range w.workload.Template().Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		o := r.findObject("PersistentVolumeClaim", w.namespace, name)
		var claim corev1.PersistentVolumeClaim
		if o == nil || o.Decode(&claim) != nil || len(claim.Spec.AccessModes) == 0 {
			continue
		}
		modes := claim.Spec.AccessModes
		if slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany) {
			continue
		}
		pods := w.countMountingPods(name)
		if pods < 2 {
			continue
		}
		limit := "one node"
		if slices.Contains(modes, corev1.ReadWriteOncePod) {
			limit = "one pod"
		}
		r.add(fmt.Sprintf("%s.volumes[%s].persistentVolumeClaim", podSpecPath, v.Name),
			fmt.Sprintf("request ReadWriteMany in %s, line %d, with a storage class that supports it",
				o.Document.Source, o.Line("spec.accessModes")),
			"the claim %s has the access mode %s, so only %s can mount it, but %d pods of the gang use it",
			name, joinAccessModes(modes), limit, pods)
	}
}

func joinAccessModes(modes []corev1.PersistentVolumeAccessMode) string {
	names := make([]string, len(modes))
	for i, mode := range modes {
		names[i] = string(mode)
	}
	return strings.Join(names, ", ")
}

// countMountingPods returns the number of pods of the gang that mount a claim.
func (w *labeledWorkload) countMountingPods(claim string) int32 {
	mountsClaim := func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	}
	var pods int32
	for _, m := range w.group.members {
		if m.gang != nil && slices.ContainsFunc(m.workload.Template().Spec.Volumes, mountsClaim) {
			pods += m.maxPods()
		}
	}
	return pods
}
