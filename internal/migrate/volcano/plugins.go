package volcano

import (
	"flag"
	"fmt"
	"io"
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

// The plugins of Volcano that set up a framework. Rollcall's framework has the same name.
const (
	pluginPyTorch    = "pytorch"
	pluginTensorFlow = "tensorflow"
	pluginMPI        = "mpi"
)

var frameworkPlugins = []string{pluginPyTorch, pluginTensorFlow, pluginMPI}

// readPlugins reads the flags of all plugins. Volcano's webhook adds plugins that others need. Their
// entries in the report are those of the plugin that needs them (volcano,
// pkg/webhooks/admission/jobs/mutate, patchDefaultPlugins).
func (r *reader) readPlugins() {
	plugins := r.spec.Get("plugins")
	for _, name := range plugins.Keys() {
		f := plugins.Get(name)
		if _, ok := knownFlags[name]; !ok {
			f.MarkDropped("this release does not support the plugin", "add its changes of the pods to the template")
			continue
		}
		flags := parseFlags(name, f)
		if !f.Exists() { // a plugin without a list of arguments is enabled too
			flags.field = plugins
		}
		r.plugins[name] = flags
	}
	for _, name := range append([]string{"ray"}, frameworkPlugins...) {
		if r.hasPlugin(name) && !r.hasPlugin("svc") {
			r.plugins["svc"] = parsedFlags{field: r.plugins[name].field}
		}
	}
	if r.hasPlugin(pluginMPI) && !r.hasPlugin("ssh") {
		r.plugins["ssh"] = parsedFlags{field: r.plugins[pluginMPI].field}
	}
	if svc, ok := r.plugins["svc"]; ok {
		r.hostsInEnv = svc.values["inject-hosts-env"] != "false"
	}
}

// hasPlugin reports whether a plugin is enabled.
func (r *reader) hasPlugin(name string) bool {
	_, ok := r.plugins[name]
	return ok
}

// parsedFlags are the flags of a plugin that the manifest sets.
type parsedFlags struct {
	field  source.Field
	values map[string]string
}

// knownFlags are the flags of each plugin (volcano, pkg/controllers/job/plugins, addFlags). A flag with
// the value true does not need a value.
var knownFlags = map[string]map[string]bool{
	"env": {},
	"svc": {"publish-not-ready-addresses": true, "disable-network-policy": true, "inject-hosts-env": true},
	"ssh": {
		"ssh-key-file-path": false, "ssh-private-key": false, "ssh-public-key": false, "ssh-port": false, "no-root": true,
	},
	pluginPyTorch: {
		"master": false, "worker": false, "port": false,
		"wait-master-enabled": true, "wait-master-timeout": false, "wait-master-image": false,
	},
	pluginTensorFlow: {"ps": false, "worker": false, "chief": false, "evaluator": false, "port": false},
	pluginMPI:        {"master": false, "worker": false, "port": false},
	"ray":            {},
}

// parseFlags parses the arguments of a plugin with Go's package flag, as Volcano does. It records the arguments that
// Volcano ignores as dropped.
func parseFlags(plugin string, f source.Field) parsedFlags {
	flags := flag.NewFlagSet(plugin, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, isSwitch := range knownFlags[plugin] {
		if isSwitch {
			flags.Bool(name, false, "")
		} else {
			flags.String(name, "", "")
		}
	}
	items, ignored := f.Items(), 0
	if flags.Parse(f.Strings()) != nil {
		ignored = 1 // the flag with the mistake
	}
	ignored += flags.NArg()
	for i, item := range items {
		switch {
		case i >= len(items)-ignored:
			item.MarkDropped("Volcano ignores the first wrong argument and all arguments after it", "check the spelling")
		case plugin == "ssh":
			item.MarkLeftOut("the configuration of ssh and sshd defines the keys and the port for every user")
		default:
			item.MarkPreserved("the roles, the port and the Service of the gang")
		}
	}
	values := map[string]string{}
	flags.Visit(func(set *flag.Flag) { values[set.Name] = set.Value.String() })
	return parsedFlags{f, values}
}

// taskIndexVars are the variables of the plugin env.
var taskIndexVars = []string{"VK_TASK_INDEX", "VC_TASK_INDEX"}

// mpiHostVar is the variable of the plugin mpi.
const mpiHostVar = "MPI_HOST"

// hostsMountPath is the mount path of the ConfigMap of the plugin svc.
const hostsMountPath = "/etc/volcano"

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
		r.plugins["svc"].field.AddNote(
			"the variables VC_<task>_HOSTS and VC_<task>_NUM are constants with the new hostnames", "")
	}
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		env := slices.Clone(hosts)
		if r.hasPlugin("env") {
			env = append(env, r.buildIndexVars(role.Name)...)
		}
		if r.hasPlugin(pluginMPI) && role.Name == gang.RoleLauncher {
			r.plugins[pluginMPI].field.AddNote(mpiHostVar+" has the new hostnames of the workers",
				"remove --host from the command: mpirun reads the hosts and their slots from the hostfile")
			env = append(env, corev1.EnvVar{Name: mpiHostVar, Value: strings.Join(r.gang.HostNames(roleWorker), ",")})
		}
		for _, c := range ir.ListContainers(&role.Template.Spec) {
			c.Env = slices.Concat(env, c.Env)
		}
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

// buildHostVars returns variables with the hosts of each task and their number.
func (r *reader) buildHostVars() []corev1.EnvVar {
	var env []corev1.EnvVar
	for i, t := range r.tasks {
		hosts := r.gang.HostNames(r.gang.Roles[i].Name)
		env = append(env, corev1.EnvVar{Name: hostsVarName(t.name), Value: strings.Join(hosts, ",")},
			corev1.EnvVar{Name: numVarName(t.name), Value: strconv.Itoa(len(hosts))})
	}
	return env
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
	for _, e := range r.buildHostVars() {
		files.Data[e.Name] = e.Value
	}
	for i, t := range r.tasks {
		hosts := r.gang.HostNames(r.gang.Roles[i].Name)
		for _, file := range []string{t.name, strings.ReplaceAll(t.name, "-", "_")} { // the former until 1.4
			files.Data[file+".host"] = strings.Join(hosts, "\n")
		}
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
