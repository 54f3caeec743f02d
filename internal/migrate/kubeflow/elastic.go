package kubeflow

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// convertElasticPolicy converts the policy of a PyTorchJob whose number of workers can change
// (training-operator, pkg/controller.v1/pytorch/elastic.go and hpa.go).
func (r *reader) convertElasticPolicy(policy source.Field) {
	if !policy.Exists() {
		return
	}
	worker := r.findRole(roleWorker)
	if worker == nil {
		policy.MarkInvalid("elasticPolicy applies to workers, and there are none; add a Worker, or remove elasticPolicy")
		return
	}
	if flag := r.findFixedSizeFlag(worker); flag != "" {
		for _, name := range []string{"minReplicas", "maxReplicas", "metrics"} {
			policy.Get(name).MarkLeftOut("the command sets " + flag + ", so the number of workers could not change")
		}
		r.convertRendezvous(policy)
		return
	}
	r.elastic = true
	r.gang.Homogeneous = false // a master is not one of the workers that can be removed
	r.convertElasticBounds(policy, worker)
	r.convertRendezvous(policy)
	policy.Get("metrics").MarkDropped("a HorizontalPodAutoscaler can scale a StatefulSet, but not a Job",
		"let the workers be a StatefulSet, and create a HorizontalPodAutoscaler for it with these metrics")
}

// fixedSizeFlag matches a flag of torchrun or accelerate with a single number of nodes.
var fixedSizeFlag = regexp.MustCompile(`--(?:nnodes|num[-_]machines)[=\s]+["']?[0-9]+(?:[^0-9:]|$)`)

// findFixedSizeFlag returns the flag that fixes the number of nodes, or "". It takes precedence over the
// variable PET_NNODES of the operator.
func (r *reader) findFixedSizeFlag(worker *ir.Role) string {
	c := &worker.Template.Spec.Containers[findContainer(&worker.Template.Spec, r.containerName)]
	flag := fixedSizeFlag.FindString(strings.Join(slices.Concat(c.Command, c.Args), " "))
	return strings.Join(strings.Fields(strings.TrimRight(flag, " \t\n\\\"';&|")), " ")
}

// convertElasticBounds converts the minimum and maximum number of workers. A missing bound is equal to
// the other one. Both default to the number of workers (pytorch_defaults.go, setElasticPolicy).
func (r *reader) convertElasticBounds(policy source.Field, worker *ir.Role) {
	const to = "annotation " + gang.AnnotationElastic
	minField, maxField := policy.Get("minReplicas"), policy.Get("maxReplicas")
	low, high := minField.Int32(), maxField.Int32()
	bounds := gang.ElasticBounds{
		Min: ptr.Deref(cmp.Or(low, high), worker.Pods),
		Max: ptr.Deref(cmp.Or(high, low), worker.Pods),
	}
	r.gang.SetAnnotation(gang.AnnotationElastic, bounds.String())
	minField.MarkPreserved(to)
	maxField.MarkPreserved(to)
	if r.findRole(roleMaster) != nil {
		policy.AddNote("the bounds count only workers; the operator configured torchrun with the same bounds for "+
			"workers and master together", "")
	} else {
		policy.AddNote("the operator completed the job when one worker succeeded; now all workers must succeed",
			"set "+gang.AnnotationSuccessPolicy+": rank0 to complete when the first worker succeeds")
	}
}

// convertRendezvous converts the parameters of torchrun. Parameters that differ from Rollcall's become
// variables of the user, which Rollcall does not change.
func (r *reader) convertRendezvous(policy source.Field) {
	backend, host, port := policy.Get("rdzvBackend"), policy.Get("rdzvHost"), policy.Get("rdzvPort")
	if name := backend.String(); name != "" && name != "c10d" {
		r.convertToEnv(backend, "PET_RDZV_BACKEND", name)
	} else if r.elastic {
		backend.MarkPreserved("PET_RDZV_BACKEND, which is c10d by default")
	} else {
		backend.MarkChanged("PET_MASTER_ADDR", "the ranks of a gang of fixed size connect to rank 0", "")
	}
	first, _, _ := strings.Cut(host.String(), ".")
	if first == "" || first == r.gang.Name+"-worker-0" || first == r.gang.Name+"-master-0" {
		host.MarkPreserved("PET_RDZV_ENDPOINT, which names rank 0 by default")
		if number := port.Int32(); number != nil {
			// It takes precedence over the port of a container, as in the operator.
			r.gang.SetAnnotation(gang.AnnotationPort, strconv.Itoa(int(*number)))
			port.MarkPreserved("PET_RDZV_ENDPOINT, with the annotation " + gang.AnnotationPort)
		}
	} else {
		number := cmp.Or(port.IntOrString(), r.gang.RollcallAnnotations[gang.AnnotationPort], fmt.Sprint(r.framework.Port))
		r.convertToEnv(host, "PET_RDZV_ENDPOINT", host.String()+":"+number)
		port.MarkPreserved("variable PET_RDZV_ENDPOINT")
	}
	if id := policy.Get("rdzvId"); id.String() != "" {
		r.convertToEnv(id, "PET_RDZV_ID", id.String())
	}
	usesRank0 := backend.String() == "" || backend.String() == "c10d"
	if restarts := policy.Get("maxRestarts"); !r.elastic && usesRank0 {
		restarts.MarkLeftOut("torchrun exits if a process fails, and Rollcall restarts all ranks together")
	} else if restarts.Int32() != nil {
		r.convertToEnv(restarts, "PET_MAX_RESTARTS", restarts.IntOrString())
	} else if r.elastic {
		policy.AddNote("maxRestarts is not set: torchrun exited when a process failed; now it restarts its processes, "+
			"up to the number in PET_MAX_RESTARTS, which Rollcall sets",
			"set the variable PET_MAX_RESTARTS in the new template for a different number")
	}
	policy.Get("rdzvConf").MarkDropped("torchrun uses its defaults", "set the variable PET_RDZV_CONF in the new template")
	policy.Get("standalone").MarkLeftOut("torchrun rejects the empty variable that the operator set for it")
}

// convertToEnv converts a field to a variable of the training container of each pod.
func (r *reader) convertToEnv(f source.Field, name, value string) {
	for i := range r.gang.Roles {
		spec := &r.gang.Roles[i].Template.Spec
		c := &spec.Containers[findContainer(spec, r.containerName)]
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	f.MarkPreserved("variable " + name)
}
