package policy

import (
	"fmt"
	"time"

	"rollcall.training/gang"
)

func (l *DurationLimit) validate(r *reader, path string) {
	if !l.Required && l.Max == nil {
		r.add(path, "has no effect; set required or max")
	}
	if l.Max != nil && l.Max.err != nil {
		r.add(path+".max", "%v", l.Max.err)
	}
}

// check compares the duration in a field of a Job with the limit.
func (l *DurationLimit) check(f Facts, value *time.Duration, key, purpose string) []violation {
	path := specPath.Child(key).String()
	switch {
	case value == nil && l.Required && f.Kind != gang.Job:
		return []violation{{
			field: "kind", value: string(f.Kind), excess: 1,
			message: fmt.Sprintf("a %s has no %s, which is required; use a Job", f.Kind, purpose),
		}}
	case value == nil && l.Required:
		message := fmt.Sprintf("is required: the %s in seconds", purpose)
		if l.Max != nil {
			message += fmt.Sprintf(", at most %d (%s)", int64(l.Max.value.Seconds()), l.Max)
		}
		return []violation{{field: path, message: message, excess: 1}}
	case value != nil && l.Max != nil && *value > l.Max.value:
		return []violation{{
			field: path, value: formatInt(int64(value.Seconds())), excess: (*value - l.Max.value).Seconds(),
			message: fmt.Sprintf("makes the %s %s, at most %s is allowed; set at most %d",
				purpose, formatDuration(*value), l.Max, int64(l.Max.value.Seconds())),
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

func (l *RestartsLimit) validate(r *reader, path string) { r.checkCount(path+".max", &l.Max) }

func (l *RestartsLimit) check(f Facts) []violation {
	if f.Restarts <= l.Max {
		return nil
	}
	return []violation{{
		field: f.paths.restarts, value: formatInt(f.Restarts), excess: float64(f.Restarts - l.Max),
		message: fmt.Sprintf("allows %s of the gang, at most %d are allowed; set %s: %q",
			formatCount(f.Restarts, "restart"), l.Max, gang.AnnotationMaxRestarts, formatInt(l.Max)),
	}}
}
