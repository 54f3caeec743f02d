package vet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

func ofVolumes() []Check {
	return []Check{
		{
			Code: CodeNoCheckpointVolume, Severity: Advice, gang: noCheckpointVolume,
			Title: "The gang restarts, and nothing keeps its checkpoints",
			Why:   "When a rank falls, all ranks begin anew in new pods, and what is on an emptyDir or in the container is gone with the old ones. A volume that outlives the pods and can be written to, or an address such as s3:// in command or variables, is taken for a place of checkpoints.",
			Fix:   "Mount a PersistentVolumeClaim where the program saves, and load from it at the start; or set `" + gang.AnnotationRestartPolicy + ": never`.",
		},
		{
			Code: CodeClaimNotShareable, Severity: Warning, gang: claimNotShareable,
			Title: "Several pods mount a claim that one node alone can mount",
			Why:   "A volume with ReadWriteOnce is attached to one node, so the pods on all other nodes wait for ever; with ReadWriteOncePod all pods but one do (Kubernetes, persistent volumes, access modes).",
			Fix:   "Ask for ReadWriteMany, with a storage class that has it; for data that is only read, ReadOnlyMany.",
		},
	}
}

// remote are addresses of stores that programs save to without a volume.
var remote = regexp.MustCompile(`\b(s3a?|s3n|gs|gcs|abfss?|wasbs?|azure|az|hdfs|viewfs|oss|cos|cosn|tos|obs|hf|swift|alluxio|jfs|juicefs|dbfs|r2|b2|mlflow-artifacts|wandb-artifact)://`)

func noCheckpointVolume(in *input, m *member) []remark {
	if !restarts(m) || !in.first(m) {
		return nil
	}
	for _, o := range in.together(m) {
		if o.gang == nil || keeps(o) {
			return nil
		}
	}
	text := "pods that fail are replaced, and no volume outlives them: what they kept is lost"
	if l := m.gang.Lifecycle; l.Restart == gang.RestartGang {
		text = fmt.Sprintf("the gang begins anew up to %d times, and no volume outlives its pods: each attempt begins from nothing", l.MaxRestarts)
	}
	return say(templateSpec+".volumes", "%s", text).
		do("mount a PersistentVolumeClaim where the program saves its checkpoints, or set %s: never", gang.AnnotationRestartPolicy)
}

func restarts(m *member) bool {
	switch l := m.gang.Lifecycle; l.Restart {
	case gang.RestartNever:
		return false
	case gang.RestartGang:
		return l.MaxRestarts > 0
	default:
		return m.written.Job == nil || ptr.Deref(m.written.Job.Spec.BackoffLimit, 1) > 0
	}
}

// keeps reports whether a training container can save what outlives its pod.
func keeps(m *member) bool {
	for _, c := range m.trainers() {
		for _, text := range slices.Concat(c.Command, c.Args) {
			if remote.MatchString(text) {
				return true
			}
		}
		for _, e := range c.Env {
			if remote.MatchString(e.Value) {
				return true
			}
		}
		for _, mount := range c.VolumeMounts {
			if !mount.ReadOnly && m.outlives(mount.Name) {
				return true
			}
		}
	}
	return false
}

// outlives reports whether a volume is there when its pod is gone, and can be written to.
// What is not known to go with the pod is taken to stay.
func (m *member) outlives(name string) bool {
	for _, v := range m.admitted.Template().Spec.Volumes {
		if v.Name != name {
			continue
		}
		s := v.VolumeSource
		switch {
		case s.EmptyDir != nil, s.Ephemeral != nil, s.ConfigMap != nil, s.Secret != nil, s.DownwardAPI != nil, s.Projected != nil,
			s.Image != nil, s.GitRepo != nil:
			return false
		case s.PersistentVolumeClaim != nil:
			return !s.PersistentVolumeClaim.ReadOnly
		}
		return true
	}
	return true // of a volumeClaimTemplate
}

func claimNotShareable(in *input, m *member) []remark {
	var out []remark
	for _, v := range m.written.Template().Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		s := in.find("PersistentVolumeClaim", m.namespace, name)
		var claim corev1.PersistentVolumeClaim
		if s == nil || s.Decode(&claim) != nil || len(claim.Spec.AccessModes) == 0 {
			continue
		}
		one := slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany) {
			continue
		}
		pods := in.mounting(m, name)
		if pods < 2 {
			continue
		}
		bound := "one node"
		if one {
			bound = "one pod"
		}
		modes := make([]string, len(claim.Spec.AccessModes))
		for i, mode := range claim.Spec.AccessModes {
			modes[i] = string(mode)
		}
		out = append(out, say(fmt.Sprintf("%s.volumes[%s].persistentVolumeClaim", templateSpec, v.Name),
			"the claim %s has the access mode %s, so %s can mount it, and %d pods of the gang want to", name, strings.Join(modes, ", "), bound, pods).
			do("ask for ReadWriteMany in %s, line %d, with a storage class that has it", s.Document.Source, s.Line("spec.accessModes"))...)
	}
	return out
}

// mounting is the number of the gang's pods that mount a claim.
func (in *input) mounting(m *member, claim string) int32 {
	var pods int32
	for _, o := range in.together(m) {
		if o.gang != nil && slices.ContainsFunc(o.written.Template().Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		}) {
			own, _ := o.pods()
			pods += own
		}
	}
	return pods
}
