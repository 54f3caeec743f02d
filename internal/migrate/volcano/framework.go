package volcano

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// mxnetPattern matches programs and variables of MXNet. XGBoost reads other variables with DMLC_.
var mxnetPattern = regexp.MustCompile(`\bmxnet\b|\bDMLC_(PS_ROOT_[A-Z]+|NUM_SERVER)\b`)

// chooseFramework determines the framework by the plugin, by the user's choice or by the commands.
// Programs of no known framework form a generic gang. It returns false after it recorded a mistake.
func (r *reader) chooseFramework() bool {
	plugins := r.spec.Get("plugins")
	known := strings.Join(slices.Sorted(slices.Values(r.Context.Frameworks.Names())), ", ")
	if r.hasPlugin("ray") {
		plugins.Get("ray").MarkInvalid("Rollcall does not support Ray; keep the job in Volcano, or use KubeRay")
		return false
	}
	for _, name := range frameworkPlugins {
		if r.hasPlugin(name) {
			r.plugins[name].field.AddNote(fmt.Sprintf("the label %s: %s replaces the plugin", gang.LabelFramework, name), "")
			return r.setFramework(name)
		}
	}
	if name := r.Context.Framework; name != "" {
		if !r.setFramework(name) {
			plugins.MarkRequired(fmt.Sprintf("--framework=%s is not supported; the supported frameworks are %s", name, known))
			return false
		}
		return true
	}
	if slices.ContainsFunc(r.texts, mxnetPattern.MatchString) {
		r.spec.MarkInvalid("trains with Apache MXNet, which was retired in September 2023, and Rollcall does not " +
			"support MXNet; port the program to a maintained framework such as PyTorch, or set --framework if it is another one")
		return false
	}
	detected, evidence := ir.DetectFramework(r.Context.Frameworks, r.pods...)
	name := detected.Name
	if evidence == "" {
		name = r.Context.Frameworks.Fallback().Name
		r.spec.AddNote(fmt.Sprintf("the framework is %s, because no plugin or command belongs to a framework; every pod "+
			"gets its rank and the addresses of all roles", name),
			"for the variables of a framework, set --framework")
		return r.setFramework(name)
	}
	r.spec.AddNote(fmt.Sprintf("the framework is %s, detected from %s", name, evidence),
		"set --framework for another framework")
	return r.setFramework(name)
}

// setFramework sets the framework of the gang. It returns false if Rollcall does not support it.
func (r *reader) setFramework(name string) bool {
	framework, ok := r.Context.Frameworks.Find(name)
	r.framework, r.gang.Framework = framework, name
	return ok
}
