package kubeflow

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// pytorchOperatorVars returns the variables of a PyTorchJob (training-operator,
// pkg/controller.v1/pytorch/envvar.go). Without a master the operator sets no ranks.
func pytorchOperatorVars(r *reader, _ *ir.Role) []string {
	names := []string{"PYTHONUNBUFFERED", "PET_NNODES", "PET_NPROC_PER_NODE"}
	if r.findRole(roleMaster) != nil {
		names = append(names, "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
			"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK")
	}
	policy := r.spec.Get("elasticPolicy")
	if !policy.Exists() {
		return names
	}
	names = append(names, "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND")
	for field, name := range map[string]string{
		"maxRestarts": "PET_MAX_RESTARTS", "rdzvId": "PET_RDZV_ID",
		"rdzvConf": "PET_RDZV_CONF", "standalone": "PET_STANDALONE",
	} {
		if policy.Get(field).Exists() {
			names = append(names, name)
		}
	}
	return names
}

// tfOperatorVars returns the variables of a TFJob (training-operator,
// pkg/controller.v1/tensorflow/tensorflow.go). A job of one pod gets none.
func tfOperatorVars(r *reader, _ *ir.Role) []string {
	if r.gang.PodCount() == 1 {
		return nil
	}
	return []string{"TF_CONFIG"}
}

// mpiOperatorVars returns the variables of an MPIJob: mpi-operator since v2beta1
// (pkg/controller/mpi_job_controller.go, newLauncherJob), and for v1 also training-operator
// (pkg/controller.v1/mpi/mpijob_controller.go, newLauncher).
func mpiOperatorVars(r *reader, role *ir.Role) []string {
	isLauncher := role.Name == gang.RoleLauncher
	noDevices := []string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	switch {
	case r.Version == v1 && isLauncher:
		return slices.Concat(noDevices, []string{
			"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile",
			"I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC",
			"HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC",
		})
	case r.Version == v1:
		return nil
	case !isLauncher:
		return []string{"K_MPI_JOB_ROLE"}
	}
	names := []string{"K_MPI_JOB_ROLE"}
	switch r.spec.Get("mpiImplementation").String() {
	case "Intel":
		names = append(names, "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST")
	case "MPICH":
		names = append(names, "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS")
	default:
		names = append(names, "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile",
			"OMPI_MCA_plm_rsh_args", "OMPI_MCA_orte_set_default_slots")
	}
	if !ptr.Deref(r.spec.Get("runLauncherAsWorker").Bool(), false) {
		names = append(names, noDevices...)
	}
	return names
}

// xgboostOperatorVars returns the variables of an XGBoostJob (training-operator,
// pkg/controller.v1/xgboost/xgboost.go).
func xgboostOperatorVars(r *reader, _ *ir.Role) []string {
	names := []string{"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED"}
	if r.gang.PodCount() > 1 {
		names = append(names, "WORKER_PORT", "WORKER_ADDRS")
	}
	return names
}

// paddleOperatorVars returns the variables of a PaddleJob (training-operator,
// pkg/controller.v1/paddlepaddle/envvar.go).
func paddleOperatorVars(r *reader, role *ir.Role) []string {
	names := []string{"PYTHONUNBUFFERED", "PADDLE_JOB_ID", "PADDLE_NNODES", "PADDLE_MASTER", "POD_IP_DUMMY"}
	switch {
	case r.findReplicaType(roleMaster) == nil:
	case role.SourceNames.Role == roleMaster:
		names = append(names, "PADDLE_SERVER_NUM")
	default:
		names = append(names, "PADDLE_TRAINER_NUM")
	}
	return names
}

// jaxOperatorVars returns the variables of a JAXJob (training-operator,
// pkg/controller.v1/jax/envvar.go).
func jaxOperatorVars(*reader, *ir.Role) []string {
	return []string{"PYTHONUNBUFFERED", "COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID"}
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
