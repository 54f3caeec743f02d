package vet

import "slices"

// checkOtherWarnings reports the warnings of the webhook that no other check reports.
func checkOtherWarnings(in *input, w *labeledWorkload) []issue {
	return slices.DeleteFunc(checkAdmissionWarnings(in, w), func(i issue) bool {
		return i.field == defaultContainerPath || i.field == containersPath
	})
}

// checkOverriddenDefaults reports the advice of the webhook about values that work.
func checkOverriddenDefaults(_ *input, w *labeledWorkload) []issue { return admissionIssues(w, true) }
