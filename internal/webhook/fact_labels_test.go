package webhook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

// readFacts returns the labels with facts of a workload, and checks that its pod template has none.
func readFacts(t *testing.T, kind gang.Kind, raw []byte) map[string]string {
	t.Helper()
	w := decodeWorkload(t, kind, raw)
	out := map[string]string{}
	for _, key := range []string{gang.LabelSize, gang.LabelAccelerators} {
		if value, ok := w.Meta().Labels[key]; ok {
			out[strings.TrimPrefix(key, gang.Prefix)] = value
		}
		if _, ok := w.Template().Labels[key]; ok {
			t.Errorf("the pod template has the label %s", key)
		}
	}
	return out
}

func TestFactLabels(t *testing.T) {
	for name, test := range map[string]struct {
		job    string
		patch  string
		want   map[string]string
		denied string // part of the denial
	}{
		"a gang of one workload": {job: gpuJob, want: map[string]string{"size": "8", "accelerators": "64"}},
		"an elastic gang has its maximum": {
			job: gpuJob, patch: `{"metadata":{"annotations":{"rollcall.training/elastic":"2:16"}}}`,
			want: map[string]string{"size": "16", "accelerators": "128"},
		},
		"the size is that of the gang, and the accelerators are those of the member": {
			job: roleJob, want: map[string]string{"size": "5", "accelerators": "32"},
		},
		"accelerators of resource claims are not known": {
			job: gpuJob, patch: `{"spec":{"template":{"spec":{"resourceClaims":[{"name":"gpu","resourceClaimName":"gpu"}]}}}}`,
			want: map[string]string{"size": "8"},
		},
		"a value of the user that is right": {
			job: gpuJob, patch: `{"metadata":{"labels":{"rollcall.training/size":"8"}}}`,
			want: map[string]string{"size": "8", "accelerators": "64"},
		},
		"a value of the user that is wrong": {
			job: gpuJob, patch: `{"metadata":{"labels":{"rollcall.training/accelerators":"1"}}}`,
			denied: `metadata.labels[rollcall.training/accelerators]: Invalid value: "1": Rollcall writes the label, ` +
				`and its value is "64"; remove the label`,
		},
		"an unlabeled Job": {
			job: gpuJob, patch: `{"metadata":{"labels":{"rollcall.training/framework":null}}}`, want: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(test.job)
			if test.patch != "" {
				raw = mergePatch(t, raw, test.patch)
			}
			admitted := admit(t, gang.Job, string(raw))
			r := webhook.NewValidator(newEngine(), nil).
				Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, admitted))
			if test.denied != "" {
				if r.Allowed || !strings.Contains(r.Result.Message, test.denied) {
					t.Errorf("the response is %+v, want a denial with %s", r.Result, test.denied)
				}
				return
			}
			if !r.Allowed {
				t.Fatalf("denied: %s", r.Result.Message)
			}
			if diff := cmp.Diff(test.want, readFacts(t, gang.Job, admitted)); diff != "" {
				t.Error("labels (-want +got):\n" + diff)
			}
			if again := admit(t, gang.Job, string(admitted)); !cmp.Equal(test.want, readFacts(t, gang.Job, again)) {
				t.Errorf("a second call changes the labels to %v", readFacts(t, gang.Job, again))
			}
		})
	}
}

func TestFactLabelsOfStatefulSet(t *testing.T) {
	live := admit(t, gang.StatefulSet, string(marshalJSON(t, newStatefulSet(t))))
	for name, test := range map[string]struct {
		patch  string
		want   map[string]string
		denied bool
	}{
		"another size": {
			patch: `{"spec":{"replicas":5}}`, want: map[string]string{"size": "5", "accelerators": "0"},
		},
		"a manifest without the labels": {
			patch: `{"metadata":{"labels":{"rollcall.training/size":null,"rollcall.training/accelerators":null}}}`,
			want:  map[string]string{"size": "2", "accelerators": "0"},
		},
		"another size with the labels of the former size": {
			patch: `{"metadata":{"labels":{"rollcall.training/size":"2"}},"spec":{"replicas":3}}`,
			want:  map[string]string{"size": "3", "accelerators": "0"},
		},
		"a suspension": {
			patch: `{"spec":{"replicas":0}}`, want: map[string]string{"size": "2", "accelerators": "0"},
		},
		"a wrong value": {patch: `{"metadata":{"labels":{"rollcall.training/size":"1"}}}`, denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := mergePatch(t, live, test.patch)
			update := newRequest(admissionv1.Update, gang.StatefulSet, live, changed)
			changed = applyPatch(t, changed, webhook.NewMutator(newEngine(), nil).Handle(t.Context(), update))
			r := webhook.NewValidator(newEngine(), nil).
				Handle(t.Context(), newRequest(admissionv1.Update, gang.StatefulSet, live, changed))
			if r.Allowed == test.denied {
				t.Fatalf("allowed: %t, %+v", r.Allowed, r.Result)
			}
			if test.denied {
				return
			}
			if diff := cmp.Diff(test.want, readFacts(t, gang.StatefulSet, changed)); diff != "" {
				t.Error("labels (-want +got):\n" + diff)
			}
		})
	}
}
