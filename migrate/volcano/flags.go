package volcano

import (
	"strconv"
	"strings"

	"rollcall.training/migrate/ledger"
)

// flags are the arguments of one plugin, as Go's package flag reads them: one or two
// dashes, the value after "=" or as the next argument, and nothing is read any more
// after the first argument that is no flag.
type flags struct {
	plugin ledger.Node
	values map[string]flagValue
}

// flagValue is one argument, and where it stands.
type flagValue struct {
	text string
	node ledger.Node
}

// pluginFlags are the flags of each plugin that this release knows; true for those that
// need no value (volcano, pkg/controllers/job/plugins, addFlags of each).
var pluginFlags = map[string]map[string]bool{
	"env": {},
	"svc": {"publish-not-ready-addresses": true, "disable-network-policy": true, "inject-hosts-env": true},
	"ssh": {"ssh-key-file-path": false, "ssh-private-key": false, "ssh-public-key": false, "ssh-port": false, "no-root": true},
	"pytorch": {"master": false, "worker": false, "port": false, "wait-master-enabled": true, "wait-master-timeout": false,
		"wait-master-image": false},
	"tensorflow": {"ps": false, "worker": false, "chief": false, "evaluator": false, "port": false},
	"mpi":        {"master": false, "worker": false, "port": false},
	"hcclrank":   {"master": false, "worker": false},
	"ray": {"head": false, "headContainer": false, "worker": false, "workerContainer": false, "port": false,
		"dashboardPort": false, "clientPort": false},
}

// readFlags reads the arguments of a plugin. Those that Volcano does not heed are
// entered as such.
func readFlags(plugin string, n ledger.Node) flags {
	f := flags{plugin: n, values: map[string]flagValue{}}
	known := pluginFlags[plugin]
	items := n.Items()
	for i := 0; i < len(items); i++ {
		node := items[i]
		name, value, hasValue := cutFlag(node.String())
		switches, ok := known[name]
		if !ok {
			reason := "the plugin has no such flag, so Volcano reads neither it nor what follows it"
			for _, rest := range items[i:] {
				rest.Lost(reason, "see whether it is misspelt")
			}
			return f
		}
		switch {
		case hasValue:
		case switches:
			value = "true"
		case i+1 < len(items):
			i++
			value = items[i].String()
			items[i].Ignore() // accounted for with its flag
		}
		f.values[name] = flagValue{value, node}
	}
	return f
}

// cutFlag takes "--name=value" apart. The name is empty for what is no flag.
func cutFlag(arg string) (name, value string, hasValue bool) {
	rest, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(rest, "-"), "=")
}

// text is the value of a flag, or the plugin's default.
func (f flags) text(name, otherwise string) string {
	if v, ok := f.values[name]; ok && v.text != "" {
		return v.text
	}
	return otherwise
}

// node is where a flag stands; a node that does not exist when it was not given.
func (f flags) node(name string) ledger.Node { return f.values[name].node }

// given reports whether the flag is there.
func (f flags) given(name string) bool {
	_, ok := f.values[name]
	return ok
}

// truth is a switch's value.
func (f flags) truth(name string, otherwise bool) bool {
	v, ok := f.values[name]
	if !ok {
		return otherwise
	}
	b, err := strconv.ParseBool(v.text)
	if err != nil {
		v.node.Invalid("must be true or false")
		return otherwise
	}
	return b
}

// port is a port's number.
func (f flags) port(name string, otherwise int32) int32 {
	v, ok := f.values[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v.text, 0, 32)
	if err != nil || n < 1 || n > mostPort {
		v.node.Invalid("must be a port from 1 to 65535")
		return otherwise
	}
	return int32(n)
}
