package ir

import (
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/internal/migrate/source"
)

// ConvertSuspend converts a field that suspends the job.
func (b *Gang) ConvertSuspend(f source.Field) {
	if suspend := f.Bool(); ptr.Deref(suspend, false) {
		b.JobSpec.Suspend = suspend
	}
	f.MarkPreserved("spec.suspend of each Job")
}

// ConvertTTL converts the number of seconds after which the finished job is deleted. See [Gang.Build]
// for gangs of several workloads.
func (b *Gang) ConvertTTL(f source.Field) {
	seconds := f.Int32()
	switch {
	case seconds == nil:
		return
	case *seconds < 0:
		f.MarkInvalid("must be 0 or more")
		return
	}
	b.JobSpec.TTLSecondsAfterFinished, b.TTLField = seconds, f
	f.MarkPreserved("spec.ttlSecondsAfterFinished of each Job")
}

// ConvertManagedBy converts the name of the controller of the job. Controllers whose name starts with
// the given API group are those of the former system, and not copied.
func (b *Gang) ConvertManagedBy(f source.Field, group string) {
	name := f.String()
	switch {
	case name == "":
	case strings.HasPrefix(name, group+"/"):
		f.MarkLeftOut("the controller of the former system does not manage Jobs")
	default:
		b.JobSpec.ManagedBy = ptr.To(name)
		f.MarkPreserved("spec.managedBy of each Job")
	}
}
