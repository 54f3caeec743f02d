package migrate

import (
	"slices"
	"strings"

	"rollcall.training/internal/vet"
)

// blockingWarnings are the warnings of vet with which a gang starts and does not train: the ranks do not
// find each other, or train separately.
var blockingWarnings = []vet.Code{
	vet.CodeHardcodedRank, vet.CodeLoopbackRendezvous, vet.CodeSSHPortMismatch, vet.CodeLauncherFlagConflict,
	vet.CodeUnresolvableRendezvous, vet.CodeWorkerWithoutSSHD, vet.CodeWrongTrainingContainer,
}

// addFindings runs the checks of rollcall vet on the output, and adds what prevents a migrated gang from
// training to its report.
func (m *migration) addFindings() {
	found := vet.Run(m.result.Documents, nil, vet.Options{Engine: m.newEngine(), Namespace: m.Namespace})
	for _, f := range found.Findings {
		if f.Severity != vet.Error && !slices.Contains(blockingWarnings, f.Code) {
			continue
		}
		i := slices.IndexFunc(m.result.Reports, func(r Report) bool {
			return r.Source == f.Source && r.Document == f.Document && !r.Failed() && slices.ContainsFunc(r.Outputs,
				func(output string) bool { return isOutput(output, f.Object) })
		})
		if i >= 0 {
			m.result.Reports[i].Findings = append(m.result.Reports[i].Findings, Finding{
				Code: f.Code, Object: f.Object, Field: f.Field, Message: f.Message, Fix: f.Fix,
			})
		}
	}
}

// isOutput reports whether the name of an output, such as job.batch/train, is that of a finding's
// object, such as job/train.
func isOutput(output, object string) bool {
	kind, name, _ := strings.Cut(output, "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind+"/"+name == object
}
