package injection

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// newRecordedSet returns a StatefulSet with a record and a number of replicas.
func newRecordedSet(record string, replicas int32) gang.Workload {
	return gang.Workload{StatefulSet: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationInjected: record}},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)},
	}}
}

// TestAttackRecordSpelling checks that a record is an error if JSON decodes another size than the admission
// policies find in its text.
func TestAttackRecordSpelling(t *testing.T) {
	for name, c := range map[string]struct {
		record  string
		wantErr bool
	}{
		"a size":                     {record: `{"injector":"pytorch","replicas":5}`},
		"no size":                    {record: `{"injector":"pytorch"}`},
		"a container named replicas": {record: `{"env":{"replicas":{"RANK":"00000000"}},"replicas":5}`},
		"a recorded variable named replicas": {
			record: `{"values":{"env/trainer/replicas":"00000000"},"replicas":5}`,
		},
		"a size in a recorded value": {record: `{"values":{"label/a":"\"replicas\":5"},"replicas":5}`},
		"a size among the values":    {record: `{"values":{"replicas":5},"replicas":5}`, wantErr: true},
		"a variable named replicas":  {record: `{"env":{"trainer":{"replicas":"00000000"}},"replicas":5}`},
		"another letter case":        {record: `{"replicas":5,"Replicas":5000}`, wantErr: true},
		"only another letter case":   {record: `{"Replicas":5000}`, wantErr: true},
		"a second size":              {record: `{"replicas":5,"replicas":5000}`, wantErr: true},
		"an escaped letter":          {record: `{"replicas":5,"\u0072eplicas":5000}`, wantErr: true},
		"a space":                    {record: `{"replicas": 5000}`, wantErr: true},
		"a size in another object":   {record: `{"x":{"replicas":5},"Replicas":5000}`, wantErr: true},
		"a negative size":            {record: `{"replicas":-5}`, wantErr: true},
	} {
		if _, err := ReadRecord(newRecordedSet(c.record, 5)); (err != nil) != c.wantErr {
			t.Errorf("%s: error %v, want error %v", name, err, c.wantErr)
		}
	}
}

func TestForgetSize(t *testing.T) {
	const record = `{"injector":"pytorch","replicas":5}`
	for replicas, want := range map[int32]string{0: `{"injector":"pytorch"}`, 3: record} {
		w := newRecordedSet(record, replicas)
		ForgetSize(w)
		if got := w.Meta().Annotations[gang.AnnotationInjected]; got != want {
			t.Errorf("%d replicas: the record is %s, want %s", replicas, got, want)
		}
	}
}
