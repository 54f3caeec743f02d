package vet

import (
	"regexp"
	"slices"
	"strconv"
)

// variablePath matches the paths of variables of containers in the warnings of the webhook. Rollcall
// warns about a variable if the workload overrides its default.
var variablePath = regexp.MustCompile(`^spec\.template\.spec\.containers\[([0-9]+)\]\.env\[([0-9]+)\]$`)

// checkOtherWarnings reports the warnings of the webhook, except those of checkOverriddenDefaults.
func checkOtherWarnings(in *input, w *labeledWorkload) []issue {
	return slices.DeleteFunc(checkAdmissionWarnings(in, w), func(i issue) bool {
		return variablePath.MatchString(i.field)
	})
}

func checkOverriddenDefaults(in *input, w *labeledWorkload) []issue {
	return slices.DeleteFunc(checkAdmissionWarnings(in, w), func(i issue) bool {
		return !variablePath.MatchString(i.field) || w.enablesUnbufferedOutput(i.field)
	})
}

// enablesUnbufferedOutput reports whether the variable at a path is PYTHONUNBUFFERED with a value.
// Python accepts any value (docs.python.org, command line and environment), so all values mean the
// same as the default of Rollcall.
func (w *labeledWorkload) enablesUnbufferedOutput(path string) bool {
	indexes := variablePath.FindStringSubmatch(path)
	containers := w.admitted.Template().Spec.Containers
	container, err := strconv.Atoi(indexes[1])
	if err != nil || container >= len(containers) {
		return false
	}
	variable, err := strconv.Atoi(indexes[2])
	if err != nil || variable >= len(containers[container].Env) {
		return false
	}
	e := containers[container].Env[variable]
	return e.Name == "PYTHONUNBUFFERED" && e.Value != ""
}
