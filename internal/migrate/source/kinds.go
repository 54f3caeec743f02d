package source

import "slices"

// jobKinds are the API groups of other systems, and the kinds of their training jobs that migrate converts.
var jobKinds = map[string][]string{
	"kubeflow.org":         {"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"},
	"trainer.kubeflow.org": {"TrainJob"},
	"jobset.x-k8s.io":      {"JobSet"},
	"batch.volcano.sh":     {"Job"},
}

// JobKinds returns the kinds of an API group that migrate converts; nil for other groups.
func JobKinds(group string) []string { return jobKinds[group] }

// IsJobKind reports whether migrate converts a kind.
func IsJobKind(group, kind string) bool { return slices.Contains(jobKinds[group], kind) }
