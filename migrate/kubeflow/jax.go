package kubeflow

func jaxJob() job {
	return job{
		framework: "jax", versions: []string{v1},
		replicas: "jaxReplicaSpecs", container: "jax", portName: "jaxjob-port", defaultPort: 6666, byDefault: restartNever,
		sets: func(*reader, string) []string {
			return []string{"PYTHONUNBUFFERED", "COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID"}
		},
		everywhere: true,
		owns: []string{"COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID", "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID",
			"SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"},
		parts: []part{{name: "Worker", role: "worker"}},
		read:  func(*reader) {},
	}
}
