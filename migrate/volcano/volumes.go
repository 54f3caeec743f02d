package volcano

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// volumes mounts the job's volumes in each container of each task, as Volcano does
// (job_controller_util.go, createJobPod).
func (r *reader) volumes() {
	mounted := map[string]bool{}
	for i, n := range r.spec.Get("volumes").Items() {
		path := n.Get("mountPath").String()
		if path == "" {
			n.Get("mountPath").Required("containers see the volume there")
			continue
		}
		claim, ok := r.claim(i, n)
		if !ok {
			continue
		}
		volume := strings.ReplaceAll(claim, ".", "-") // Volcano calls it after its claim, too
		if !mounted[claim] {
			mounted[claim] = true
			r.each(func(t *corev1.PodTemplateSpec) {
				t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
			})
		}
		r.each(func(t *corev1.PodTemplateSpec) {
			for j := range t.Spec.Containers {
				c := &t.Spec.Containers[j]
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
			}
		})
		n.Get("mountPath").Carried("volumeMounts of every container")
	}
}

// each visits the templates of all roles.
func (r *reader) each(visit func(t *corev1.PodTemplateSpec)) {
	for i := range r.blueprint.Roles {
		visit(&r.blueprint.Roles[i].Template)
	}
}

// claim is the name of the volume's PersistentVolumeClaim, which is made unless it has
// to be there. It is false for a mistake.
func (r *reader) claim(i int, n ledger.Node) (string, bool) {
	name, wish := n.Get("volumeClaimName"), n.Get("volumeClaim")
	if v := name.String(); v != "" {
		name.Carried("persistentVolumeClaim of every pod")
		wish.Changed("", "left out: Volcano does not look at it where volumeClaimName is given", "")
		return v, true
	}
	if !wish.Exists() {
		n.Invalid("must have volumeClaimName or volumeClaim")
		return "", false
	}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.blueprint.Name, i), Namespace: r.blueprint.Namespace},
	}
	if len(r.spec.Get("volumes").Items()) == 1 {
		claim.Name = r.blueprint.Name
	}
	if !wish.Into(&claim.Spec) {
		return "", false
	}
	to := "persistentvolumeclaim/" + claim.Name
	wish.Changed(to, "Volcano deletes the claim with the job; this one stays until you delete it", "")
	if r.total > 1 && !shared(claim.Spec.AccessModes) {
		wish.Note(fmt.Sprintf("all %d pods mount it, and its access modes allow one node", r.total), "use ReadWriteMany where the pods are on several nodes")
	}
	r.blueprint.Extras = append(r.blueprint.Extras, func(func(string) blueprint.Place) runtime.Object { return claim })
	return claim.Name, true
}

// shared reports whether pods on several nodes can mount the claim.
func shared(modes []corev1.PersistentVolumeAccessMode) bool {
	for _, m := range modes {
		if strings.HasSuffix(string(m), "Many") {
			return true
		}
	}
	return false
}
