package volcano

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
		r.hostsInEnv = svc.boolOrDefault("inject-hosts-env", true)
	}
}

// hasPlugin reports whether a plugin is enabled.
func (r *reader) hasPlugin(name string) bool {
	_, ok := r.plugins[name]
	return ok
}
