package kubeflow

import (
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

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
