package suite

import (
	"bytes"
	"fmt"
	"time"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

// Kind is the kind of a file with test cases. Nothing with this kind exists in the API of the cluster.
const Kind = "GangPolicyTest"

// Suite is a file with test cases for a policy.
type Suite struct {
	// APIVersion is [policy.APIVersion].
	APIVersion string `json:"apiVersion"`
	// Kind is [Kind].
	Kind string `json:"kind"`
	// Policy is the path of the policy file, relative to this file.
	Policy string `json:"policy"`
	// Namespaces are the labels of namespaces by name, for profiles that select them.
	Namespaces map[string]map[string]string `json:"namespaces,omitempty"`
	// Date is the day on which exemptions must hold, such as 2027-03-31. The default is today.
	Date string `json:"date,omitempty"`
	// Cases are the test cases.
	Cases []Case `json:"cases"`
}

// Case is one test case: manifests and what the webhook does with them.
type Case struct {
	// Name describes the case in a sentence.
	Name string `json:"name"`
	// Files are the paths of manifests or directories, relative to the file of the case.
	Files []string `json:"files"`
	// Update contains the manifests of the same workloads after an update. The case is then about the
	// update: only what it introduces or makes worse is a finding.
	Update []string `json:"update,omitempty"`
	// Namespace is the namespace of objects without a namespace. The default is "default".
	Namespace string `json:"namespace,omitempty"`
	// Want is the expected outcome.
	Want Want `json:"want"`
}

// Want is the expected outcome of a case. Only the fields that are set are compared.
type Want struct {
	// Admitted is true if the webhook admits all workloads. Required.
	Admitted *bool `json:"admitted"`
	// Findings are the expected findings of all workloads; [] expects none. They have no order.
	Findings *[]WantFinding `json:"findings,omitempty"`
	// Set contains the expected values of fields after admission by path, such as
	// spec.activeDeadlineSeconds. Every workload must have them.
	Set map[string]any `json:"set,omitempty"`
}

// WantFinding is an expected finding. Only the fields that are set are compared.
type WantFinding struct {
	// Rule is scope/name. Required.
	Rule string `json:"rule"`
	// Mode is the mode of the rule.
	Mode policy.Mode `json:"mode,omitempty"`
	// Field is the path of the field in the finding.
	Field string `json:"field,omitempty"`
	// Unknown is true if the workload does not show whether the gang violates the rule.
	Unknown bool `json:"unknown,omitempty"`
}

// Read reads a file with test cases strictly. The error lists all mistakes, each with its position.
func Read(source string, text []byte) (Suite, error) {
	docs, unreadable := manifest.ReadAll(source, bytes.NewReader(text))
	if len(unreadable) > 0 {
		return Suite{}, unreadable[0]
	}
	docs = manifest.OmitEmpty(docs)
	objects := manifest.ListObjects(docs)
	if len(docs) != 1 || len(objects) != 1 || objects[0].Kind != Kind || objects[0].APIVersion != policy.APIVersion {
		return Suite{}, fmt.Errorf("%s: must contain one document: %s %s", source, policy.APIVersion, Kind)
	}
	var s Suite
	unknown, err := objects[0].DecodeStrict(&s)
	if err != nil {
		return s, fmt.Errorf("%s: %w", source, err)
	}
	if len(unknown) > 0 {
		line, column := objects[0].Position(unknown[0])
		return s, fmt.Errorf("%s:%d:%d: %s: unknown field", source, line, column, unknown[0])
	}
	return s, s.validate(source, objects[0])
}

// validate returns an error for the first mistake of a suite.
func (s Suite) validate(source string, o manifest.Object) error {
	newError := func(path, message string) error {
		line, column := o.Position(path)
		return fmt.Errorf("%s:%d:%d: %s: %s", source, line, column, path, message)
	}
	if s.Policy == "" {
		return newError("policy", "is required: the path of the policy file")
	}
	if _, err := s.date(); err != nil {
		return newError("date", "must be a date, such as 2027-03-31")
	}
	if len(s.Cases) == 0 {
		return newError("cases", "is required")
	}
	names := map[string]bool{}
	for i, c := range s.Cases {
		path := fmt.Sprintf("cases[%d]", i)
		switch {
		case c.Name == "":
			return newError(path+".name", "is required")
		case names[c.Name]:
			return newError(path+".name", "is the name of an earlier case")
		case len(c.Files) == 0:
			return newError(path+".files", "is required")
		case c.Want.Admitted == nil:
			return newError(path+".want.admitted", "is required; write true or false")
		}
		names[c.Name] = true
	}
	return nil
}

// date returns the time at which exemptions must hold; zero for today.
func (s Suite) date() (time.Time, error) {
	if s.Date == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, s.Date)
}
