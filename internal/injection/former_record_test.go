package injection

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
)

// TestFormerRecord checks that this build reads a record with a map for each kind, which the former release wrote.
func TestFormerRecord(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		want   map[string]string // nil for an error
	}{
		"every kind": {
			record: `{"injector":"mpi","env":{"trainer":{"RANK":"01"}},"mounts":{"trainer":{"/dev/shm":"02"}},` +
				`"resources":{"trainer":{"nvidia.com/gpu":"03"}},"inherited":{"setup":{"image":"04"}},` +
				`"initContainers":{"setup":"05"},"commands":{"trainer":"06"},"restartRules":{"trainer":"07"},` +
				`"terminationMessagePolicies":{"trainer":"08"},"volumes":{"shm":"09"},"sizeLimits":{"shm":"10"},` +
				`"labels":{"rollcall.training/gang":"11"},"dnsSearches":{"train.team.svc":"12"},"fields":{"backoffLimit":"7"}}`,
			want: map[string]string{
				"env/trainer/RANK": "01", "mount/trainer//dev/shm": "02", "resource/trainer/nvidia.com/gpu": "03",
				"inherited/setup/image": "04", "initContainer/setup": "05", "command/trainer": "06",
				"restartRules/trainer": "07", "terminationMessagePolicy/trainer": "08", "volume/shm": "09",
				"sizeLimit/shm": "10", "label/rollcall.training/gang": "11", "dnsSearch/train.team.svc": "12",
				"field/backoffLimit": "7",
			},
		},
		"only a size": {record: `{"injector":"pytorch","replicas":2}`, want: map[string]string{}},
		"the present form": {
			record: `{"values":{"label/app":"01"},"labels":{"b":"02"}}`, want: map[string]string{"label/app": "01"},
		},
		"a kind that is a list":  {record: `{"env":[]}`},
		"a digest that is false": {record: `{"labels":{"app":false}}`},
	} {
		w := newTestJob()
		w.Meta().Annotations[gang.AnnotationInjected] = c.record
		record, err := ReadRecord(w)
		if c.want == nil || err != nil {
			if (err == nil) != (c.want != nil) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, record.Values); diff != "" {
			t.Errorf("%s: values differ (-want +got):\n%s", name, diff)
		}
	}
}

// TestKeys checks that the text of each key is the key again, with slashes in names.
func TestKeys(t *testing.T) {
	for kind, target := range targets {
		k := key{kind: kind, name: "a/b"}
		if target.ofContainer {
			k.container = "trainer"
		}
		if got, ok := parseKey(k.String()); !ok || got != k {
			t.Errorf("%s is read as %v", k, got)
		}
	}
	if k, ok := parseKey("field/backoffLimit"); ok {
		t.Errorf("the field is the target %v", k)
	}
}
