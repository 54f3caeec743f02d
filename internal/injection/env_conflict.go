package injection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/text"
	"rollcall.training/plan"
)

// envConflict is a variable of the user that differs from the planned variable.
type envConflict struct {
	comparer  *envComparer
	container *container
	// index is the position of the variable in the container.
	index   int
	planned *plan.Env
}

func (c envConflict) path() *field.Path { return c.container.path.Child("env").Index(c.index) }

func (c envConflict) value() gang.EnvValue { return c.comparer.user[c.index] }

// reportEnv reports what happens to a variable of the user.
func (a *applier) reportEnv(o outcome, r relation, c envConflict) {
	if o == keep || o == write {
		return
	}
	e, existing := c.planned, &c.container.Env[c.index]
	path, what, text := c.path().Child("value"), "value", existing.Value
	if existing.ValueFrom != nil {
		path, what = c.path().Child("valueFrom"), "source"
	}
	switch {
	case o == deny:
		if existing.ValueFrom != nil {
			text = c.value().Text
		}
		detail, fix := a.explainConflict(c)
		a.deny(field.Invalid(path, text, detail), fix)
	case o == warn && r != different:
		a.remark(o, path, "%s: keeping your %s, whose result is not known at admission; Rollcall would set %s",
			e.Name, what, formatEnvValue(&e.EnvVar))
	default:
		a.remark(o, c.path(), "%s: keeping your value; Rollcall would set %s", e.Name, formatEnvValue(&e.EnvVar))
	}
}

// explainConflict returns the required value of a variable and the remedy.
func (a *applier) explainConflict(c envConflict) (detail string, fix gang.Fix) {
	e, text := c.planned, c.value().Text
	if roles, other := a.suggestRoles(c); roles != "" {
		return fmt.Sprintf("%s must be %s for a gang of only this workload; for a gang of this workload and %s, "+
				"set the annotation %s: %q on both", e.Name, formatEnvValue(&e.EnvVar), other, gang.AnnotationRoles, roles),
			gang.NewAnnotationFix(a.workload, gang.AnnotationRoles, roles)
	}
	if a.isSeparateJob(c) {
		return a.explainSeparateJob(c)
	}
	processes := processesOfWorld(a.gang, text)
	if e.Meaning == plan.WorldSize && processes > 0 && !a.gang.Processes.Explicit {
		number := strconv.FormatInt(processes, 10)
		return fmt.Sprintf("%s is the number of pods (%d) here; for %s processes in each pod, set the annotation %s: %q",
			e.Name, a.gang.Size, number, gang.AnnotationNprocPerNode, number,
		), gang.NewAnnotationFix(a.workload, gang.AnnotationNprocPerNode, number)
	}
	detail = e.Name + " must be " + formatEnvValue(&e.EnvVar) + " for this gang"
	switch reason := a.explainAddress(e, text); {
	case reason != "":
		detail += ", but " + reason
	case a.old.Has(KindEnv, c.container.Name, e.Name):
		detail += ", but was changed after Rollcall injected it"
	}
	detail += "; remove the entry"
	if e.Fix != "" {
		detail += ", or " + e.Fix
	}
	return detail, gang.NewRemoveFix(c.path())
}

// explainAddress returns why an address cannot be the address of rank 0, if the reason is certain.
func (a *applier) explainAddress(e *plan.Env, text string) string {
	host, _, _ := strings.Cut(text, ":")
	switch {
	case e.Meaning != plan.Address:
		return ""
	case strings.HasPrefix(text, "<"):
		return strings.Trim(text, "<>") + " is different in each pod"
	case a.gang.NamesService(host):
		return "the name of the Service resolves to all pods"
	case host == "localhost" || host == "127.0.0.1":
		return "each pod would connect to itself"
	}
	return ""
}

// isSeparateJob reports whether the workload seems to be one of several Jobs of one pod that their author
// starts as one gang, each with its own rank. A rank above 0, or any rank next to a larger world, indicates
// them.
func (a *applier) isSeparateJob(c envConflict) bool {
	isRankOrSize := slices.Contains([]plan.Meaning{plan.Rank, plan.WorldSize, plan.PodCount}, c.planned.Meaning)
	if a.workload.Job == nil || a.gang.Size != 1 || !isRankOrSize {
		return false
	}
	ranks, sizes := a.literalNumbers(c, plan.Rank), a.literalNumbers(c, plan.WorldSize, plan.PodCount)
	return len(ranks) > 0 && (slices.Max(ranks) > 0 || len(sizes) > 0 && slices.Max(sizes) > 1)
}

// explainSeparateJob returns the remedy for several Jobs of one pod.
func (a *applier) explainSeparateJob(c envConflict) (detail string, fix gang.Fix) {
	const reason = "the gang of this Job has 1 pod; instead of one Job for each rank, create one Job with " +
		"parallelism and completions "
	sizes := a.literalNumbers(c, plan.WorldSize, plan.PodCount)
	if len(sizes) == 0 {
		return reason + "equal to the number of ranks, without " + c.planned.Name, nil
	}
	spec, pods := field.NewPath("spec"), slices.Max(sizes)
	return fmt.Sprintf("%s%d, without %s", reason, pods, c.planned.Name), slices.Concat(
		gang.NewSetFix(spec.Child("parallelism"), pods),
		gang.NewSetFix(spec.Child("completions"), pods),
		gang.NewRemoveFix(c.path()))
}

// literalNumbers returns the numbers of the container's variables with one of the meanings.
func (a *applier) literalNumbers(c envConflict, meanings ...plan.Meaning) []int64 {
	var numbers []int64
	byName := indexEnv(a.plan.Env)
	for i := range c.container.Env {
		planned := byName[c.container.Env[i].Name]
		if planned == nil || !slices.Contains(meanings, planned.Meaning) {
			continue
		}
		n, err := strconv.ParseInt(c.comparer.user[i].Text, 10, 32)
		if err == nil && n >= 0 && n <= gang.MaxPods {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// suggestRoles returns the value of [gang.AnnotationRoles] for a workload that seems to be one of two
// workloads of a gang, and the name of the other: train-worker next to train-master, or the reverse. Both are empty
// without an indication: an address in the other workload, or a world size that includes its pods.
func (a *applier) suggestRoles(c envConflict) (roles, other string) {
	single, many, workload := a.gang.Framework.LeaderRole(), a.gang.Framework.DefaultRole, a.gang.WorkloadName
	if single == "" || len(a.gang.Members) > 1 {
		return "", ""
	}
	world, err := strconv.ParseInt(c.value().Text, 10, 32)
	isWorldSize := c.planned.Meaning == plan.WorldSize && err == nil && world <= gang.MaxPods
	format := func(workers int64) string { return fmt.Sprintf("%s=1,%s=%d", single, many, workers) }
	if gangName, isLeader := strings.CutSuffix(workload, "-"+single); isLeader {
		if isWorldSize && a.gang.Size == 1 && world > 1 {
			return format(world - 1), gang.MemberName(gangName, many)
		}
		return "", ""
	}
	gangName, isWorker := strings.CutSuffix(workload, "-"+many)
	other, workers := gang.MemberName(gangName, single), int64(a.gang.Size)
	isOtherHost := c.planned.Meaning == plan.Address && strings.HasPrefix(c.value().Text, other)
	if isWorker && (isWorldSize && world == workers+1 || isOtherHost) {
		return format(workers), other
	}
	return "", ""
}

// formatEnvValue returns the value of a variable for a message.
func formatEnvValue(e *corev1.EnvVar) string {
	if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
		return "the field " + e.ValueFrom.FieldRef.FieldPath
	}
	return `"` + shortenValue(e.Value) + `"`
}

// shortenValue returns the beginning of a value for a message. The API server truncates warnings after
// 256 characters.
func shortenValue(value string) string { return text.Shorten(value, 80+len("…")) }
