package kubeflow

func xgboostJob() job {
	return job{
		framework: "xgboost", versions: []string{v1},
		replicas: "xgbReplicaSpecs", container: "xgboost", portName: "xgboostjob-port", defaultPort: 9999, byDefault: restartNever,
		sets: func(r *reader, _ string) []string {
			names := []string{"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED"}
			if r.pods() > 1 {
				names = append(names, "WORKER_PORT", "WORKER_ADDRS")
			}
			return names
		},
		everywhere: true,
		owns:       []string{"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_NUM_WORKER", "DMLC_TASK_ID"},
		meets:      []string{"WORKER_PORT", "WORKER_ADDRS"},
		parts:      []part{{name: "Master", role: "master", one: true}, {name: "Worker", role: "worker"}},
		read:       readXGBoost,
	}
}

func readXGBoost(r *reader) {
	r.blueprint.OneKind, r.blueprint.Decides = true, "master"
	if r.find("master") == nil {
		r.at.Note("an XGBoostJob has a Master, and this one would not have run; rank 0 is the first worker now", "")
	}
}
