package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
)

// MemberSpec is a gang as parsed from one of its workloads. Admission sees each workload
// separately, so only the reconciler and rollcall vet can compare the workloads of a gang.
type MemberSpec struct {
	// Kind and WorkloadName identify the workload.
	Kind         gang.Kind
	WorkloadName string
	// Gang is the gang as parsed from the workload. It is not used if Problem is set.
	Gang gang.Gang
	// Problem describes why the workload cannot be parsed, and the fix; empty if it can. The text
	// continues the sentence that starts with the workload: "was admitted without Rollcall; …".
	Problem string
}

// String returns the kind and the name of the workload.
func (s MemberSpec) String() string { return string(s.Kind) + " " + s.WorkloadName }

// sharedSettings are the settings that must be the same on all members, in the order of the report.
// All other settings concern only one member. For example, only the launcher uses the number of
// slots of a host.
var sharedSettings = []struct {
	key   string
	value func(gang.Gang) string
}{
	{gang.LabelGang, func(g gang.Gang) string { return g.Name }},
	{gang.LabelFramework, func(g gang.Gang) string { return g.Framework.Name }},
	{gang.AnnotationRoles, gang.Gang.FormatRoles},
	{gang.AnnotationElastic, func(g gang.Gang) string {
		if g.Elastic == nil {
			return "no value"
		}
		return g.Elastic.String()
	}},
	{gang.AnnotationPort, func(g gang.Gang) string { return strconv.Itoa(int(g.Port)) }},
	{gang.AnnotationScheduler, func(g gang.Gang) string { return g.Placement.String() }},
	{gang.AnnotationQueue, func(g gang.Gang) string { return cmp.Or(g.Queue, "no value") }},
	{gang.AnnotationLaunch, func(g gang.Gang) string { return string(g.Launcher.Launch) }},
}

// FindConflicts returns one message for each setting that differs between the workloads of a gang,
// and for each workload that cannot be parsed. A message names the workloads, their values and the
// fix. The result does not depend on the order of specs; nil means that the workloads match. It has at
// most 20 messages, and the number of the others.
func FindConflicts(specs []MemberSpec) []string {
	specs = slices.Clone(specs)
	slices.SortFunc(specs, func(a, b MemberSpec) int {
		return cmp.Or(
			cmp.Compare(a.Gang.RankOffset, b.Gang.RankOffset),
			cmp.Compare(a.WorkloadName, b.WorkloadName),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Problem, b.Problem))
	})
	conflicts := findConflicts(specs)
	if more := len(conflicts) - maxConflicts; more > 0 {
		return append(conflicts[:maxConflicts:maxConflicts], fmt.Sprintf("and %d more", more))
	}
	return conflicts
}

// maxConflicts is the maximum number of messages that FindConflicts returns. A gang has few members, but
// anybody can create workloads with its name.
const maxConflicts = 20

func findConflicts(specs []MemberSpec) []string {
	conflicts := findDuplicateNames(specs)
	var parsed []MemberSpec
	for _, s := range specs {
		if s.Problem != "" {
			conflicts = append(conflicts, fmt.Sprintf("the %s %s", s, s.Problem))
			continue
		}
		parsed = append(parsed, s)
	}
	for _, setting := range sharedSettings {
		distinct := map[string]bool{}
		var values []string
		for _, s := range parsed {
			value := setting.value(s.Gang)
			distinct[value] = true
			values = append(values, fmt.Sprintf("the %s has %s", s, value))
		}
		if len(distinct) <= 1 {
			continue
		}
		conflicts = append(conflicts, fmt.Sprintf(
			"%s: conflicting values: %s; set the same value on all members, and recreate existing Jobs",
			setting.key, strings.Join(values, ", ")))
		if setting.key == gang.LabelFramework {
			break // the other settings depend on the framework
		}
	}
	return conflicts
}

// findDuplicateNames reports a Job and a StatefulSet with the same name. Their pods would have the
// same ranks and addresses.
func findDuplicateNames(specs []MemberSpec) []string {
	isStatefulSet := map[string]bool{}
	for _, s := range specs {
		isStatefulSet[s.WorkloadName] = isStatefulSet[s.WorkloadName] || s.Kind == gang.StatefulSet
	}
	var conflicts []string
	for _, s := range specs {
		if s.Kind == gang.Job && isStatefulSet[s.WorkloadName] {
			conflicts = append(conflicts, fmt.Sprintf(
				"a Job and a StatefulSet are both named %s, so their pods would have the same ranks; delete one of the two",
				s.WorkloadName))
		}
	}
	return conflicts
}
