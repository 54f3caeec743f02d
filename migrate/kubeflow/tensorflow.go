package kubeflow

import (
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

func tfJob() job {
	return job{
		framework: "tensorflow", versions: []string{v1, v1beta2, v1beta1, v1alpha2, v1alpha1}, indexLabel: "tf-replica-index",
		replicas: "tfReplicaSpecs", container: "tensorflow", portName: "tfjob-port", defaultPort: 2222, byDefault: restartNever,
		sets: tfVariables, meets: []string{"TF_CONFIG", "TF_TASK_INDEX"},
		parts: []part{{name: "Master", role: "master", one: true}, {name: "Chief", role: "chief", one: true}, {name: "Worker", role: "worker"},
			{name: "PS", role: "ps", set: true}, {name: "Evaluator", role: "evaluator"}},
		read: readTensorFlow,
	}
}

// tfVariables is what TFJob sets; a job of one pod has none (training-operator,
// pkg/controller.v1/tensorflow/tensorflow.go). Rollcall's policy is the same.
func tfVariables(r *reader, _ string) []string {
	if r.pods() == 1 {
		return nil
	}
	return []string{"TF_CONFIG"}
}

func readTensorFlow(r *reader) {
	chief, master := r.find("chief"), r.find("master")
	switch {
	case chief != nil && master != nil:
		r.at.Invalid("a TFJob has a Chief or a Master, not both; remove one")
	case chief == nil && master == nil && r.find("worker") == nil:
		r.at.Required("no Worker, Chief or Master is there, whose end would be the end of the job; add one")
	}
	r.chiefAlone()
	if r.Version == v1alpha1 {
		r.alpha()
	}
	r.success(r.spec.Get("successPolicy"))
	dynamic := r.spec.Get("enableDynamicWorker")
	if ptr.Deref(dynamic.Bool(), false) {
		dynamic.Lost("TF_CONFIG named each worker itself and the servers alone, and a worker that failed did not fail the job; in a gang it names all, and they restart together",
			"set "+gang.AnnotationRestartPolicy+": pod to have a worker that failed restart alone")
		return
	}
	dynamic.Carried("the default")
}

// chiefAlone makes a chief without workers the worker: servers and evaluators stand
// beside workers in a gang of tensorflow, and worker 0 is the chief where there is none.
func (r *reader) chiefAlone() {
	if r.find("worker") != nil || len(r.blueprint.Roles) == 1 {
		return
	}
	for _, name := range []string{"chief", "master"} {
		if role := r.find(name); role != nil {
			role.Name = "worker"
			for i := range r.restarts {
				if r.restarts[i].role == name {
					r.restarts[i].role = role.Name
				}
			}
			role.Node.Note("the "+name+" has no workers beside it, and is the worker in TF_CONFIG now; worker 0 is the chief where there is none", "")
			return
		}
	}
}

// success carries whose end is the end of the job: that of the chief or the master;
// where there is neither, of worker 0, or of all workers.
func (r *reader) success(n ledger.Node) {
	const all = "AllWorkers"
	policy := n.String()
	if policy != "" && policy != all {
		n.Invalid("must be empty or " + all)
		return
	}
	if r.find("chief") != nil || r.find("master") != nil {
		if policy == all {
			n.Changed("", "left out: the job has a chief, and its end was the end of the job in any case", "")
			return
		}
		n.Carried("the chief decides, as before")
		return
	}
	worker := r.find("worker")
	if worker == nil || worker.Pods == 1 || r.blueprint.Keys[gang.AnnotationSuccessPolicy] != "" {
		n.Carried("there is one that decides")
		return
	}
	value := gang.SuccessRank0 // worker 0 is rank 0 where there is no chief
	if policy == all {
		value = gang.SuccessAll
	}
	r.blueprint.Keys[gang.AnnotationSuccessPolicy] = value
	n.Carried("annotation " + gang.AnnotationSuccessPolicy + ": " + value)
}
