package volcano

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// frameworkPlugins are the plugins that set up a framework. Rollcall's framework has the same name.
var frameworkPlugins = []string{"pytorch", "tensorflow", "mpi"}

// frameworkHint has the words in a manifest that suggest a framework and its roles.
type frameworkHint struct {
	framework string
	// roleAliases maps words in the names of tasks to roles, in addition to the roles' own names.
	roleAliases map[string]string
	// commandPattern matches commands and variables of the framework.
	commandPattern *regexp.Regexp
	// fallbackPattern matches variables that other frameworks read too. It is used if no
	// commandPattern matches. Nil means none.
	fallbackPattern *regexp.Regexp
}

var (
	masterAliases = map[string]string{
		"chief": roleMaster, "head": roleMaster, "leader": roleMaster, "scheduler": roleMaster, "tracker": roleMaster,
	}
	launcherAliases = map[string]string{
		"master": gang.RoleLauncher, "head": gang.RoleLauncher, "driver": gang.RoleLauncher, "main": gang.RoleLauncher,
	}
)

// frameworkHints are in the order in which their patterns are tried: a launcher comes before the
// programs that it starts.
var frameworkHints = []frameworkHint{
	{framework: "horovod", roleAliases: launcherAliases, commandPattern: regexp.MustCompile(`\bhorovodrun\b`)},
	{
		framework: "deepspeed", roleAliases: launcherAliases,
		commandPattern: regexp.MustCompile(`(?m)(^|[\s;&|/])deepspeed\s`),
	},
	{framework: "mpi", roleAliases: launcherAliases, commandPattern: regexp.MustCompile(`\b(mpirun|mpiexec)\b`)},
	{
		framework: "pytorch", roleAliases: masterAliases,
		commandPattern:  regexp.MustCompile(`\btorchrun\b|\btorch\.distributed\b|\bPET_[A-Z]`),
		fallbackPattern: regexp.MustCompile(`\bMASTER_ADDR\b|\bWORLD_SIZE\b`),
	},
	{
		framework: "tensorflow", commandPattern: regexp.MustCompile(`\bTF_CONFIG\b`),
		roleAliases: map[string]string{"server": "ps", "pserver": "ps", "parameter-server": "ps", "eval": "evaluator"},
	},
	{
		framework: "paddle", commandPattern: regexp.MustCompile(`\bpaddle\.distributed\b|\bPADDLE_[A-Z]`),
		roleAliases: map[string]string{
			"ps": roleMaster, "server": roleMaster, "pserver": roleMaster, "trainer": roleWorker,
		},
	},
	{
		framework:      "jax",
		commandPattern: regexp.MustCompile(`\bJAX_(COORDINATOR|NUM_PROCESSES|PROCESS_ID)|\bjax\.distributed\b`),
	},
	{framework: "xgboost", roleAliases: masterAliases, commandPattern: regexp.MustCompile(`\bxgboost\b|\bDMLC_[A-Z]`)},
	{framework: "lightgbm", roleAliases: masterAliases, commandPattern: regexp.MustCompile(`\blightgbm\b`)},
}

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
	name, match := detectFramework(r.texts)
	if name == "" {
		r.spec.AddNote(fmt.Sprintf("the framework is %s, because no plugin or command belongs to a framework; every pod "+
			"gets its rank and the addresses of all roles", ir.GenericFramework),
			"for the variables of a framework, set --framework")
		return r.setFramework(ir.GenericFramework)
	}
	r.spec.AddNote(fmt.Sprintf("the framework is %s, because the manifest contains %q", name, match),
		"set --framework for another framework")
	return r.setFramework(name)
}

// setFramework sets the framework of the gang. It returns false if Rollcall does not support it.
func (r *reader) setFramework(name string) bool {
	framework, ok := r.Context.Frameworks.Find(name)
	r.framework, r.gang.Framework = framework, name
	return ok
}

// detectFramework returns the framework that the texts of a manifest suggest, and the text that did.
// Both are empty if there is none.
func detectFramework(texts []string) (framework, match string) {
	find := func(pattern *regexp.Regexp) string {
		for _, text := range texts {
			if match := pattern.FindString(text); match != "" {
				return strings.Trim(match, " \t\n;&|/")
			}
		}
		return ""
	}
	for _, hint := range frameworkHints {
		if match := find(hint.commandPattern); match != "" {
			return hint.framework, match
		}
	}
	for _, hint := range frameworkHints {
		if hint.fallbackPattern == nil {
			continue
		}
		if match := find(hint.fallbackPattern); match != "" {
			return hint.framework, match
		}
	}
	return "", ""
}

// inferRole returns the role of a task by the words in its name, or "".
func inferRole(framework gang.Framework, taskName string) string {
	var aliases map[string]string
	for _, hint := range frameworkHints {
		if hint.framework == framework.Name {
			aliases = hint.roleAliases
		}
	}
	name := strings.ToLower(taskName)
	for _, prefix := range []string{framework.Name, "tf", "torch"} {
		name = strings.TrimLeft(strings.TrimPrefix(name, prefix), "-")
	}
	for _, word := range append([]string{name}, strings.Split(name, "-")...) {
		if _, ok := framework.FindRole(word); ok {
			return word
		}
		if role, ok := aliases[word]; ok {
			return role
		}
	}
	return ""
}
