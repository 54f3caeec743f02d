package volcano

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// taskIndexVars are the variables of the plugin env.
var taskIndexVars = []string{"VK_TASK_INDEX", "VC_TASK_INDEX"}

// mpiHostVar is the variable of the plugin mpi.
const mpiHostVar = "MPI_HOST"

// hostsMountPath is the mount path of the ConfigMap of the plugin svc.
const hostsMountPath = "/etc/volcano"

// maxHostsLength is the maximum length in bytes of a list of hosts in a variable. The kernel accepts
// variables of up to 128 KiB with their name (MAX_ARG_STRLEN), and each pod has a copy.
const maxHostsLength = 64 << 10

// hostsVarName and numVarName return the names of the variables of the plugin svc for a task.
func hostsVarName(task string) string { return "VC_" + toEnvName(task) + "_HOSTS" }
func numVarName(task string) string   { return "VC_" + toEnvName(task) + "_NUM" }

func toEnvName(task string) string { return strings.ToUpper(strings.ReplaceAll(task, "-", "_")) }

// addPluginVars adds the variables of Volcano's plugins, with the new hostnames. They precede the
// variables of the user, which can refer to them.
func (r *reader) addPluginVars() {
	var hosts []corev1.EnvVar
	if r.hostsInEnv {
		hosts = r.buildHostVars()
	}
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		env := slices.Clone(hosts)
		if r.hasPlugin("env") {
			env = append(env, r.buildIndexVars(role.Name)...)
		}
		if r.hasPlugin(pluginMPI) && role.Name == gang.RoleLauncher {
			env = append(env, r.buildMPIHostVar()...)
		}
		prependEnv(&role.Template.Spec, env)
	}
	if r.hasPlugin("env") {
		r.plugins["env"].field.MarkPreserved(strings.Join(taskIndexVars, ", ") + " in every container")
	}
	if r.hasPlugin("svc") {
		r.addHostFiles()
	}
}

// buildIndexVars returns variables with the index of a pod in its task, from the index label of the
// workload.
func (r *reader) buildIndexVars(role string) []corev1.EnvVar {
	label := batchv1.JobCompletionIndexAnnotation
	if workload, _ := r.gang.LocateRole(role); workload.Kind == string(gang.StatefulSet) {
		label = appsv1.PodIndexLabel
	}
	var env []corev1.EnvVar
	for _, name := range taskIndexVars {
		env = append(env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", label)},
		}})
	}
	return env
}

// prependEnv adds variables in front of those of all containers.
func prependEnv(spec *corev1.PodSpec, env []corev1.EnvVar) {
	for _, c := range ir.ListContainers(spec) {
		c.Env = slices.Concat(env, c.Env)
	}
}

// buildHostVars returns variables with the hosts of each task and their number.
func (r *reader) buildHostVars() []corev1.EnvVar {
	var env []corev1.EnvVar
	f := r.plugins["svc"].field
	for i, t := range r.tasks {
		hosts := r.gang.HostNames(r.gang.Roles[i].Name)
		env = append(env, newHostsVar(f, hostsVarName(t.name), hosts,
			fmt.Sprintf("build the hostnames from the indexes 0 to %s - 1", numVarName(t.name)))...)
		env = append(env, corev1.EnvVar{Name: numVarName(t.name), Value: strconv.Itoa(len(hosts))})
	}
	f.AddNote("the variables VC_<task>_HOSTS and VC_<task>_NUM are constants with the new hostnames", "")
	return env
}

// buildMPIHostVar returns the variable with the workers, which the user's command passes to mpirun.
func (r *reader) buildMPIHostVar() []corev1.EnvVar {
	const action = "remove --host from the command: mpirun reads the hosts and their slots from the hostfile"
	f := r.plugins[pluginMPI].field
	f.AddNote(mpiHostVar+" has the new hostnames of the workers", action)
	return newHostsVar(f, mpiHostVar, r.gang.HostNames(roleWorker), action)
}

// newHostsVar returns a variable with a list of hosts, or reports that the list is too long.
func newHostsVar(f source.Field, name string, hosts []string, action string) []corev1.EnvVar {
	text := strings.Join(hosts, ",")
	if len(text) > maxHostsLength {
		f.MarkDropped(fmt.Sprintf("%s is left out, because it would have %d bytes", name, len(text)), action)
		return nil
	}
	return []corev1.EnvVar{{Name: name, Value: text}}
}

// addHostFiles adds the files of the plugin svc if a text of the manifest contains their path.
func (r *reader) addHostFiles() {
	isRead := func(text string) bool { return strings.Contains(text, hostsMountPath) }
	if !slices.ContainsFunc(slices.Concat(r.texts, r.Context.ConfigMapTexts), isRead) {
		return
	}
	f := r.plugins["svc"].field
	files := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: r.gang.Name + "-svc", Namespace: r.gang.Namespace},
		Data:       map[string]string{},
	}
	for i, t := range r.tasks {
		hosts := r.gang.HostNames(r.gang.Roles[i].Name)
		files.Data[hostsVarName(t.name)] = strings.Join(hosts, ",")
		files.Data[numVarName(t.name)] = strconv.Itoa(len(hosts))
		for _, file := range []string{t.name, strings.ReplaceAll(t.name, "-", "_")} { // the former until 1.4
			files.Data[file+".host"] = strings.Join(hosts, "\n")
		}
	}
	size := 0
	for key, text := range files.Data {
		size += len(key) + len(text)
	}
	if size > corev1.MaxSecretSize { // the maximum of a ConfigMap too
		f.MarkDropped(fmt.Sprintf("the files in %s would have %d bytes, and the maximum of a ConfigMap is %d",
			hostsMountPath, size, corev1.MaxSecretSize), "build the hostnames from the indexes in the program")
		return
	}
	r.gang.AdditionalObjects = append(r.gang.AdditionalObjects, files)
	const volume = "volcano-hosts"
	r.forEachTemplate(func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: files.Name},
			},
		}})
		for _, c := range ir.ListContainers(&t.Spec) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: hostsMountPath})
		}
	})
	f.AddNote(fmt.Sprintf("the files in %s are from configmap/%s, with the new hostnames; they do not follow a change of "+
		"the gang's size", hostsMountPath, files.Name), "")
}
