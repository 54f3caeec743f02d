package kubeflow

func paddleJob() job {
	return job{
		framework: "paddle", versions: []string{v1},
		replicas: "paddleReplicaSpecs", container: "paddle", portName: "master", defaultPort: 36543, byDefault: restartOnFailure,
		sets:       paddleVariables,
		everywhere: true,
		// POD_IP is what Paddle's launcher takes for its own address; by the pod's it would
		// not know itself in the names of a gang.
		meets: []string{"PADDLE_NNODES", "PADDLE_MASTER", "POD_IP", "PADDLE_POD_INDEX", "PADDLE_RANK", "PADDLE_SERVERS_ENDPOINTS", "PADDLE_TRAINERS_ENDPOINTS"},
		parts: []part{{name: "Master", role: "master", set: true}, {name: "Worker", role: "worker"}},
		read:  readPaddle,
	}
}

// paddleVariables are what PaddleJob sets (training-operator,
// pkg/controller.v1/paddlepaddle/envvar.go).
func paddleVariables(r *reader, role string) []string {
	names := []string{"PYTHONUNBUFFERED", "PADDLE_JOB_ID", "PADDLE_NNODES", "PADDLE_MASTER", "POD_IP_DUMMY"}
	switch {
	case r.find("master") == nil:
	case role == "master":
		names = append(names, "PADDLE_SERVER_NUM")
	default:
		names = append(names, "PADDLE_TRAINER_NUM")
	}
	return names
}

// readPaddle reads a job of workers, or one of parameter servers, which has a Master.
func readPaddle(r *reader) {
	master, worker := r.find("master"), r.find("worker")
	switch {
	case master != nil && worker != nil:
		master.Node.Note("it is the part of the parameter servers and runs them alone, and the end of the workers is the end of the job; "+
			"the operator's variables made each pod a server and a trainer, and the end of the master was that of the job", "")
	case master != nil:
		master.Name, master.Set = "worker", false
		for i := range r.restarts {
			r.restarts[i].role = master.Name
		}
		master.Node.Note("there are no workers beside it, so its pods are the workers", "")
	}
	policy := r.spec.Get("elasticPolicy")
	for _, key := range policy.Keys() {
		switch key {
		case "minReplicas", "maxReplicas", "maxRestarts", "metrics":
			policy.Get(key).Changed("", "left out: no release of the operator did anything with it for a PaddleJob", "")
		}
	}
}
