package kubeflow

import (
	"fmt"
	"strings"

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
			readKindFields: readPyTorch,
		},
		"TFJob": {
			frameworkName: "tensorflow", replicaSpecsKey: "tfReplicaSpecs",
			containerName: "tensorflow", portName: "tfjob-port", defaultRestartPolicy: restartNever,
			assignRoles: assignTFRoles, readKindFields: readTensorFlow,
		},
		"MPIJob": {
			frameworkName: "mpi", replicaSpecsKey: "mpiReplicaSpecs",
			defaultRestartPolicy: restartNever, readKindFields: readMPI,
		},
		"XGBoostJob": {
			frameworkName: "xgboost", replicaSpecsKey: "xgbReplicaSpecs",
			containerName: "xgboost", portName: "xgboostjob-port", defaultRestartPolicy: restartNever,
			readKindFields: func(r *reader) { r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster },
		},
		"PaddleJob": {
			frameworkName: "paddle", replicaSpecsKey: "paddleReplicaSpecs",
			containerName: "paddle", portName: "master", defaultRestartPolicy: restartOnFailure,
			assignRoles: assignPaddleRoles,
		},
		"JAXJob": {
			frameworkName: "jax", replicaSpecsKey: "jaxReplicaSpecs",
			containerName: "jax", portName: "jaxjob-port", defaultRestartPolicy: restartNever,
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

// mpiVars are the variables that mpi-operator overwrites in the launcher, by version
// (pkg/controller/mpi_job_controller.go).
var mpiVars = map[string][]string{
	v1: {
		"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP",
		"I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC",
	},
	v2beta1: {
		"K_MPI_JOB_ROLE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST",
		"HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile",
		"OMPI_MCA_plm_rsh_args", "OMPI_MCA_orte_set_default_slots",
	},
}

// listOverwrittenVars returns the variables that the operator overwrites in the training container of a role, except
// those that Rollcall overwrites too.
func (r *reader) listOverwrittenVars(role string) []string {
	switch {
	case role == gang.RoleLauncher:
		return mpiVars[r.Version]
	case r.Kind == "PyTorchJob" && r.spec.Get("elasticPolicy").Exists():
		return []string{"PYTHONUNBUFFERED", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"}
	case r.Kind == "PyTorchJob":
		return []string{"PYTHONUNBUFFERED", "PET_NPROC_PER_NODE"}
	}
	return nil
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
