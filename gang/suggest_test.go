package gang_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

func TestSuggestedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		annotation, want string
	}{
		"a singular has the plural as the closest key": {
			annotation: "gpu", want: gang.AnnotationGPUs,
		},
		"a first word has the key that starts with it": {
			annotation: "nproc", want: gang.AnnotationNprocPerNode,
		},
		"a key without its dash": {
			annotation: "maxrestarts", want: gang.AnnotationMaxRestarts,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{gang.Prefix + c.annotation: "8"},
			}}}
			_, warnings, _ := gang.Parse(w, nil, gang.Config{})
			suggestion := `did you mean "` + c.want + `"?`
			if len(warnings) != 1 || !strings.Contains(warnings[0].Message, suggestion) {
				t.Errorf("warnings %q, want one with %q", warnings.Strings(), suggestion)
			}
		})
	}
}
