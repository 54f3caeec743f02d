package volcano

import (
	"fmt"
	"strconv"
	"strings"

	"rollcall.training/gang"
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
		r.hostsInEnv = svc.boolOrDefault("inject-hosts-env", true)
	}
}

// hasPlugin reports whether a plugin is enabled.
func (r *reader) hasPlugin(name string) bool {
	_, ok := r.plugins[name]
	return ok
}

// parsedFlags are the flags of a plugin, by the rules of Go's package flag: a name has one or two
// dashes, the value follows "=" or is the next argument, and the first argument that is not a known
// flag ends the parsing.
type parsedFlags struct {
	field  source.Field
	values map[string]flagValue
}

// flagValue is the value of a flag and its place.
type flagValue struct {
	text  string
	field source.Field
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

// parseFlags parses the arguments of a plugin. It records the arguments that Volcano ignores as
// dropped.
func parseFlags(plugin string, f source.Field) parsedFlags {
	flags := parsedFlags{field: f, values: map[string]flagValue{}}
	items := f.Items()
	for i := 0; i < len(items); i++ {
		item := items[i]
		name, value, hasValue := splitFlag(item.String())
		isSwitch, ok := knownFlags[plugin][name]
		if !ok {
			for _, rest := range items[i:] {
				rest.MarkDropped("the plugin has no such flag, so Volcano ignores the flag and all arguments after it",
					"check the spelling")
			}
			return flags
		}
		switch {
		case hasValue:
		case isSwitch:
			value = "true"
		case i+1 < len(items):
			i++
			value = items[i].String()
			items[i].MarkHandled() // the entry of its flag covers it
		}
		flags.values[name] = flagValue{value, item}
	}
	return flags
}

// splitFlag splits "--name=value". The name is empty for an argument that is not a flag.
func splitFlag(arg string) (name, value string, hasValue bool) {
	rest, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(rest, "-"), "=")
}

// stringOrDefault returns the value of a flag, or the plugin's default if it is absent or empty.
func (p parsedFlags) stringOrDefault(name, defaultValue string) string {
	if v, ok := p.values[name]; ok && v.text != "" {
		return v.text
	}
	return defaultValue
}

// fieldOf returns the place of a flag. The field does not exist if the flag is absent.
func (p parsedFlags) fieldOf(name string) source.Field { return p.values[name].field }

// boolOrDefault returns the value of a switch.
func (p parsedFlags) boolOrDefault(name string, defaultValue bool) bool {
	v, ok := p.values[name]
	if !ok {
		return defaultValue
	}
	b, err := strconv.ParseBool(v.text)
	if err != nil {
		v.field.MarkInvalid("must be true or false")
		return defaultValue
	}
	return b
}

// portOrDefault returns the value of a flag with a port.
func (p parsedFlags) portOrDefault(name string, defaultPort int32) int32 {
	v, ok := p.values[name]
	if !ok {
		return defaultPort
	}
	port, err := strconv.ParseInt(v.text, 0, 32)
	if err != nil || port < 1 || port > gang.MaxPort {
		v.field.MarkInvalid(fmt.Sprintf("must be a port from 1 to %d", gang.MaxPort))
		return defaultPort
	}
	return int32(port)
}
