package trainer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// findContainer returns the container of the given name, or nil.
func findContainer(j *jobset.ReplicatedJob, name string) *corev1.Container {
	spec := &j.Template.Spec.Template.Spec
	if i := ir.FindContainer(spec, name); i >= 0 {
		return &spec.Containers[i]
	}
	return nil
}

// applyTrainer applies spec.trainer to the training container.
func (r *reader) applyTrainer() {
	j, trainer := r.trainerJob(), r.spec.Get("trainer")
	if j == nil {
		return
	}
	j.TrainingContainer = containerNode
	c := findContainer(j, containerNode)
	if c == nil {
		trainer.MarkDropped("job "+j.Name+" of the runtime does not have the container "+containerNode,
			"rename the training container of the runtime")
		j.TrainingContainer = ""
		return
	}
	if image := trainer.Get("image"); image.Exists() {
		c.Image = image.String()
		image.MarkPreserved("image of container " + c.Name)
	}
	if command := trainer.Get("command"); command.Exists() {
		c.Command = command.Strings()
		command.MarkPreserved("command of container " + c.Name)
	}
	if args := trainer.Get("args"); args.Exists() {
		c.Args = args.Strings()
		args.MarkPreserved("args of container " + c.Name)
	}
	for _, j := range r.listNodeJobs() {
		if c := findContainer(j, containerNode); c != nil {
			applyEnv(c, trainer.Get("env"))
			j.EnvFields = append(j.EnvFields, trainer.Get("env"))
			applyResources(c, trainer.Get("resourcesPerNode"))
		}
	}
}

// listNodeJobs returns the jobs with training containers: the trainer's job, and the workers if the
// launcher is a node too (pkg/runtime/framework/plugins/jobset/builder.go).
func (r *reader) listNodeJobs() []*jobset.ReplicatedJob {
	out := []*jobset.ReplicatedJob{r.trainerJob()}
	launcherIsNode := r.runtime.At("spec", "mlPolicy", policyMPI, "runLauncherAsNode").Bool()
	if j := r.jobSet.FindJob(jobNode); j != nil && j != out[0] && launcherIsNode != nil && *launcherIsNode {
		out = append(out, j)
	}
	return out
}

// applyEnv sets variables of a container. They replace variables of the same name.
func applyEnv(c *corev1.Container, field source.Field) {
	var env []corev1.EnvVar
	if !field.Decode(&env) {
		return
	}
	for _, e := range env {
		setEnvVar(c, e)
	}
	field.MarkPreserved("variables of container " + c.Name)
}

func setEnvVar(c *corev1.Container, e corev1.EnvVar) {
	if i := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name }); i >= 0 {
		c.Env[i] = e
		return
	}
	c.Env = append(c.Env, e)
}

// applyResources merges the resources of the TrainJob into those of the runtime by name
// (pkg/util/trainingruntime, MergeResourceRequirements).
func applyResources(c *corev1.Container, field source.Field) {
	var own corev1.ResourceRequirements
	if !field.Decode(&own) {
		return
	}
	merge := func(to *corev1.ResourceList, from corev1.ResourceList) {
		for name, q := range from {
			if *to == nil {
				*to = corev1.ResourceList{}
			}
			(*to)[name] = q
		}
	}
	merge(&c.Resources.Limits, own.Limits)
	merge(&c.Resources.Requests, own.Requests)
	field.Get("claims").MarkChanged("", "left out: Trainer uses only limits and requests",
		"add the claims to the template of the new workload")
	field.Get("limits").MarkPreserved("resources of container " + c.Name)
	field.Get("requests").MarkPreserved("resources of container " + c.Name)
}

// applyInitializers applies spec.initializer to the initializers of the runtime.
func (r *reader) applyInitializers() {
	for _, initializer := range []struct{ field, step string }{{"dataset", stepDataset}, {"model", stepModel}} {
		step := initializer.step
		field, j := r.spec.At("initializer", initializer.field), r.jobByStep[step]
		if !field.Exists() {
			continue
		}
		var c *corev1.Container
		if j != nil {
			c = findContainer(j, step)
		}
		if c == nil {
			field.MarkInvalid("needs a job of the runtime with the label " + labelStep + ": " + step + " and a container " +
				step)
			continue
		}
		if uri := field.Get("storageUri"); uri.Exists() {
			setEnvVar(c, corev1.EnvVar{Name: "STORAGE_URI", Value: uri.String()})
			uri.MarkPreserved("variable STORAGE_URI of container " + c.Name)
		}
		applyEnv(c, field.Get("env"))
		j.EnvFields = append(j.EnvFields, field.Get("env"))
		if secret := field.At("secretRef", "name").String(); secret != "" {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
			})
			field.Get("secretRef").ReportUnreadExcept("name")
			field.Get("secretRef").MarkPreserved("envFrom of container " + c.Name)
		}
	}
}
