package kubeflow

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// The variables that the operators set in training containers, by their sources in training-operator
// (pkg/controller.v1) and in mpi-operator (pkg/controller/mpi_job_controller.go).
var (
	pytorchVars        = []string{"PYTHONUNBUFFERED", "PET_NNODES", "PET_NPROC_PER_NODE"}
	pytorchMasterVars  = []string{"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK"}
	pytorchElasticVars = []string{"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"}
	mpiV1Vars          = []string{
		"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP",
		"I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC",
	}
	mpiVars = []string{
		"K_MPI_JOB_ROLE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST", "HYDRA_HOST_FILE",
		"HYDRA_LAUNCH_EXTRA_ARGS", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile",
		"OMPI_MCA_plm_rsh_args", "OMPI_MCA_orte_set_default_slots",
	}
	deviceVars  = []string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	xgboostVars = []string{
		"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED", "WORKER_PORT", "WORKER_ADDRS",
	}
	paddleVars = []string{
		"PYTHONUNBUFFERED", "PADDLE_JOB_ID", "PADDLE_NNODES", "PADDLE_MASTER", "POD_IP_DUMMY", "PADDLE_SERVER_NUM",
		"PADDLE_TRAINER_NUM",
	}
	jaxVars = []string{"PYTHONUNBUFFERED", "COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID"}
)

// listOperatorVars returns the variables that the operator sets in the training container of a role, whatever the
// user wrote. Without a master, the operator of a PyTorchJob sets no ranks.
func (r *reader) listOperatorVars(role *ir.Role) []string {
	switch {
	case r.framework.HasLauncher && role.Name != gang.RoleLauncher, r.Kind == "TFJob" && r.gang.PodCount() == 1:
		return nil
	case r.framework.HasLauncher && r.Version == v1:
		return slices.Concat(mpiV1Vars, deviceVars)
	case r.framework.HasLauncher && !ptr.Deref(r.spec.Get("runLauncherAsWorker").Bool(), false):
		return slices.Concat(mpiVars, deviceVars)
	case r.Kind != "PyTorchJob":
		return r.operatorVars
	}
	names := slices.Clone(pytorchVars)
	if r.findRole(roleMaster) != nil {
		names = append(names, pytorchMasterVars...)
	}
	policy := r.spec.Get("elasticPolicy")
	if policy.Exists() {
		names = append(names, pytorchElasticVars...)
	}
	for field, name := range map[string]string{"maxRestarts": "PET_MAX_RESTARTS", "rdzvId": "PET_RDZV_ID"} {
		if policy.Get(field).Exists() {
			names = append(names, name)
		}
	}
	return names
}

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
