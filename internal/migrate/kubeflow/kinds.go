package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// Group is the API group of all job kinds of Kubeflow except TrainJob.
const Group = "kubeflow.org"

// The supported versions of the group. All kinds have v1. Only MPIJob has v2beta1.
const (
	v1      = "v1"
	v2beta1 = "v2beta1"
)

// Roles that the readers of several kinds need.
const (
	roleMaster = "master"
	roleWorker = "worker"
)

// kindSpec describes a job kind.
type kindSpec struct {
	// frameworkName is the value of the label rollcall.training/framework.
	frameworkName string
	// replicaSpecsKey is the field of the spec that maps replica types to replica specs.
	replicaSpecsKey string
	// containerName is the name of the training container. If it is empty, or if the template
	// has no container of that name, the first container is the training container.
	containerName string
	// portName is the name of the container port of the rendezvous. It is empty if the
	// operator does not use a port of the container.
	portName string
	// defaultRestartPolicy is the restart policy of a replica spec without one.
	defaultRestartPolicy string
	// operatorVars are variables that the operator sets in the training container; see listOperatorVars.
	operatorVars []string
	// operatorVarsInAllContainers is true if the operator sets them in the sidecars too.
	operatorVarsInAllContainers bool
	// assignRoles renames roles whose name in a gang differs from their replica type. Nil means
	// none.
	assignRoles func(r *reader)
	// readKindFields reads the fields that only this kind has. Nil means none.
	readKindFields func(r *reader)
}

// kindSpecs returns the supported kinds.
func kindSpecs() map[string]kindSpec {
	return map[string]kindSpec{
		"PyTorchJob": {
			frameworkName: "pytorch", replicaSpecsKey: "pytorchReplicaSpecs",
			containerName: "pytorch", portName: "pytorchjob-port", defaultRestartPolicy: restartOnFailure,
			operatorVars: pytorchVars, operatorVarsInAllContainers: true,
			readKindFields: readPyTorch,
		},
		"TFJob": {
			frameworkName: "tensorflow", replicaSpecsKey: "tfReplicaSpecs",
			containerName: "tensorflow", portName: "tfjob-port", defaultRestartPolicy: restartNever,
			operatorVars: []string{"TF_CONFIG"},
			assignRoles:  assignTFRoles, readKindFields: readTensorFlow,
		},
		"MPIJob": {
			frameworkName: "mpi", replicaSpecsKey: "mpiReplicaSpecs",
			defaultRestartPolicy: restartNever,
			operatorVars:         mpiVars,
			readKindFields:       readMPI,
		},
		"XGBoostJob": {
			frameworkName: "xgboost", replicaSpecsKey: "xgbReplicaSpecs",
			containerName: "xgboost", portName: "xgboostjob-port", defaultRestartPolicy: restartNever,
			operatorVars: xgboostVars, operatorVarsInAllContainers: true,
			readKindFields: func(r *reader) { r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster },
		},
		"PaddleJob": {
			frameworkName: "paddle", replicaSpecsKey: "paddleReplicaSpecs",
			containerName: "paddle", portName: "master", defaultRestartPolicy: restartOnFailure,
			operatorVars: paddleVars, operatorVarsInAllContainers: true,
			assignRoles: assignPaddleRoles,
		},
		"JAXJob": {
			frameworkName: "jax", replicaSpecsKey: "jaxReplicaSpecs",
			containerName: "jax", portName: "jaxjob-port", defaultRestartPolicy: restartNever,
			operatorVars: jaxVars, operatorVarsInAllContainers: true,
		},
	}
}

// Read returns the description of a job. Mistakes in the manifest are in the Recorder of the object.
// The error is for a kind or a version that cannot be migrated.
func Read(o source.Object) (*ir.Gang, error) {
	if err := o.CheckVersion(); err != nil {
		return nil, err
	}
	r := &reader{kindSpec: kindSpecs()[o.Kind], Object: o, spec: o.Root.Get("spec"), gang: ir.NewGang(o)}
	framework, ok := o.Context.Frameworks.Find(r.frameworkName)
	if !ok {
		return nil, fmt.Errorf("framework %s: %w", r.frameworkName, source.ErrUnsupported)
	}
	r.framework, r.gang.Framework, r.gang.SourceLabels = framework, framework.Name, r.listSourceLabels()
	// Programs and selectors of the user may depend on the names of the operators.
	r.gang.SetAnnotation(gang.AnnotationCompatibility, gang.CompatibilityKubeflow)
	r.readReplicas()
	if len(r.gang.Roles) == 0 {
		return r.gang, nil
	}
	if r.assignRoles != nil {
		r.assignRoles(r)
	}
	r.configureContainers()
	// The fields that only Jobs have decide which roles can be StatefulSets, so they are converted first.
	r.convertRunPolicyField("suspend", r.gang.ConvertSuspend)
	r.convertRunPolicyField("ttlSecondsAfterFinished", r.gang.ConvertTTL)
	r.convertRunPolicyField("managedBy", func(f source.Field) { r.gang.ConvertManagedBy(f, Group) })
	if r.readKindFields != nil {
		r.readKindFields(r)
	}
	r.convertRestartPolicies()
	r.convertRunPolicyField("cleanPodPolicy", r.convertCleanPodPolicy)
	r.convertRunPolicyField("backoffLimit", r.convertBackoffLimit)
	r.convertRunPolicyField("activeDeadlineSeconds", r.convertDeadline)
	r.convertRunPolicyField("schedulingPolicy", r.convertSchedulingPolicy)
	return r.gang, nil
}

// reader reads one object.
type reader struct {
	kindSpec
	source.Object
	spec source.Field
	gang *ir.Gang
	// framework has the roles in the order of their ranks, and the default port.
	framework gang.Framework
	// replicaSpecs is the map of replica specs.
	replicaSpecs source.Field
	// restartPolicies are the restart policies in the order of the roles of the gang.
	restartPolicies []source.Field
	// rendezvousPort is the first port of the rendezvous in the manifest; 0 means none.
	rendezvousPort int32
	// elastic is true for a gang whose number of pods can change at run time.
	elastic bool
	// launcherIsJob is true if the operator created a Job for the launcher. A Job restarts its
	// pod whatever the restart policy of the replica spec is.
	launcherIsJob bool
}

// The variables that the operators set in training containers, by their sources in training-operator
// (pkg/controller.v1) and in mpi-operator (pkg/controller/mpi_job_controller.go).
var (
	pytorchVars       = []string{"PYTHONUNBUFFERED", "PET_NNODES", "PET_NPROC_PER_NODE"}
	pytorchMasterVars = []string{
		"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK",
	}
	pytorchElasticVars = []string{"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"}
	mpiV1Vars          = []string{
		"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP",
		"I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC",
	}
	mpiVars = []string{
		"K_MPI_JOB_ROLE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST",
		"HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile",
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
	switch isLaunched := r.framework.HasLauncher && role.Name != gang.RoleLauncher; {
	case isLaunched && r.Version != v1:
		return mpiVars[:1] // the role of the pod
	case isLaunched, r.Kind == "TFJob" && r.gang.PodCount() == 1:
		return nil
	case r.framework.HasLauncher && r.Version == v1:
		return slices.Concat(mpiV1Vars, deviceVars)
	case r.framework.HasLauncher && !ptr.Deref(r.spec.Get("runLauncherAsWorker").Bool(), false):
		return slices.Concat(mpiVars, deviceVars)
	case r.Kind != "PyTorchJob":
		return r.operatorVars
	}
	names := slices.Clone(pytorchVars)
	if r.gang.FindRole(roleMaster) != nil {
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
