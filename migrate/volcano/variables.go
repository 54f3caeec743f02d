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
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// indexNames are the variables of the plugin env.
var indexNames = []string{"VK_TASK_INDEX", "VC_TASK_INDEX"}

// mpiHost is the variable of the plugin mpi.
const mpiHost = "MPI_HOST"

// hostsPath is where the plugin svc mounts its ConfigMap.
const hostsPath = "/etc/volcano"

// longestHosts bounds a list of hosts in a variable: the kernel takes a variable of up to
// 128 KiB with its name (MAX_ARG_STRLEN), and each pod of the gang carries it.
const longestHosts = 64 << 10

// hostsName and numName are the variables of the plugin svc about a task.
func hostsName(task string) string { return "VC_" + envName(task) + "_HOSTS" }
func numName(task string) string   { return "VC_" + envName(task) + "_NUM" }

func envName(task string) string { return strings.ToUpper(strings.ReplaceAll(task, "-", "_")) }

// variables gives the pods what Volcano's plugins gave them, with the names that the
// pods have now. They go before the user's own, which can then refer to them.
func (r *reader) variables() {
	var hosts []corev1.EnvVar
	if r.hostsInEnv {
		hosts = r.hostVariables()
	}
	for i := range r.blueprint.Roles {
		role := &r.blueprint.Roles[i]
		env := slices.Clone(hosts)
		if r.has("env") {
			env = append(env, r.indexVariables(role.Name)...)
		}
		if r.has("mpi") && role.Name == roleLauncher {
			env = append(env, r.mpiVariables()...)
		}
		for _, c := range containersOf(&role.Template.Spec) {
			c.Env = append(slices.Clone(env), c.Env...)
		}
	}
	if r.has("env") {
		r.plugins["env"].plugin.Carried(strings.Join(indexNames, ", ") + " in every container")
	}
	if r.has("svc") {
		r.hostFiles()
	}
}

// indexVariables are a pod's index in its task, by the label that its workload's
// controller gives it.
func (r *reader) indexVariables(role string) []corev1.EnvVar {
	label := batchv1.JobCompletionIndexAnnotation
	if at, _ := r.blueprint.Where(role); at.Kind == string(gang.StatefulSet) {
		label = appsv1.PodIndexLabel
	}
	var out []corev1.EnvVar
	for _, name := range indexNames {
		out = append(out, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", label)}}})
	}
	return out
}

// hostVariables are the hosts of each task, and how many they are.
func (r *reader) hostVariables() []corev1.EnvVar {
	var out []corev1.EnvVar
	n := r.plugins["svc"].plugin
	for i, t := range r.tasks {
		hosts := r.blueprint.Hosts(r.blueprint.Roles[i].Name)
		text := strings.Join(hosts, ",")
		if len(text) > longestHosts {
			n.Lost(fmt.Sprintf("%s would have %d bytes, and is left out", hostsName(t.name), len(text)),
				fmt.Sprintf("make the names from the index, 0 to %s less 1", numName(t.name)))
		} else {
			out = append(out, corev1.EnvVar{Name: hostsName(t.name), Value: text})
		}
		out = append(out, corev1.EnvVar{Name: numName(t.name), Value: strconv.Itoa(len(hosts))})
	}
	n.Note("the variables VC_<task>_HOSTS and VC_<task>_NUM are literals now, with the names that the pods have now", "")
	return out
}

// mpiVariables is the list of workers that the user's command hands to mpirun.
func (r *reader) mpiVariables() []corev1.EnvVar {
	text := strings.Join(r.blueprint.Hosts(roleWorker), ",")
	n := r.plugins["mpi"].plugin
	if len(text) > longestHosts {
		n.Lost(fmt.Sprintf("%s would have %d bytes, and is left out", mpiHost, len(text)), "leave --host out of the command: mpirun finds the hosts by itself")
		return nil
	}
	n.Note(mpiHost+" has the names that the workers have now", "leave --host out of the command: mpirun finds the hosts, and the slots of each, by itself")
	return []corev1.EnvVar{{Name: mpiHost, Value: text}}
}

// hostFiles makes the files of the plugin svc where something reads them.
func (r *reader) hostFiles() {
	texts := slices.Clone(r.Around.Texts)
	r.each(func(t *corev1.PodTemplateSpec) { texts = append(texts, textsOf(&t.Spec)...) })
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, hostsPath) }) {
		return
	}
	name := r.blueprint.Name + "-svc"
	files := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.blueprint.Namespace},
		Data:       map[string]string{},
	}
	for i, t := range r.tasks {
		hosts := r.blueprint.Hosts(r.blueprint.Roles[i].Name)
		for _, file := range []string{t.name, strings.ReplaceAll(t.name, "-", "_")} { // the first up to 1.4
			files.Data[file+".host"] = strings.Join(hosts, "\n")
		}
		files.Data[hostsName(t.name)], files.Data[numName(t.name)] = strings.Join(hosts, ","), strconv.Itoa(len(hosts))
	}
	size := 0
	for key, text := range files.Data {
		size += len(key) + len(text)
	}
	if size > corev1.MaxSecretSize { // the bound of a ConfigMap as well
		r.plugins["svc"].plugin.Lost(fmt.Sprintf("the files of %s would have %d bytes, and a ConfigMap has at most %d", hostsPath, size, corev1.MaxSecretSize),
			"let the program make the names from the index")
		return
	}
	r.blueprint.Extras = append(r.blueprint.Extras, func(func(string) blueprint.Place) runtime.Object { return files })
	r.each(func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "volcano-hosts", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}})
		for _, c := range containersOf(&t.Spec) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "volcano-hosts", MountPath: hostsPath})
		}
	})
	r.plugins["svc"].plugin.Note(fmt.Sprintf("the files of %s are those of configmap/%s, with the names that the pods have now; they do not follow a change of the gang's size", hostsPath, name), "")
}
