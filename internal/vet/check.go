package vet

import (
	"cmp"
	_ "embed" // for the texts of the checks
	"fmt"
	"strings"
	"sync"

	"rollcall.training/internal/text"
)

// Code identifies a check. Codes are stable: they are never renamed and never reused.
type Code string

// Codes that other code refers to. checks.md contains all codes.
const (
	CodeUnreadable             Code = "Unreadable"
	CodeUndecodable            Code = "Undecodable"
	CodeSuppression            Code = "Suppression"
	CodeDenied                 Code = "Denied"
	CodeUnknownField           Code = "UnknownField"
	CodePolicyViolated         Code = "PolicyViolated"
	CodeWrongTrainingContainer Code = "WrongTrainingContainer"
	CodeLoopbackRendezvous     Code = "LoopbackRendezvous"
	CodeUnresolvableRendezvous Code = "UnresolvableRendezvous"
	CodeHardcodedRank          Code = "HardcodedRank"
	CodeLauncherFlagConflict   Code = "LauncherFlagConflict"
	CodeWorkerWithoutSSHD      Code = "WorkerWithoutSSHD"
	CodeSSHPortMismatch        Code = "SSHPortMismatch"
)

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
}

// objectChecks run on every object of the input. They report paths in that object.
var objectChecks = map[Code]func(*reporter, *inputObject){
	"Undecodable":      checkUndecodable,
	"DuplicateObject":  checkDuplicateObject,
	"TemplateVariable": checkTemplateVariables,
	"LabelMisspelled":  checkLabelMisspelled,
	"LabelMisplaced":   checkLabelMisplaced,
	"LabelMissing":     checkLabelMissing,
	"KindUnsupported":  checkKindUnsupported,

	"LauncherWithoutLabel": checkLauncherWithoutLabel,
}

// workloadChecks run on every labeled workload that could be decoded. They report paths in the workload, which
// differ from those in the object for the Job of a CronJob.
var workloadChecks = map[Code]func(*reporter, *labeledWorkload){
	"InvalidPodTemplate":     checkPodTemplate,
	"Denied":                 checkDenied,
	"AdmissionWarning":       reportWarnings("AdmissionWarning"),
	"DefaultOverridden":      reportWarnings("DefaultOverridden"),
	"UnknownField":           checkUnknownFields,
	"WrongTrainingContainer": reportWarnings(CodeWrongTrainingContainer),
	"TrainingContainerFound": reportWarnings("TrainingContainerFound"),
}

// gangChecks run on every labeled workload that could be parsed as a gang. They report paths in the workload,
// like workloadChecks.
var gangChecks = map[Code]func(*reporter, *labeledWorkload){
	"PodRestartPolicy":       checkPodRestartPolicy,
	"ExtendedResource":       checkExtendedResources,
	"PolicyViolated":         checkPolicy,
	"SidecarNeverExits":      checkSidecarNeverExits,
	"MemberConflict":         checkMemberConflict,
	"MembersMissing":         checkMembersMissing,
	"GangNameShared":         checkGangNameShared,
	"ServiceNotNeeded":       checkServiceNotNeeded,
	"ServiceConflict":        checkServiceConflict,
	"NoCheckpointVolume":     checkCheckpointVolume,
	"VolumeNotReadWriteMany": checkVolumeNotReadWriteMany,
	"ShmExceedsMemory":       checkShmExceedsMemory,
	"ShmWithoutSizeLimit":    checkShmWithoutSizeLimit,
	"NoMemoryLimit":          checkMemoryLimit,
	"FewCPUs":                checkFewCPUs,
	"NodeInterface":          checkNodeInterface,
	"HostNetworkPort":        checkHostNetworkPort,
	"ServiceMesh":            checkServiceMesh,
	"DeadlineBeforeStart":    checkDeadlineBeforeStart,
	"ProgressFileReadOnly":   checkProgressFile,
	"UnknownProgressGroup":   checkProgressGroups,
	"BackoffLimitZero":       checkBackoffLimitZero,
	"NeverRestarts":          checkNeverRestarts,
	"DisruptionsFailJob":     checkDisruptionsFailJob,
	"FailJobOnExitCode":      checkFailJobOnExitCode,
	"MutableImageTag":        checkMutableImageTag,
	"LoopbackRendezvous":     checkLoopbackRendezvous,
	"UnresolvableRendezvous": checkUnresolvableRendezvous,
	"HardcodedRank":          checkHardcodedRank,
	"LauncherFlagConflict":   checkLauncherFlagConflict,
	"SingleProcessCommand":   checkSingleProcessCommand,
	"ElasticWithoutTorchrun": checkElasticWithoutTorchrun,
	"LauncherWithoutHosts":   checkLauncherWithoutHosts,
	"WorkerWithoutSSHD":      checkWorkerWithoutSSHD,
	"SSHPortMismatch":        checkSSHPort,
	"TooManyProcesses":       checkTooManyProcesses,
	"IdleSlots":              checkIdleSlots,
}

//go:embed checks.md
var checksText string

// Checks returns all checks in the order of the documentation. The result must not be changed.
var Checks = sync.OnceValue(func() []Check {
	var checks []Check
	for _, section := range strings.Split(checksText, "\n## ")[1:] {
		paragraphs := strings.Split(section, "\n\n")
		for i := range paragraphs {
			paragraphs[i] = text.JoinLines(paragraphs[i])
		}
		severity, title, _ := strings.Cut(paragraphs[1], ": ")
		checks = append(checks, Check{
			Code: Code(paragraphs[0]), Severity: Severity(severity), Title: title, Why: paragraphs[2],
			Fix: strings.TrimPrefix(paragraphs[3], "Fix: "),
		})
	}
	return checks
})

// Codes returns the codes of all checks in the order of the documentation.
func Codes() []string {
	var codes []string
	for _, check := range Checks() {
		codes = append(codes, string(check.Code))
	}
	return codes
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

// reporter collects the mistakes that a check finds in an object of the input. The findings have neither a code nor a
// position, and only those whose severity differs from that of the check have a severity.
type reporter struct {
	*input
	findings []Finding
}

// add reports a mistake.
func (r *reporter) add(field, fix, format string, args ...any) {
	r.addWithSeverity("", field, fix, format, args...)
}

// addWithSeverity reports a mistake with a severity that differs from that of the check. The zero value is that
// of the check.
func (r *reporter) addWithSeverity(severity Severity, field, fix, format string, args ...any) {
	r.findings = append(r.findings, Finding{
		Field: field, Fix: fix, Severity: severity, Message: fmt.Sprintf(format, args...),
	})
}

// run runs the check on an object if the check applies to it. It returns complete findings.
func (c Check) run(in *input, o *inputObject) []Finding {
	r, w := &reporter{input: in}, o.labeled
	check, readsObject := objectChecks[c.Code]
	if readsObject {
		check(r, o)
	}
	if check, ok := workloadChecks[c.Code]; ok && w != nil && o.decodeError == nil {
		check(r, w)
	}
	if check, ok := gangChecks[c.Code]; ok && w != nil && w.gang != nil {
		check(r, w)
	}
	for i, f := range r.findings {
		if !readsObject {
			f.Field = o.fieldPath(f.Field)
		}
		r.findings[i] = c.complete(f, o)
	}
	return r.findings
}

// complete returns a finding of the check on an object with its code, severity and position.
func (c Check) complete(f Finding, o *inputObject) Finding {
	f.Code, f.Severity = c.Code, cmp.Or(f.Severity, c.Severity)
	f.Source, f.Document, f.Line = o.Document.Source, o.Document.Number, o.Line(f.Field)
	f.Object, f.Namespace = o.displayName(), o.namespace
	return f
}
