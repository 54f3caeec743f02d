package kubeflow

import (
	"strings"

	"rollcall.training/internal/migrate/ir"
)

// listSourceLabels returns the labels that the operators gave to pods. Labels with a prefix are in
// training-operator (pkg/apis/kubeflow.org/v1/common_types.go) and mpi-operator v2beta1. Labels
// without a prefix are those of earlier operators with the same API version.
func (r *reader) listSourceLabels() map[string]ir.SourceLabel {
	const prefix = "training.kubeflow.org/"
	word := strings.ToLower(strings.TrimSuffix(r.Kind, "Job"))
	labels := map[string]ir.SourceLabel{
		"group-name":             {ValuePrefix: Group},
		"group_name":             {ValuePrefix: Group},
		word + "-job-name":       {Meaning: ir.MeaningGang},
		word + "_job_name":       {Meaning: ir.MeaningGang},
		word + "-job-role":       {Meaning: ir.MeaningRole},
		word + "-replica-type":   {Meaning: ir.MeaningRole},
		word + "-replica-index":  {},
		word + "_role_type":      {Meaning: ir.MeaningRole},
		prefix + "job-name":      {Meaning: ir.MeaningGang, Preserved: true},
		prefix + "replica-type":  {Meaning: ir.MeaningRole, Preserved: true},
		prefix + "replica-index": {},
		prefix + "job-role":      {}, // training-operator gave it to masters only
		prefix + "operator-name": {},
	}
	if r.Kind == "MPIJob" {
		labels[prefix+"job-role"] = ir.SourceLabel{Meaning: ir.MeaningRole}
	}
	return labels
}
