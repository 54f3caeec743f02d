package policy

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// remoteStoragePattern matches URLs of storage that programs write to without a volume.
var remoteStoragePattern = regexp.MustCompile(`\b(s3a?|s3n|gs|gcs|abfss?|wasbs?|azure|az|hdfs|viewfs|oss|cos|` +
	`cosn|tos|obs|hf|swift|alluxio|jfs|juicefs|dbfs|r2|b2|mlflow-artifacts|wandb-artifact)://`)

// SavesCheckpoints reports whether a training container of a gang can write data that outlives its pod:
// to a volume, or to a storage URL in its command or in a variable.
func SavesCheckpoints(g gang.Gang, spec corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		isTraining := func(t gang.Container) bool { return t.Name == c.Name }
		return slices.ContainsFunc(g.Containers, isTraining) &&
			(namesRemoteStorage(c) || mountsLastingVolume(c, spec.Volumes))
	})
}

func namesRemoteStorage(c corev1.Container) bool {
	return slices.ContainsFunc(slices.Concat(c.Command, c.Args), isRemoteStorage) ||
		slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return isRemoteStorage(e.Value) })
}

// isRemoteStorage reports whether a text contains a URL of a storage. Few texts contain a URL, and the pattern takes
// longer for 50 variables than the injection.
func isRemoteStorage(text string) bool {
	return strings.Contains(text, "://") && remoteStoragePattern.MatchString(text)
}

func mountsLastingVolume(c corev1.Container, volumes []corev1.Volume) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(mount corev1.VolumeMount) bool {
		return !mount.ReadOnly && volumeOutlivesPod(mount.Name, volumes)
	})
}

// volumeOutlivesPod reports whether a volume is writable and keeps its data when the pod is deleted. It
// returns true for unknown types of volumes, and for the volumes of volumeClaimTemplates.
func volumeOutlivesPod(name string, volumes []corev1.Volume) bool {
	for _, v := range volumes {
		if v.Name != name {
			continue
		}
		s := v.VolumeSource
		switch {
		case s.EmptyDir != nil, s.Ephemeral != nil, s.ConfigMap != nil, s.Secret != nil, s.DownwardAPI != nil,
			s.Projected != nil, s.Image != nil, s.GitRepo != nil:
			return false
		case s.PersistentVolumeClaim != nil:
			return !s.PersistentVolumeClaim.ReadOnly
		}
		return true
	}
	return true
}

func (l *CheckpointLimit) check(_ string, f facts, v *violations) {
	whenRestarts, path := ptr.Deref(l.WhenRestarts, 1), podSpecPath.Child("volumes").String()
	switch {
	case f.checkpoints, f.restarts < whenRestarts, f.size < ptr.Deref(l.MinSize, 1):
	case f.checkpointsUnknown:
		v.add(path, "", "it is not known yet whether another member saves checkpoints").Unknown = true
	default:
		v.add(path, "", "the gang can restart %s, but nothing outlives its pods, so each attempt starts from scratch; "+
			"mount a PersistentVolumeClaim in the training container, or set %s: \"%d\"",
			gang.FormatCount(f.restarts, "time"), gang.AnnotationMaxRestarts, max(whenRestarts-1, 0))
	}
}
