package gang

// CompatibilityKubeflow is the value of [AnnotationCompatibility] for the operators of Kubeflow:
// training-operator and mpi-operator.
const CompatibilityKubeflow = "kubeflow"

// parseCompatibility reports whether the pods also have the names of Kubeflow.
func (p *parser) parseCompatibility() bool {
	text, ok := p.meta.Annotations[AnnotationCompatibility]
	if ok && text != CompatibilityKubeflow {
		p.addUnsupported(annotationsPath.Key(AnnotationCompatibility), text, []string{CompatibilityKubeflow})
	}
	return ok
}
