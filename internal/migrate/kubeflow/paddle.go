package kubeflow

// assignPaddleRoles renames a Master without workers to worker. A Master with workers runs the
// parameter servers.
func assignPaddleRoles(r *reader) {
	master, worker := r.findRole(roleMaster), r.findRole(roleWorker)
	switch {
	case master != nil && worker != nil:
		master.Source.AddNote("the Master runs only the parameter servers, and the gang completes when the workers "+
			"complete; the operator started a server and a trainer in each pod, and the Master determined completion", "")
	case master != nil:
		master.Name, master.StatefulSet = roleWorker, false
		master.Source.AddNote("without Workers, the pods of the Master are the workers", "")
	}
}

// readPaddle reads the fields of a PaddleJob.
func readPaddle(r *reader) {
	policy := r.spec.Get("elasticPolicy")
	for _, key := range []string{"minReplicas", "maxReplicas", "maxRestarts", "metrics"} {
		policy.Get(key).MarkLeftOut("no release of the operator used it for a PaddleJob")
	}
}
