package volcano

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// The plugins that make a framework, by the names that Volcano and Rollcall share.
var frameworkPlugins = []string{"pytorch", "tensorflow", "mpi"}

// readPlugins reads the arguments of all plugins. Volcano's webhook adds those that
// others need, whose place in the account is then that of the other (volcano, pkg/webhooks/admission/jobs/mutate, patchDefaultPlugins).
func (r *reader) readPlugins() {
	plugins := r.spec.Get("plugins")
	for _, name := range plugins.Keys() {
		n := plugins.Get(name)
		if _, ok := pluginFlags[name]; !ok {
			n.Lost("this release does not know the plugin", "see what it puts into the pods, and write that into the template")
			continue
		}
		f := readFlags(name, n)
		if !n.Exists() { // a plugin without a list of arguments is on as well
			f.plugin = plugins
		}
		r.plugins[name] = f
	}
	for _, name := range append([]string{"ray"}, frameworkPlugins...) {
		if r.has(name) && !r.has("svc") {
			r.plugins["svc"] = flags{plugin: r.plugins[name].plugin}
		}
	}
	if r.has("mpi") && !r.has("ssh") {
		r.plugins["ssh"] = flags{plugin: r.plugins["mpi"].plugin}
	}
	if svc, ok := r.plugins["svc"]; ok {
		r.hostsInEnv = svc.truth("inject-hosts-env", true)
	}
	if r.has("hcclrank") {
		r.plugins["hcclrank"].plugin.Lost("Rollcall does not write the annotation hccl/rankIndex of Ascend's device plugin", "let the program take its rank from ROLLCALL_RANK")
	}
}

// has reports whether a plugin is on.
func (r *reader) has(plugin string) bool {
	_, ok := r.plugins[plugin]
	return ok
}

// findFramework decides which framework the job runs: by its plugin, else as the user
// said, else by what its commands call. It is false when nobody knows.
func (r *reader) findFramework() bool {
	plugins := r.spec.Get("plugins")
	if r.has("ray") {
		plugins.Get("ray").Invalid("Ray is none of Rollcall's frameworks; leave the job to Volcano, or take KubeRay")
		return false
	}
	for _, name := range frameworkPlugins {
		if r.has(name) {
			r.framework, _ = frameworkOf(name)
			r.plugins[name].plugin.Note(fmt.Sprintf("the plugin is the label %s: %s now", gang.LabelFramework, name), "")
			r.blueprint.Framework = name
			return true
		}
	}
	if asked := r.Around.Framework; asked != "" {
		f, ok := frameworkOf(asked)
		if !ok {
			plugins.Required(fmt.Sprintf("--framework=%s is none of Rollcall's; known are %s", asked, strings.Join(frameworkNames(), ", ")))
			return false
		}
		r.framework, r.blueprint.Framework = f, f.name
		return true
	}
	f, mark, ok := guess(r.texts())
	if !ok {
		plugins.Required(fmt.Sprintf("neither a plugin nor a command says which framework this is; name it with --framework, one of %s",
			strings.Join(frameworkNames(), ", ")))
		return false
	}
	r.framework, r.blueprint.Framework = f, f.name
	r.spec.Note(fmt.Sprintf("no plugin names the framework; it is taken for %s, since a text of the manifest has %q", f.name, mark),
		"name another with --framework")
	return true
}

// texts are the commands, arguments and variables of all tasks. A template that cannot
// be read has none; it is a mistake that is found later.
func (r *reader) texts() []string {
	var out []string
	for _, t := range r.spec.Get("tasks").Items() {
		text, err := json.Marshal(t.Get("template").Tree())
		var template corev1.PodTemplateSpec
		if err == nil && json.Unmarshal(text, &template) == nil {
			out = append(out, textsOf(&template.Spec)...)
		}
	}
	return out
}

// textsOf are the texts of a pod in which a command or an address may stand.
func textsOf(spec *corev1.PodSpec) []string {
	var out []string
	for _, c := range containersOf(spec) {
		// A command's words belong together: [torchrun, train.py].
		out = append(out, strings.Join(append(append([]string{}, c.Command...), c.Args...), " "))
		for _, e := range c.Env {
			out = append(out, e.Name+"="+e.Value)
		}
	}
	return out
}

// containersOf are the init containers and the containers of a pod.
func containersOf(spec *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for i := range spec.InitContainers {
		out = append(out, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		out = append(out, &spec.Containers[i])
	}
	return out
}
