package vet

import "slices"

// Check finds one kind of mistake.
type Check struct {
	// Code identifies the check.
	Code Code
	// Severity is the severity of all findings of the check.
	Severity Severity
	// Title describes the mistake in a few words, without a final period.
	Title string
	// Why explains the consequences in full sentences and cites the source of the rule.
	Why string
	// Fix describes the remedy in full sentences.
	Fix string

	// At most one of the following functions is set. CodeUnreadable has none, because a document
	// that cannot be parsed has no objects.

	// checkObject runs on every object of the input. It returns paths in that object.
	checkObject func(*input, *inputObject) []issue
	// checkWorkload runs on every labeled workload that could be decoded. It returns paths in the
	// workload, which differ from those in the object for the Job of a CronJob.
	checkWorkload func(*input, *labeledWorkload) []issue
	// checkGang runs on every labeled workload that could be parsed as a gang. It returns paths in
	// the workload, like checkWorkload.
	checkGang func(*input, *labeledWorkload) []issue
}

// Checks returns all checks in the order of the documentation. The caller owns the slice.
func Checks() []Check {
	return slices.Concat(
		inputChecks(),
		templateChecks(),
		admissionChecks(),
		policyChecks(),
		labelChecks(),
		containerChecks(),
		sidecarChecks(),
		memberChecks(),
		serviceChecks(),
		volumeChecks(),
		memoryChecks(),
		nameChecks(),
		interfaceChecks(),
		networkChecks(),
		lifecycleChecks(),
		imageChecks(),
		rankChecks(),
		launcherFlagChecks(),
		processChecks(),
		launcherHostChecks(),
		launcherChecks(),
	)
}

// FindCheck returns the check with the given code. It returns false if the code does not exist.
func FindCheck(code Code) (Check, bool) {
	for _, check := range Checks() {
		if check.Code == code {
			return check, true
		}
	}
	return Check{}, false
}
