package kubeflow

import (
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

func pytorchJob() job {
	return job{
		framework: "pytorch", versions: []string{v1, v1beta2, v1beta1, v1alpha2, v1alpha1}, indexLabel: "pytorch-replica-index",
		replicas: "pytorchReplicaSpecs", container: "pytorch", portName: "pytorchjob-port", defaultPort: 23456, byDefault: restartOnFailure,
		sets: torchVariables, everywhere: true,
		owns:  []string{"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK", "PET_NNODES"},
		parts: []part{{name: "Master", role: "master", one: true}, {name: "Worker", role: "worker"}},
		read:  readPyTorch,
	}
}

// torchVariables are what PyTorchJob sets (training-operator,
// pkg/controller.v1/pytorch/envvar.go). Without a master there are no ranks.
func torchVariables(r *reader, _ string) []string {
	names := []string{"PYTHONUNBUFFERED"}
	if r.find("master") != nil {
		names = append(names, "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
	}
	if r.Version != v1 {
		return names
	}
	names = append(names, "PET_NNODES", "PET_NPROC_PER_NODE")
	if r.find("master") != nil {
		names = append(names, "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK")
	}
	policy := r.spec.Get("elasticPolicy")
	if !policy.Exists() {
		return names
	}
	names = append(names, "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND")
	for field, name := range map[string]string{
		"maxRestarts": "PET_MAX_RESTARTS", "rdzvId": "PET_RDZV_ID", "rdzvConf": "PET_RDZV_CONF", "standalone": "PET_STANDALONE",
	} {
		if policy.Get(field).Exists() {
			names = append(names, name)
		}
	}
	return names
}

func readPyTorch(r *reader) {
	r.blueprint.OneKind, r.blueprint.Decides = true, "master"
	if r.Version == v1alpha1 {
		r.alpha()
	}
	nproc, elastic := r.spec.Get("nprocPerNode"), r.spec.Get("elasticPolicy")
	if older := elastic.Get("nProcPerNode"); older.Exists() {
		nproc.Changed("", "left out: elasticPolicy has a number too, which the operator heeds", "")
		nproc = older
	}
	r.nproc(nproc)
	r.elasticPolicy(elastic)
}

// nproc carries the number of processes of each pod.
func (r *reader) nproc(n ledger.Node) {
	const to = "annotation " + gang.AnnotationNproc
	switch v := n.IntOrString(); v {
	case "":
	case "auto", "gpu", "cpu":
		r.blueprint.Keys[gang.AnnotationNproc] = v
		n.Carried(to)
	default:
		if _, err := strconv.Atoi(v); err != nil {
			n.Invalid("must be auto, gpu, cpu or a number")
			return
		}
		r.blueprint.Keys[gang.AnnotationNproc] = v
		n.Carried(to)
	}
}
