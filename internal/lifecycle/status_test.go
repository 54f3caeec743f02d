package lifecycle_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestSuspendedBy checks who suspends a workload, also according to the status of a build that does not know the
// annotation.
func TestSuspendedBy(t *testing.T) {
	const suspended = `{"version":1,"phase":"Restarting","internal":{"suspendedByRollcall":true}}`
	for name, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"status of a former build": {annotations: map[string]string{gang.AnnotationStatus: suspended}, want: true},
		"annotation and status": {
			annotations: map[string]string{
				gang.AnnotationStatus: suspended, gang.AnnotationSuspendedBy: gang.SuspendedByRollcall,
			},
			want: true,
		},
		"a former build resumed the workload after a rollback": {
			annotations: map[string]string{
				gang.AnnotationStatus: `{"version":1,"phase":"Pending"}`, gang.AnnotationSuspendedBy: gang.SuspendedByRollcall,
			},
		},
		"a user took over the suspension": {
			annotations: map[string]string{
				gang.AnnotationStatus: suspended, gang.AnnotationSuspendedBy: gang.SuspendedByUser,
			},
		},
		"the status was removed": {
			annotations: map[string]string{gang.AnnotationSuspendedBy: gang.SuspendedByRollcall},
		},
	} {
		job := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Annotations: c.annotations, Labels: map[string]string{},
		}}}
		status := lifecycle.ReadStatus(job)
		if status.SuspendedByRollcall != c.want {
			t.Errorf("%s: suspended by Rollcall is %t", name, status.SuspendedByRollcall)
		}
		if err := status.WriteTo(job); err != nil {
			t.Fatal(err)
		}
		if by := job.Meta().Annotations[gang.AnnotationSuspendedBy]; (by == gang.SuspendedByRollcall) != c.want {
			t.Errorf("%s: the status is written with the annotation %q", name, by)
		}
	}
}
