package kubeflow

import (
	"strconv"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// readPyTorch reads the fields of a PyTorchJob.
func readPyTorch(r *reader) {
	r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster
	processes, elastic := r.spec.Get("nprocPerNode"), r.spec.Get("elasticPolicy")
	if deprecated := elastic.Get("nProcPerNode"); deprecated.Exists() {
		processes.MarkLeftOut("elasticPolicy.nProcPerNode takes precedence, as in the operator")
		processes = deprecated
	}
	r.convertProcessesPerPod(processes)
	r.convertElasticPolicy(elastic)
}

func (r *reader) convertProcessesPerPod(f source.Field) {
	processes := f.IntOrString()
	switch processes {
	case "":
		return
	case "auto", "gpu", "cpu":
	default:
		if _, err := strconv.Atoi(processes); err != nil {
			f.MarkInvalid("must be auto, gpu, cpu or a number")
			return
		}
	}
	r.gang.SetAnnotation(gang.AnnotationNprocPerNode, processes)
	f.MarkPreserved("annotation " + gang.AnnotationNprocPerNode)
}

// readXGBoost reads an XGBoostJob, which has no fields of its own.
func readXGBoost(r *reader) {
	r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster
	if r.findRole(roleMaster) == nil {
		r.replicaSpecs.AddNote("the operator requires a Master, so this job did not run; rank 0 is the first worker now", "")
	}
}

const roleChief = "chief"

// assignTFRoles renames a chief without workers to worker. In a gang, parameter servers and
// evaluators require workers, and worker 0 is the chief if there is no other.
func assignTFRoles(r *reader) {
	chief, master := r.findRole(roleChief), r.findRole(roleMaster)
	switch {
	case chief != nil && master != nil:
		r.replicaSpecs.MarkInvalid("a TFJob has a Chief or a Master, not both; remove one of them")
	case chief == nil && master == nil && r.findRole(roleWorker) == nil:
		r.replicaSpecs.MarkRequired("a Worker, Chief or Master determines when the job is complete; add one of them")
	}
	if r.findRole(roleWorker) != nil || len(r.gang.Roles) == 1 {
		return
	}
	for _, name := range []string{roleChief, roleMaster} {
		if role := r.findRole(name); role != nil {
			role.Name = roleWorker
			role.Source.AddNote("without workers, the "+name+" is worker 0 in TF_CONFIG, which has the work of a chief", "")
			return
		}
	}
}

// readTensorFlow reads the fields of a TFJob.
func readTensorFlow(r *reader) {
	r.convertSuccessPolicy(r.spec.Get("successPolicy"))
	dynamic := r.spec.Get("enableDynamicWorker")
	if ptr.Deref(dynamic.Bool(), false) {
		dynamic.MarkDropped(
			"the operator listed only one worker and the servers in TF_CONFIG, and a failed worker did not fail the job; "+
				"a gang lists all workers, and they restart together",
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the failed worker")
		return
	}
	dynamic.MarkPreserved("the default")
}

// convertSuccessPolicy converts the condition for success: the chief or the master, or without them
// worker 0 or all workers.
func (r *reader) convertSuccessPolicy(f source.Field) {
	const allWorkers = "AllWorkers"
	policy, worker := f.String(), r.findRole(roleWorker)
	switch {
	case policy != "" && policy != allWorkers:
		f.MarkInvalid("must be empty or " + allWorkers)
	case policy == allWorkers && (r.findRole(roleChief) != nil || r.findRole(roleMaster) != nil):
		f.MarkLeftOut("the job completes when the chief completes, as in the operator")
	case r.findRole(roleChief) != nil || r.findRole(roleMaster) != nil:
		f.MarkPreserved("the chief determines completion, as before")
	case worker == nil || worker.Pods == 1:
		f.MarkPreserved("one pod determines completion")
	default:
		value := gang.SuccessPolicyRank0 // worker 0 is rank 0 without a chief
		if policy == allWorkers {
			value = gang.SuccessPolicyAll
		}
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, value)
		f.MarkPreserved("annotation " + gang.AnnotationSuccessPolicy + ": " + value)
	}
}

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
