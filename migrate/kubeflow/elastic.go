package kubeflow

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// elasticPolicy carries the policy of PyTorchJobs whose number of workers may change
// (training-operator, pkg/controller.v1/pytorch/elastic.go and hpa.go).
func (r *reader) elasticPolicy(n ledger.Node) {
	if !n.Exists() {
		return
	}
	worker := r.find("worker")
	if worker == nil {
		n.Invalid("it is about workers, and there are none; add a Worker, or remove it")
		return
	}
	r.elastic = true
	r.blueprint.OneKind = false // a master is no worker, and its pod is not one of those that may go
	bounds := r.bounds(n, worker)
	r.rendezvous(n)
	r.autoscaler(n.Get("metrics"), worker, bounds)
}

// bounds carries how many workers there may be. One that is missing is the other, and
// both are the number of workers (pytorch_defaults.go, setElasticPolicy).
func (r *reader) bounds(n ledger.Node, worker *blueprint.Role) gang.Elastic {
	least, most := n.Get("minReplicas"), n.Get("maxReplicas")
	lo, hi := least.Int32(), most.Int32()
	b := gang.Elastic{Min: ptr.Deref(cmp.Or(lo, hi), worker.Pods), Max: ptr.Deref(cmp.Or(hi, lo), worker.Pods)}
	const to = "annotation " + gang.AnnotationElastic
	r.blueprint.Keys[gang.AnnotationElastic] = b.String()
	switch {
	case b.Min < 1 || b.Min > b.Max:
		firstOf(least, most).Invalid("the smallest number of workers must be from 1 to the largest")
		return b
	case worker.Pods < b.Min || worker.Pods > b.Max:
		firstOf(least, most).Invalid(fmt.Sprintf("there are %d workers, which is not from %d to %d; change one of the three", worker.Pods, b.Min, b.Max))
		return b
	}
	least.Carried(to)
	most.Carried(to)
	if r.find("master") != nil {
		n.Note("the operator tells torchrun of as many pods, the master among them; Rollcall counts workers, and the master comes on top", "")
	} else {
		n.Note("the operator took the job for done when one worker had ended well; all of them have to now", "set "+gang.AnnotationSuccessPolicy+": rank0 to have the first one decide")
	}
	return b
}

// firstOf is the first of the nodes that is there.
func firstOf(nodes ...ledger.Node) ledger.Node {
	for _, n := range nodes {
		if n.Exists() {
			return n
		}
	}
	return nodes[0]
}

// rendezvous carries the parameters of torchrun. Those that Rollcall would choose
// otherwise become variables of the user's own, which it leaves as they are.
func (r *reader) rendezvous(n ledger.Node) {
	backend, host, port := n.Get("rdzvBackend"), n.Get("rdzvHost"), n.Get("rdzvPort")
	if v := backend.String(); v != "" && v != "c10d" {
		r.carryEnv(backend, "PET_RDZV_BACKEND", v)
	} else {
		backend.Carried("PET_RDZV_BACKEND, which is c10d in any case")
	}
	switch v := host.String(); {
	case v == "" || r.own(v):
		host.Carried("PET_RDZV_ENDPOINT, which names rank 0 in any case")
		if p := port.Int32(); p != nil {
			r.blueprint.Keys[gang.AnnotationPort] = strconv.Itoa(int(*p)) // before that of a container
			port.Carried("PET_RDZV_ENDPOINT, by the annotation " + gang.AnnotationPort)
			r.portsBeside(*p)
		}
	default:
		number := ptr.Deref(port.Int32(), r.portNumber())
		r.carryEnv(host, "PET_RDZV_ENDPOINT", fmt.Sprintf("%s:%d", v, number))
		port.Carried("variable PET_RDZV_ENDPOINT")
	}
	if id := n.Get("rdzvId"); id.String() != "" {
		r.carryEnv(id, "PET_RDZV_ID", id.String())
	}
	r.rendezvousConf(n.Get("rdzvConf"))
	if most := n.Get("maxRestarts"); most.Int32() != nil {
		r.carryEnv(most, "PET_MAX_RESTARTS", most.IntOrString())
	} else {
		n.Note("maxRestarts is not set: torchrun ended when one of its processes failed, and begins anew with those that are there now, at most as often as PET_MAX_RESTARTS says, which Rollcall sets",
			"write the variable PET_MAX_RESTARTS into the new template for another number")
	}
	r.standalone(n.Get("standalone"))
}

// portsBeside tells of container ports that are not the rendezvous', since rdzvPort is, as for
// the operator.
func (r *reader) portsBeside(port int32) {
	for _, n := range r.ports {
		if own := n.Get("containerPort").Int32(); own == nil || *own == port {
			continue
		}
		n.Retract()
		n.Changed("the container's port alone", fmt.Sprintf("the ranks meet at elasticPolicy.rdzvPort, %d, as before; the operator's Services had this one, and the gang's has that", port), "")
	}
}

// own reports whether a host is one of the gang's, by its former name.
func (r *reader) own(host string) bool {
	host, _, _ = strings.Cut(host, ".")
	return host == r.blueprint.Name+"-worker-0" || host == r.blueprint.Name+"-master-0"
}

// portNumber is the rendezvous port as the annotation has it.
func (r *reader) portNumber() int32 {
	if n, err := strconv.ParseInt(r.blueprint.Keys[gang.AnnotationPort], 10, 32); err == nil {
		return int32(n)
	}
	return r.defaultPort
}

func (r *reader) rendezvousConf(n ledger.Node) {
	var pairs []string
	for _, item := range n.Items() {
		item.Only("key", "value")
		pairs = append(pairs, item.Get("key").String()+"="+item.Get("value").String())
	}
	if len(pairs) > 0 {
		r.carryEnv(n, "PET_RDZV_CONF", strings.Join(pairs, ","))
	}
}

// standalone carries a wish that the operator's way of writing it made torchrun fail of:
// it reads a number from the variable, and found nothing (torch,
// distributed/argparse_util.py, check_env).
func (r *reader) standalone(n ledger.Node) {
	if !ptr.Deref(n.Bool(), false) {
		n.Carried("the default")
		return
	}
	r.env("PET_STANDALONE", "1")
	n.Changed("variable PET_STANDALONE", "the operator left it empty, which torchrun cannot read; now each pod trains by itself",
		"remove the variable if the pods shall train together")
}

// carryEnv carries a value as a variable.
func (r *reader) carryEnv(n ledger.Node, name, value string) {
	r.env(name, value)
	n.Carried("variable " + name)
}

// env gives the container that trains in each pod a variable.
func (r *reader) env(name, value string) {
	for i := range r.blueprint.Roles {
		spec := &r.blueprint.Roles[i].Template.Spec
		c := &spec.Containers[trainer(spec, r.container)]
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// autoscaler carries the metrics by which the number of workers follows the load. An
// autoscaler scales a StatefulSet, and cannot scale a Job.
func (r *reader) autoscaler(n ledger.Node, worker *blueprint.Role, bounds gang.Elastic) {
	var metrics []autoscalingv2.MetricSpec
	if len(n.Items()) == 0 || !n.Into(&metrics) {
		return
	}
	if why := r.blueprint.JobsOnly(); why != "" {
		n.Lost("an autoscaler needs a StatefulSet, and "+why, "choose one of the two, and migrate again")
		return
	}
	worker.Set, r.scaled = true, true
	r.blueprint.Extras = append(r.blueprint.Extras, func(workload func(string) blueprint.Place) runtime.Object {
		at := workload("worker")
		return &autoscalingv2.HorizontalPodAutoscaler{
			TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
			ObjectMeta: metav1.ObjectMeta{Name: r.blueprint.Name, Namespace: r.blueprint.Namespace},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: at.Kind, Name: at.Name},
				MinReplicas:    ptr.To(bounds.Min), MaxReplicas: bounds.Max, Metrics: metrics,
			},
		}
	})
	n.Changed("horizontalpodautoscaler.autoscaling/"+r.blueprint.Name,
		"it scales the workers, which are a StatefulSet for that; their pods start anew when they end, until each has ended well", "")
}
