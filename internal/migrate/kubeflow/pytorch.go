package kubeflow

import (
	"strconv"

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
