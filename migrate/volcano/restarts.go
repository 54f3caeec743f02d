package volcano

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// fate is what becomes of the gang when something goes wrong in one of its tasks.
type fate struct {
	// failure, and eviction, are about pods that failed, and pods that were taken away.
	failure, eviction effect
	// codes are what exit codes of their own have.
	codes map[int32]effect
	// said is true where a policy speaks of failures, and false where the pods' own
	// restart policy decides.
	said bool
}

// fateOf reads the policies for a task. Without one, Volcano leaves a pod that failed as
// it is, which ends the job when all others have ended, and a container that is to be
// restarted to the kubelet; a pod that was evicted it makes anew.
func (r *reader) fateOf(t task, policy corev1.RestartPolicy) fate {
	f := fate{failure: effectOf(r.reaction(t, podFailed)), eviction: effectOf(r.reaction(t, podEvicted)), codes: map[int32]effect{}}
	for code, action := range r.reactions(t) {
		if e := effectOf(action); e != nothing {
			f.codes[code] = e
		}
	}
	f.said = f.failure != nothing
	if !f.said && policy == corev1.RestartPolicyNever {
		f.failure = ends
	} else if !f.said {
		f.failure = restarts
	}
	return f
}

// restarts decides whether and when the gang restarts. Volcano decides for each task, and
// a gang restarts as a whole: where it does for one cause and not for another, the gang's
// final exit codes tell them apart, or the Job's podFailurePolicy where they cannot.
func (r *reader) restarts() {
	fates := make([]fate, len(r.tasks))
	some := false
	for i, t := range r.tasks {
		fates[i] = r.fateOf(t, r.blueprint.Roles[i].Template.Spec.RestartPolicy)
		f := fates[i]
		some = some || f.failure == restarts || f.eviction == restarts || slices.Contains(slices.Collect(maps.Values(f.codes)), restarts)
	}
	if !some {
		r.set(gang.AnnotationRestartPolicy, string(gang.RestartNever))
	}
	if some {
		r.finalCodes(fates)
	}
	for i := range r.tasks {
		role := &r.blueprint.Roles[i]
		former := role.Template.Spec.RestartPolicy
		if some {
			r.failurePolicy(role, fates[i])
		} else {
			role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		r.restartPolicy(role, fates[i], former)
	}
	r.maxRetry()
}

// never reports whether nothing restarts the gang.
func (r *reader) never() bool {
	return r.blueprint.Keys[gang.AnnotationRestartPolicy] == string(gang.RestartNever)
}

// restartPolicy accounts for what the pods themselves say.
func (r *reader) restartPolicy(role *blueprint.Role, f fate, former corev1.RestartPolicy) {
	n, to := role.Node.At("spec", "restartPolicy"), "annotation "+gang.AnnotationRestartPolicy
	set, told := role.Set && r.blueprint.OnlyJob(*role) == "", f.said || len(f.codes) > 0
	switch {
	case set && told && former == corev1.RestartPolicyAlways: // and stays so
	case set && told:
		n.Changed("Always", "the only one that a StatefulSet has; what the policies say decides when a rank fails", "")
	case former != corev1.RestartPolicyNever && role.Template.Spec.RestartPolicy == corev1.RestartPolicyNever:
		n.Changed("Never", "the policies speak of pods that fail, and a pod whose containers are restarted never does", "")
	case f.said && former == corev1.RestartPolicyAlways:
		n.Changed("OnFailure", "a rank that ends well has ended", "")
	case told: // the policies decide, and the field is carried with its template
	case role.Template.Spec.RestartPolicy != corev1.RestartPolicyNever:
		n.Changed(to+": gang, its default", "Volcano leaves a container that fails to the kubelet, and its peers hang or fail; Rollcall restarts all ranks together",
			"set "+gang.AnnotationRestartPolicy+": pod for the former way")
	case r.never():
		n.Changed(to+": never", "without a policy Volcano leaves a pod that failed as it is, and its peers hang or fail; Rollcall ends the gang at once, and at an eviction too",
			"remove the annotation to restart all ranks together")
	default:
		n.Changed(to+": gang, its default", "without a policy Volcano leaves a pod that failed as it is, and its peers hang or fail; Rollcall restarts all ranks together, as for what the policies speak of", "")
	}
}

// finalCodes writes down the exit codes after which the gang does not restart, where they
// are the same for all tasks: a gang has one list, and it counts for whichever rank falls
// first. A pod that is taken away falls by no exit code (docs/adr/0017).
func (r *reader) finalCodes(fates []fate) {
	codes := fates[0].finalCodes()
	if len(codes) == 0 || slices.ContainsFunc(fates, func(f fate) bool { return !slices.Equal(f.finalCodes(), codes) }) {
		return
	}
	r.set(gang.AnnotationFinalCodes, ranges(codes))
}

// finalCodes are the exit codes that end the gang, sorted.
func (f fate) finalCodes() []int32 {
	if !f.final() {
		return f.with(ends)
	}
	var out []int32
	for code := int32(1); code <= highestCode; code++ {
		if f.codes[code] != restarts {
			out = append(out, code)
		}
	}
	return out
}

// highestCode is the largest exit code.
const highestCode = 255

// final reports whether failures end the gang that no exit code of their own excepts. A
// failure that no policy speaks of is a cause like the others: nobody wished its end.
func (f fate) final() bool { return f.failure == ends && (f.said || len(f.codes) > 0) }

// ranges writes sorted codes as the annotation has them: 1-2,4-255.
func ranges(codes []int32) string {
	var out []string
	for i := 0; i < len(codes); {
		last := i
		for last+1 < len(codes) && codes[last+1] == codes[last]+1 {
			last++
		}
		text := fmt.Sprint(codes[i])
		if last > i {
			text += fmt.Sprintf("-%d", codes[last])
		}
		out, i = append(out, text), last+1
	}
	return strings.Join(out, ",")
}

// failurePolicy tells the causes apart for which a gang that restarts for others ends, as
// far as its final exit codes do not.
func (r *reader) failurePolicy(role *blueprint.Role, f fate) {
	var rules []batchv1.PodFailurePolicyRule
	coded := len(f.finalCodes()) > 0
	byGang := r.blueprint.Keys[gang.AnnotationFinalCodes] != ""
	switch {
	case f.eviction == ends:
		rules = append(rules, disruption(batchv1.PodFailurePolicyActionFailJob))
	case f.final() && !byGang:
		rules = append(rules, disruption(batchv1.PodFailurePolicyActionIgnore))
	}
	switch {
	case !coded || byGang:
	case f.final():
		rules = append(rules, exits(batchv1.PodFailurePolicyOnExitCodesOpNotIn, append(f.with(restarts), stopped...)))
	default:
		rules = append(rules, exits(batchv1.PodFailurePolicyOnExitCodesOpIn, f.with(ends)))
	}
	if coded || len(rules) > 0 {
		role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever // the API server takes no policy without
	}
	if len(rules) == 0 {
		return
	}
	role.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	role.OnlyJob = "podFailurePolicy is for Jobs"
	if coded && !byGang {
		role.Node.Note("parts of the gang differ in what exit codes mean, so spec.podFailurePolicy tells them; all ranks are stopped for a restart, and one that ends with a code of its own then, which is final there, ends the gang",
			"remove spec.podFailurePolicy to restart after each failure, up to "+gang.AnnotationMaxRestarts+"; or set "+gang.AnnotationFinalCodes+", which looks at the rank that fell first alone, and is one for all parts")
	}
}

// stopped are the codes that do not tell a failure: none, and those of the signals by
// which a pod is stopped, as all ranks are before they restart. The Job controller looks
// at those too (kubernetes, pkg/controller/job, getFailJobMessage).
var stopped = []int32{0, 128 + 9, 128 + 15}

// with are the exit codes of an effect, sorted.
func (f fate) with(e effect) []int32 {
	var out []int32
	for code, have := range f.codes {
		if have == e {
			out = append(out, code)
		}
	}
	slices.Sort(out)
	return out
}

// disruption is the rule for pods that were taken away.
func disruption(a batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}
}

func exits(op batchv1.PodFailurePolicyOnExitCodesOperator, codes []int32) batchv1.PodFailurePolicyRule {
	slices.Sort(codes)
	codes = slices.Compact(codes)
	return batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: op, Values: codes}}
}

// maxRetry carries how often the gang restarts.
func (r *reader) maxRetry() {
	n := r.spec.Get("maxRetry")
	switch v := ptr.Deref(n.Int32(), 0); {
	case v == 0:
		n.Ignore() // the default of 3, which Rollcall has too
	case r.never():
		n.Changed("", "left out: nothing restarts this gang", "")
	default:
		r.set(gang.AnnotationMaxRestarts, fmt.Sprint(restartsOf(v)))
		n.Changed("annotation "+gang.AnnotationMaxRestarts,
			fmt.Sprintf("Volcano fails the job instead of restart %d; Rollcall restarts it that often, and counts ranks that fail together once", v), "")
	}
	for _, t := range r.tasks {
		r.taskRetry(t)
	}
}

// taskRetry carries how often the containers of a task are restarted before the event
// TaskFailed.
func (r *reader) taskRetry(t task) {
	n := t.node.Get("maxRetry")
	switch v := ptr.Deref(n.Int32(), 0); {
	case v == 0 || v == defaultRetry && r.reaction(t, taskFailed) == "":
		n.Ignore() // what Volcano's webhook writes
	case r.never() || r.reaction(t, taskFailed) == "":
		n.Changed("", "left out: it counts for the event TaskFailed alone, about which no policy says a word", "")
	case r.blueprint.Keys[gang.AnnotationMaxRestarts] != "":
		n.Lost("a gang has one number of restarts, and another field gave it", "choose it with "+gang.AnnotationMaxRestarts)
	default:
		r.set(gang.AnnotationMaxRestarts, fmt.Sprint(restartsOf(v)))
		n.Changed("annotation "+gang.AnnotationMaxRestarts,
			fmt.Sprintf("Volcano counts the restarts of all containers of the task %s; Rollcall those of the gang", t.name), "")
	}
}

// restartsOf brings a number into the annotation's bounds; a negative one has none.
func restartsOf(v int32) int32 {
	if v < 0 {
		return mostRestarts
	}
	return min(v, mostRestarts)
}

// defaultRetry is Volcano's default of maxRetry, and Rollcall's number of restarts.
const defaultRetry = 3

// mostRestarts is the largest value of the annotation.
const mostRestarts = 1000
