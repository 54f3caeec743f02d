package kubeflow

import (
	"fmt"
	"strconv"

	"rollcall.training/gang"
)

func pytorchJob() job {
	return job{
		replicas: "pytorchReplicaSpecs", container: "pytorch", portName: "pytorchjob-port", port: 23456, byDefault: restartOnFailure,
		overwrites: []string{"PYTHONUNBUFFERED", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
			"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE"},
		parts: []part{{name: "Master", role: "master"}, {name: "Worker", role: "worker"}},
		read:  readPyTorch,
	}
}

func readPyTorch(r *reader) {
	r.blueprint.Framework, r.blueprint.OneKind, r.blueprint.Decides = "pytorch", true, "master"
	if master := r.find("master"); master != nil && master.Pods != 1 {
		master.Node.Invalid("a PyTorchJob has one Master")
	}
	nproc := r.spec.Get("nprocPerNode")
	switch v := nproc.IntOrString(); v {
	case "":
	case "auto", "gpu", "cpu":
		r.blueprint.Keys[gang.AnnotationNproc] = v
		nproc.Carried("annotation " + gang.AnnotationNproc)
	default:
		if _, err := strconv.Atoi(v); err != nil {
			nproc.Invalid("must be auto, gpu, cpu or a number")
			break
		}
		r.blueprint.Keys[gang.AnnotationNproc] = v
		nproc.Carried(fmt.Sprintf("annotation %s; WORLD_SIZE is multiplied by it, as before", gang.AnnotationNproc))
	}
}
