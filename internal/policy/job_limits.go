package policy

import (
	"fmt"
	"slices"
	"time"

	"rollcall.training/gang"
)

func (l *DurationLimit) validate(r *reader, path string) {
	if !l.Required && l.Min == nil && l.Max == nil {
		r.add(path, "has no effect; set required, min or max")
	}
	for key, bound := range map[string]*Duration{"min": l.Min, "max": l.Max} {
		if bound != nil && bound.err != nil {
			r.add(path+"."+key, "%v", bound.err)
		}
	}
	if l.Min != nil && l.Max != nil && l.Min.value > l.Max.value && l.Max.err == nil {
		r.add(path, "no gang satisfies min %s and max %s", l.Min, l.Max)
	}
}

// check compares the duration in a field of a Job with the limit.
func (l *DurationLimit) check(f Facts, value *time.Duration, key, purpose string) []violation {
	path := specPath.Child(key).String()
	switch {
	case value == nil && l.Required && f.Kind != gang.Job:
		return l.checkStatefulSet(f, purpose)
	case value == nil && l.Required:
		message := fmt.Sprintf("is required: the %s in seconds", purpose)
		if l.Max != nil {
			message += fmt.Sprintf(", at most %d (%s)", int64(l.Max.value.Seconds()), l.Max)
		}
		return []violation{{field: path, message: message}}
	case value != nil && l.Max != nil && *value > l.Max.value:
		return []violation{{
			field: path, value: formatInt(int64(value.Seconds())), excess: (*value - l.Max.value).Seconds(),
			message: fmt.Sprintf("makes the %s %s, at most %s is allowed; set at most %d",
				purpose, formatDuration(*value), l.Max, int64(l.Max.value.Seconds())),
		}}
	case value != nil && l.Min != nil && *value < l.Min.value:
		return []violation{{
			field: path, value: formatInt(int64(value.Seconds())), excess: (l.Min.value - *value).Seconds(),
			message: fmt.Sprintf("makes the %s %s, at least %s is required; set at least %d",
				purpose, formatDuration(*value), l.Min, int64(l.Min.value.Seconds())),
		}}
	}
	return nil
}

// checkStatefulSet returns the violation of a workload that cannot have a required duration. The members that the gang
// ends with are judged instead, if there are others.
func (l *DurationLimit) checkStatefulSet(f Facts, purpose string) []violation {
	switch {
	case !f.endsWithout:
		return []violation{{
			field: "kind", value: string(f.Kind),
			message: fmt.Sprintf("a %s has no %s, which is required; use a Job", f.Kind, purpose),
		}}
	case !f.membersKnown:
		return []violation{{
			field: "kind", message: fmt.Sprintf("the Job that ends the gang must have a %s, and is not known yet", purpose),
			unknown: true,
		}}
	}
	return nil
}

// runtimeLimit is the limit of the maximum runtime.
type runtimeLimit struct{ *DurationLimit }

func (l runtimeLimit) check(f Facts) []violation {
	return l.DurationLimit.check(f, f.Runtime, "activeDeadlineSeconds", "maximum runtime")
}

// ttlLimit is the limit of the time after which a finished Job is deleted.
type ttlLimit struct{ *DurationLimit }

func (l ttlLimit) check(f Facts) []violation {
	return l.DurationLimit.check(f, f.TTL, "ttlSecondsAfterFinished", "time until deletion after the end")
}

// restartPolicies are the values of the annotation [gang.AnnotationRestartPolicy].
var restartPolicies = []gang.RestartPolicy{gang.RestartPolicyGang, gang.RestartPolicyPod, gang.RestartPolicyNever}

func (l *RestartsLimit) validate(r *reader, path string) {
	r.checkCount(path+".max", l.Max)
	if l.Max == nil && len(l.Policies) == 0 {
		r.add(path, "has no effect; set max or policies")
	}
	for i, policy := range l.Policies {
		if !slices.Contains(restartPolicies, policy) {
			r.add(fmt.Sprintf("%s.policies[%d]", path, i), "%q is not a restart policy; use gang, pod or never", policy)
		}
	}
}

func (l *RestartsLimit) check(f Facts) []violation {
	var violations []violation
	if l.Max != nil && f.Restarts > *l.Max {
		violations = append(violations, violation{
			field: f.paths.restarts, value: formatInt(f.Restarts), excess: float64(f.Restarts - *l.Max),
			message: fmt.Sprintf("allows %s of the gang, at most %d are allowed; set %s: %q",
				gang.FormatCount(f.Restarts, "restart"), *l.Max, gang.AnnotationMaxRestarts, formatInt(*l.Max)),
		})
	}
	if len(l.Policies) > 0 && !slices.Contains(l.Policies, f.RestartPolicy) {
		var allowed []string
		for _, policy := range l.Policies {
			allowed = append(allowed, string(policy))
		}
		violations = append(violations, violation{
			field: annotationsPath.Key(gang.AnnotationRestartPolicy).String(), value: string(f.RestartPolicy),
			message: fmt.Sprintf("%s is not allowed as the restart policy; allowed are %s", f.RestartPolicy, joinNames(allowed)),
		})
	}
	return violations
}

func (l *DisruptionsLimit) validate(r *reader, path string) {
	r.checkCount(path+".max", l.Max)
	if l.Max == nil {
		r.add(path, "has no effect; set max")
	}
}

func (l *DisruptionsLimit) check(f Facts) []violation {
	if f.Disruptions <= *l.Max {
		return nil
	}
	count, text := formatInt(f.Disruptions), gang.FormatCount(f.Disruptions, "disruption")
	if f.Disruptions == UnlimitedDisruptions {
		count, text = "unlimited", "unlimited disruptions"
	}
	return []violation{{
		field: annotationsPath.Key(gang.AnnotationMaxDisruptions).String(), value: count,
		excess: float64(f.Disruptions - *l.Max),
		message: fmt.Sprintf("allows %s of the gang, at most %d are allowed; set %s: %q",
			text, *l.Max, gang.AnnotationMaxDisruptions, formatInt(*l.Max)),
	}}
}
