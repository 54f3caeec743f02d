package volcano

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// convertTemplates applies the changes that Volcano makes to the pods, and removes what the pods of a
// gang cannot have.
func (r *reader) convertTemplates() {
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		spec := &role.Template.Spec
		r.removePodNames(role)
		ir.ReportJoinedPods(r.framework, spec, role.Source, r.gang.PodCount())
		r.removeVars(role)
		if len(spec.Containers) > 1 { // the plugins set the variables in all containers
			role.Source.At("spec", "containers").AddNote(
				fmt.Sprintf("container %s is the training container, and only it gets the variables of the framework",
					spec.Containers[r.gang.TrainingContainer(r.Context, role)].Name),
				"select others with "+gang.AnnotationContainers)
		}
		r.convertSSH(role)
		if spec.HostNetwork && spec.DNSPolicy == "" { // the same change as in Volcano's webhook
			spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		r.reportDependencies(r.tasks[i], role)
	}
}

// removePodNames removes names that a template gives to all of its pods.
func (r *reader) removePodNames(role *ir.Role) {
	spec, f := &role.Template.Spec, role.Source.Get("spec")
	if spec.Hostname != "" {
		f.Get("hostname").MarkDropped("every rank has its own hostname",
			fmt.Sprintf("replace %s in the manifest by the hostnames of the pods", spec.Hostname))
	}
	if spec.Subdomain != "" && spec.Subdomain != r.gang.Name {
		f.Get("subdomain").MarkDropped("the ranks are hosts in the Service of the gang",
			fmt.Sprintf("replace .%s after hostnames in the manifest by .%s", spec.Subdomain, r.gang.Name))
	}
	spec.Hostname, spec.Subdomain = "", ""
}

// listPluginVars returns the variables that the plugins set in the pods of a role. They overwrite those
// of the user.
func (r *reader) listPluginVars(role string) []string {
	var names []string
	if r.hasPlugin("env") {
		names = append(names, taskIndexVars...)
	}
	if r.hostsInEnv {
		for _, t := range r.tasks {
			names = append(names, hostsVarName(t.name), numVarName(t.name))
		}
	}
	if !r.hasPlugin(r.framework.Name) {
		return names
	}
	switch r.framework.Name {
	case pluginMPI:
		if role == gang.RoleLauncher {
			names = append(names, mpiHostVar)
		}
	case pluginPyTorch:
		names = append(names, "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
	case pluginTensorFlow:
		names = append(names, "TF_CONFIG")
	}
	return names
}

// removeVars removes variables that a plugin overwrote, and variables that Rollcall sets and does not
// accept from users.
func (r *reader) removeVars(role *ir.Role) {
	for _, c := range ir.ListContainers(&role.Template.Spec) {
		ir.RemoveOverwrittenVars(c, r.listPluginVars(role.Name), role.FindEnvField)
	}
	injection := r.gang.Inject(r.Context, role)
	injection.Adopt(r.gang.RollcallAnnotations)
	role.RemoveInjectedVars(injection, injection.TrainingContainers...)
}

// convertSSH converts the command of a worker that a launcher starts, and reports key files that the
// launcher names.
func (r *reader) convertSSH(role *ir.Role) {
	isHost := role.Name == gang.RoleLauncher || role.StatefulSet
	if len(role.Template.Spec.Containers) > 0 && r.framework.HasLauncher && r.hasRole(gang.RoleLauncher) && isHost {
		training := r.gang.TrainingContainer(r.Context, role)
		ir.ConvertSSH(role.Name, &role.Template.Spec, training, role.Source, r.framework)
	}
}

// reportDependencies reports the tasks that had to start before another task.
func (r *reader) reportDependencies(t task, role *ir.Role) {
	f := t.field.Get("dependsOn")
	if r.framework.HasLauncher && role.Name == gang.RoleLauncher {
		f.MarkChanged("", "all pods start together; the command of the launcher starts when all workers answer", "")
		return
	}
	f.MarkDropped("all pods of a gang start together", "wait in the program for what it needs")
}

// collectTexts returns the commands and variables of a pod. The words of a command are joined, because
// patterns match several of them: [torchrun, train.py].
func collectTexts(spec *corev1.PodSpec) []string {
	var texts []string
	for _, c := range ir.ListContainers(spec) {
		texts = append(texts, ir.JoinCommand(c))
		for _, e := range c.Env {
			texts = append(texts, e.Name+"="+e.Value)
		}
	}
	return texts
}

// forEachTemplate calls visit for the templates of all roles.
func (r *reader) forEachTemplate(visit func(t *corev1.PodTemplateSpec)) {
	for i := range r.gang.Roles {
		visit(&r.gang.Roles[i].Template)
	}
}

// convertVolumes mounts the claims of the job in every container, as Volcano does
// (job_controller_util.go, createJobPod).
func (r *reader) convertVolumes() {
	var added []string
	for _, f := range r.spec.Get("volumes").Items() {
		path, claim := f.Get("mountPath").String(), f.Get("volumeClaimName").String()
		if path == "" {
			f.Get("mountPath").MarkRequired("the volume is mounted at this path")
			continue
		}
		if claim == "" {
			f.MarkDropped("migrate does not create the claim of a volume", "create the claim, and set volumeClaimName")
			continue
		}
		f.Get("volumeClaim").MarkLeftOut("Volcano ignores it if volumeClaimName is set")
		volume := strings.ReplaceAll(claim, ".", "-") // Volcano too names the volume after the claim
		isNew := !slices.Contains(added, claim)
		added = append(added, claim)
		r.forEachTemplate(func(t *corev1.PodTemplateSpec) {
			if isNew {
				t.Spec.Volumes = append(t.Spec.Volumes, ir.NewClaimVolume(volume, claim))
			}
			for j := range t.Spec.Containers {
				c := &t.Spec.Containers[j]
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
			}
		})
		f.Get("mountPath").MarkPreserved("volumeMounts of every container")
		f.Get("volumeClaimName").MarkPreserved("persistentVolumeClaim of every pod")
	}
}
