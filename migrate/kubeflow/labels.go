package kubeflow

import (
	"strings"

	"rollcall.training/migrate/blueprint"
)

// marks are the labels that the operators gave to pods. Those of training-operator are in
// pkg/apis/kubeflow.org/v1/common_types.go, and mpi-operator has the same since v2beta1; the
// operators for one framework had names of their own.
func (r *reader) marks() map[string]blueprint.Mark {
	const prefix = "training.kubeflow.org/"
	word := strings.ToLower(strings.TrimSuffix(r.Kind, "Job"))
	out := map[string]blueprint.Mark{
		"group-name": {Common: true, Value: Group}, "group_name": {Common: true, Value: Group},
		word + "-job-name": {Says: blueprint.SaysGang}, word + "-job-role": {Says: blueprint.SaysRole},
		word + "-replica-type": {Says: blueprint.SaysRole}, word + "-replica-index": {Says: blueprint.SaysIndex},
		word + "_job_name": {Says: blueprint.SaysGang},
	}
	switch {
	case r.Version == v1 || r.Version == v2beta1:
		out[prefix+"job-name"] = blueprint.Mark{Says: blueprint.SaysGang, Kept: true}
		out[prefix+"replica-type"] = blueprint.Mark{Says: blueprint.SaysRole, Kept: true}
		out[prefix+"replica-index"] = blueprint.Mark{Says: blueprint.SaysIndex}
		out[prefix+"job-role"] = blueprint.Mark{Says: blueprint.SaysRole, Some: r.Kind != "MPIJob"}
		out[prefix+"operator-name"] = blueprint.Mark{Common: true}
	case r.Kind == "MPIJob":
		out["mpi_role_type"] = blueprint.Mark{Says: blueprint.SaysRole}
	case r.Version == v1alpha1:
		out["job_type"], out["task_index"], out["runtime_id"] = blueprint.Mark{Says: blueprint.SaysRole}, blueprint.Mark{Says: blueprint.SaysIndex}, blueprint.Mark{}
	}
	return out
}
