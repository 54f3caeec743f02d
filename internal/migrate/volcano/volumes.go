package volcano

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// convertVolumes mounts the volumes of the job in every container, as Volcano does
// (job_controller_util.go, createJobPod).
func (r *reader) convertVolumes() {
	var added []string
	for i, f := range r.spec.Get("volumes").Items() {
		path := f.Get("mountPath").String()
		if path == "" {
			f.Get("mountPath").MarkRequired("the volume is mounted at this path")
			continue
		}
		claim, ok := r.resolveClaim(i, f)
		if !ok {
			continue
		}
		volume := strings.ReplaceAll(claim, ".", "-") // Volcano too names the volume after the claim
		isNew := !slices.Contains(added, claim)
		added = append(added, claim)
		r.forEachTemplate(func(t *corev1.PodTemplateSpec) {
			if isNew {
				t.Spec.Volumes = append(t.Spec.Volumes, ir.NewClaimVolume(volume, claim))
			}
			for j := range t.Spec.Containers {
				c := &t.Spec.Containers[j]
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
			}
		})
		f.Get("mountPath").MarkPreserved("volumeMounts of every container")
	}
}

// resolveClaim returns the name of the PersistentVolumeClaim of a volume. It adds the claim to the
// output unless the claim must exist already. It returns false after it recorded a mistake.
func (r *reader) resolveClaim(index int, f source.Field) (string, bool) {
	name, template := f.Get("volumeClaimName"), f.Get("volumeClaim")
	if claim := name.String(); claim != "" {
		name.MarkPreserved("persistentVolumeClaim of every pod")
		template.MarkLeftOut("Volcano ignores it if volumeClaimName is set")
		return claim, true
	}
	if !template.Exists() {
		f.MarkInvalid("must have volumeClaimName or volumeClaim")
		return "", false
	}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.gang.Name, index), Namespace: r.gang.Namespace},
	}
	if len(r.spec.Get("volumes").Items()) == 1 {
		claim.Name = r.gang.Name
	}
	if !template.Decode(&claim.Spec) {
		return "", false
	}
	template.MarkChanged("persistentvolumeclaim/"+claim.Name,
		"Volcano deletes the claim with the job; this claim stays until you delete it", "")
	if r.podCount > 1 && !allowsSharedAccess(claim.Spec.AccessModes) {
		template.AddNote(fmt.Sprintf("all %d pods mount the claim, and its access modes allow only one node", r.podCount),
			"use ReadWriteMany if the pods run on several nodes")
	}
	r.gang.AdditionalObjects = append(r.gang.AdditionalObjects, claim)
	return claim.Name, true
}

// allowsSharedAccess reports whether pods on several nodes can mount the claim.
func allowsSharedAccess(modes []corev1.PersistentVolumeAccessMode) bool {
	return slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return strings.HasSuffix(string(m), "Many")
	})
}
