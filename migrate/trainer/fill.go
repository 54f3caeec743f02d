package trainer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/ledger"
)

// container is the container of the given name; nil when the job has none.
func container(j *jobset.Job, name string) *corev1.Container {
	all := j.Template.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// trainer fills in what the TrainJob says of the container that trains.
func (r *reader) trainer() {
	j, n := r.training(), r.spec.Get("trainer")
	if j == nil {
		return
	}
	j.Container = containerNode
	c := container(j, containerNode)
	if c == nil {
		if n.Exists() {
			n.Lost("the trainer fills in a container of the name "+containerNode+", which the runtime's job "+j.Name+" does not have", "rename the container that trains in the runtime")
		}
		j.Container = ""
		return
	}
	if image := n.Get("image"); image.Exists() {
		c.Image = image.String()
		image.Carried("image of container " + c.Name)
	}
	if command := n.Get("command"); command.Exists() {
		c.Command = command.Strings()
		command.Carried("command of container " + c.Name)
	}
	if args := n.Get("args"); args.Exists() {
		c.Args = args.Strings()
		args.Carried("args of container " + c.Name)
	}
	for _, j := range r.nodes() {
		if c := container(j, containerNode); c != nil {
			variables(c, n.Get("env"))
			j.Variables = append(j.Variables, n.Get("env"))
			resources(c, n.Get("resourcesPerNode"))
		}
	}
}

// nodes are the jobs whose containers train: the trainer's, and the workers of a launcher
// that is a node itself (pkg/runtime/framework/plugins/jobset/builder.go).
func (r *reader) nodes() []*jobset.Job {
	out := []*jobset.Job{r.training()}
	launcherToo := r.runtime.At("spec", "mlPolicy", "mpi", "runLauncherAsNode").Bool()
	if j := r.set.Job(jobNode); j != nil && j != out[0] && launcherToo != nil && *launcherToo {
		out = append(out, j)
	}
	return out
}

// variables sets variables of a container: those of the same name are replaced.
func variables(c *corev1.Container, n ledger.Node) {
	if !n.Exists() {
		return
	}
	var env []corev1.EnvVar
	if !n.Into(&env) {
		return
	}
	for _, e := range env {
		upsert(c, e)
	}
	n.Carried("variables of container " + c.Name)
}

func upsert(c *corev1.Container, e corev1.EnvVar) {
	if i := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name }); i >= 0 {
		c.Env[i] = e
		return
	}
	c.Env = append(c.Env, e)
}

// resources lays the TrainJob's over the runtime's, name by name
// (pkg/util/trainingruntime, MergeResourceRequirements).
func resources(c *corev1.Container, n ledger.Node) {
	if !n.Exists() {
		return
	}
	var own corev1.ResourceRequirements
	if !n.Into(&own) {
		return
	}
	lay := func(over *corev1.ResourceList, from corev1.ResourceList) {
		for name, q := range from {
			if *over == nil {
				*over = corev1.ResourceList{}
			}
			(*over)[name] = q
		}
	}
	lay(&c.Resources.Limits, own.Limits)
	lay(&c.Resources.Requests, own.Requests)
	n.Get("claims").Changed("", "left out: the trainer took limits and requests alone", "name the claims in the template of the new workload")
	n.Get("limits").Carried("resources of container " + c.Name)
	n.Get("requests").Carried("resources of container " + c.Name)
}

// initializers fills in where data comes from.
func (r *reader) initializers() {
	for _, of := range [][2]string{{"dataset", stepDataset}, {"model", stepModel}} {
		step := of[1]
		n, j := r.spec.At("initializer", of[0]), r.byStep[step]
		if !n.Exists() {
			continue
		}
		var c *corev1.Container
		if j != nil {
			c = container(j, step)
		}
		if c == nil {
			n.Invalid("the runtime has no job with the label " + labelStep + ": " + step + " and a container " + step + ", which the trainer demands")
			continue
		}
		if uri := n.Get("storageUri"); uri.Exists() {
			upsert(c, corev1.EnvVar{Name: "STORAGE_URI", Value: uri.String()})
			uri.Carried("variable STORAGE_URI of container " + c.Name)
		}
		variables(c, n.Get("env"))
		j.Variables = append(j.Variables, n.Get("env"))
		if name := n.At("secretRef", "name").String(); name != "" {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
			n.Get("secretRef").Only("name")
			n.Get("secretRef").Carried("envFrom of container " + c.Name)
		}
	}
}
