package vet

import "slices"

// Check is one thing to look for.
type Check struct {
	// Code names it.
	Code Code
	// Severity is that of its findings.
	Severity Severity
	// Title says in a few words what is found.
	Title string
	// Why says what it costs, and how that is known.
	Why string
	// Fix says what to do about it in general.
	Fix string

	// Each check looks at one of these.
	object   func(*input, *subject) []remark // at every object of the input
	workload func(*input, *member) []remark  // at every labelled workload that can be read
	gang     func(*input, *member) []remark  // at those of them that are gangs
}

// Checks lists all of them, in the order in which they are explained to users.
func Checks() []Check {
	return slices.Concat(
		ofInput(), ofAdmission(), ofLabels(), ofMembers(), ofServices(),
		ofVolumes(), ofMemory(), ofNames(), ofInterfaces(), ofNetworks(), ofLife(), ofImages(),
		ofRanks(), ofTorch(), ofLaunchers(),
	)
}

// Find returns the check with a code.
func Find(c Code) (Check, bool) {
	for _, check := range Checks() {
		if check.Code == c {
			return check, true
		}
	}
	return Check{}, false
}
