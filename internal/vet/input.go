package vet

import (
	"fmt"

	"rollcall.training/internal/manifest/typeerror"
)

func inputChecks() []Check {
	return []Check{
		{
			Code: CodeUnreadable, Severity: Error,
			Title: "The document is not valid YAML or JSON",
			Why: "kubectl rejects the file, and vet cannot check the document. A duplicate key is an error too, " +
				"because parsers silently use its last value. The exit code is 2.",
			Fix: "Correct the syntax on the reported line.",
		},
		{
			Code: CodeUndecodable, Severity: Error, checkObject: checkUndecodable,
			Title: "A labeled workload has a value of the wrong type",
			Why:   "The API server cannot decode the Job or StatefulSet, and rejects it.",
			Fix: "Use a value of the right type. Annotations and environment variables are strings, " +
				"so put numbers and booleans in quotes.",
		},
		{
			Code: CodeDuplicateObject, Severity: Warning, checkObject: checkDuplicateObject,
			Title: "A file contains a labeled workload twice",
			Why: "kubectl apply applies both documents in order. The second document overwrites the first, " +
				"or the API server rejects it because the pod template of a Job is immutable. " +
				"vet compares only the documents of one file, because overlays repeat names on purpose.",
			Fix: "Rename or delete one of the two workloads.",
		},
		{
			Code: CodeSuppression, Severity: Warning,
			Title: "An annotation that suppresses a check has no effect",
			Why: "The annotation `" + SuppressionPrefix + "CODE` suppresses the findings of one check on one object. " +
				"Its value is the reason. The annotation has no effect without a reason, or for a code that does not exist. " +
				"Checks that report why the webhook or the API server would reject the object cannot be suppressed. " +
				"An annotation without a finding can hide a later one, so vet reports it with the severity info.",
			Fix: "Give a reason, correct the code, or remove the annotation.",
		},
	}
}

func checkUndecodable(_ *input, o *inputObject) []issue {
	if o.decodeError == nil || o.labeled == nil {
		return nil
	}
	mismatches := typeerror.Explain(o.target.JSON, o.decodeError)
	if len(mismatches) == 0 {
		return []issue{{field: o.fieldPath(""), message: o.decodeError.Error()}}
	}
	issues := make([]issue, len(mismatches))
	for i, m := range mismatches {
		issues[i] = issue{field: o.fieldPath(m.Path), message: m.Message, fix: m.Fix}
	}
	return issues
}

func checkDuplicateObject(in *input, o *inputObject) []issue {
	first := in.findObject(o.Kind, o.namespace, o.Name)
	if o.labeled == nil || o.Name == "" || first == o || first.Document.Source != o.Document.Source {
		return nil
	}
	return []issue{{
		field: "metadata.name",
		message: fmt.Sprintf("another %s with this name is on line %d, and the later one overwrites it or is rejected",
			o.Kind, first.Line("metadata.name")),
		fix: "rename or delete one of the two",
	}}
}
