package policy

import (
	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// gitOpsLabels and gitOpsAnnotations are the keys by which Argo CD (resource tracking) and Flux (Kustomization,
// HelmRelease) find the objects that they applied. Argo CD can also use app.kubernetes.io/instance, which Helm
// sets, too.
var (
	gitOpsLabels = []string{
		"argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name",
	}
	gitOpsAnnotations = []string{"argocd.argoproj.io/tracking-id"}
)

// repeatsTraining reports whether a default would let a GitOps tool repeat the training: Kubernetes deletes the
// finished Job, and the tool creates it again.
func (d defaultField) repeatsTraining(w gang.Workload) bool {
	if d.Kind != injection.DefaultTTL {
		return false
	}
	for _, key := range gitOpsLabels {
		if _, ok := w.Meta().Labels[key]; ok {
			return true
		}
	}
	for _, key := range gitOpsAnnotations {
		if _, ok := w.Meta().Annotations[key]; ok {
			return true
		}
	}
	return false
}
