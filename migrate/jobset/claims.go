package jobset

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/migrate/blueprint"

	"rollcall.training/migrate/ledger"
)

// claims makes the volume claims that the controller made for the set, under their
// former names, and adds the volumes where a container mounts them
// (pkg/controllers/volume_claim_policy.go).
func (s *Set) claims() {
	for _, policy := range s.Spec.Get("volumeClaimPolicies").Items() {
		templates := policy.Get("templates")
		for _, n := range templates.Items() {
			var claim corev1.PersistentVolumeClaim
			if !n.Into(&claim) {
				n.Required("the claim is made from it")
				continue
			}
			if claim.Name == "" {
				n.At("metadata", "name").Required("volumes are mounted by it")
				continue
			}
			volume := claim.Name
			made := &corev1.PersistentVolumeClaim{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				ObjectMeta: metav1.ObjectMeta{Name: volume + "-" + s.Blueprint.Name, Namespace: s.Blueprint.Namespace,
					Labels: claim.Labels, Annotations: claim.Annotations},
				Spec: claim.Spec,
			}
			s.Blueprint.Extras = append(s.Blueprint.Extras, func(func(string) blueprint.Place) runtime.Object { return made })
			n.Carried("persistentvolumeclaim/" + made.Name)
			s.mount(volume, made.Name)
		}
		keep := policy.At("retentionPolicy", "whenDeleted")
		switch v := keep.String(); v {
		case "Retain":
			keep.Carried("nothing deletes the claims")
		case "", "Delete":
			const reason, do = "left out: the claims went with the JobSet; now nothing deletes them", "delete them when their content is no longer needed"
			if keep.Exists() {
				keep.Changed("", reason, do)
			} else {
				policy.Remark(ledger.Changed, "", reason, do)
			}
		default:
			keep.Invalid("must be Delete or Retain")
		}
	}
}

// mount adds the volume of a claim to the jobs that mount it.
func (s *Set) mount(volume, claim string) {
	for _, j := range s.Jobs {
		mounts := slices.ContainsFunc(j.containers(), func(c *corev1.Container) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
		})
		has := slices.ContainsFunc(j.spec().Volumes, func(v corev1.Volume) bool { return v.Name == volume })
		if mounts && !has {
			j.spec().Volumes = append(j.spec().Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
	}
}

// labels of the user's, for an object beside the gang.
func (s *Set) userLabels(own map[string]string) map[string]string {
	out := maps.Clone(s.Blueprint.Labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, own)
	return out
}
