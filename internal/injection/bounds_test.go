package injection

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// TestRecordBounds checks that a record with more values than Rollcall writes is an error.
func TestRecordBounds(t *testing.T) {
	newValues := func(prefix string, n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"%sV%d":"00000000"`, prefix, i))
		}
		return `{"injector":"pytorch","values":{` + strings.Join(names, ",") + `}}`
	}
	newFormerEnv := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"V%d":"00000000"`, i))
		}
		return `{"injector":"pytorch","env":{"trainer":{` + strings.Join(names, ",") + `}}}`
	}
	newDefaults := func(containers, n int) string {
		var names []string
		for i := range containers * n {
			names = append(names, fmt.Sprintf(`"env/c%d/V%d":"policy:cluster"`, i/n, i%n))
		}
		return `{"injector":"pytorch","defaults":{` + strings.Join(names, ",") + `}}`
	}
	for name, c := range map[string]struct {
		record  string
		wantErr bool
	}{
		"10 defaults in each of 21 containers":  {record: newDefaults(21, 10)},
		"too many defaults in one container":    {record: newDefaults(2, maxRecordedTargets+1), wantErr: true},
		"maximum number of variables":           {record: newValues("env/trainer/", maxRecordedTargets)},
		"too many variables":                    {record: newValues("env/trainer/", maxRecordedTargets+1), wantErr: true},
		"too many labels":                       {record: newValues("label/a/", maxRecordedTargets+1), wantErr: true},
		"too many variables in the former form": {record: newFormerEnv(maxRecordedTargets + 1), wantErr: true},
		"text that is too long": {
			record: `{"injector":"` + strings.Repeat("x", gang.MaxWrittenAnnotationLength) + `"}`, wantErr: true,
		},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationInjected: c.record}}}
		if _, err := ReadRecord(gang.Workload{Job: job}); (err != nil) != c.wantErr {
			t.Errorf("%s: error %v, want error %v", name, err, c.wantErr)
		}
	}
}

// TestOriginalLookups checks that the lookup of a value in a list searches only its own element.
func TestOriginalLookups(t *testing.T) {
	original := `{"spec":{"containers":[{"name":"a","resources":{}},{"name":"b","resources":null},{"name":"c"}]}}`
	d := differ{original: []byte(original), values: map[string]originalValue{}}
	for pointer, want := range map[string]bool{
		"/spec":                        true,
		"/spec/containers/0/resources": true,
		"/spec/containers/1/resources": false,
		"/spec/containers/2/resources": false,
		"/spec/containers/3/resources": false,
		"/status":                      false,
	} {
		if got := d.existsInOriginal(pointer); got != want {
			t.Errorf("%s exists: %v, want %v", pointer, got, want)
		}
	}
	element := d.values["/spec/containers/0"]
	if want := `{"name":"a","resources":{}}`; element.Raw != want {
		t.Errorf("the element is %s, want %s", element.Raw, want)
	}
}

// TestTrainingContainers checks which of many containers get the variables of the plan.
func TestTrainingContainers(t *testing.T) {
	job := &batchv1.Job{}
	g := gang.Gang{}
	for i := range gang.MaxContainers {
		name := fmt.Sprintf("c%d", i)
		job.Spec.Template.Spec.Containers = append(job.Spec.Template.Spec.Containers, corev1.Container{Name: name})
		if i%2 == 0 {
			g.Containers = append(g.Containers, gang.Container{Name: name})
		}
	}
	p := plan.Plan{Env: []plan.Env{plan.LiteralEnv("RANK", "0")}}
	if _, errs := Apply(gang.Workload{Job: job}, g, p, ""); len(errs) > 0 {
		t.Fatal(errs)
	}
	for i, c := range job.Spec.Template.Spec.Containers {
		hasVariables := len(c.Env) == 2 // the completion index and the rank
		if isTraining := i%2 == 0; hasVariables != isTraining {
			t.Errorf("%s has %d variables", c.Name, len(c.Env))
		}
	}
}
