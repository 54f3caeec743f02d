package webhook_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

func TestPodRankHandler(t *testing.T) {
	for name, c := range map[string]struct {
		pod        string
		wantRank   string // empty if the pod must not get a rank
		wantDenial string // part of the denial, empty if the pod must be allowed
		wantPatch  bool
	}{
		"first worker of a Job follows one master": {
			pod: `{"metadata":{"generateName":"w-0-","labels":{"rollcall.training/rank-offset":"1",
				"batch.kubernetes.io/job-completion-index":"0"}}}`,
			wantRank:  "1",
			wantPatch: true,
		},
		"pod of a StatefulSet has its index in a different label": {
			pod: `{"metadata":{"name":"w-3","labels":{"rollcall.training/rank-offset":"2",
				"apps.kubernetes.io/pod-index":"3"}}}`,
			wantRank:  "5",
			wantPatch: true,
		},
		"rank label of the template is replaced": {
			pod: `{"metadata":{"labels":{"rollcall.training/rank":"0","rollcall.training/rank-offset":"1",
				"batch.kubernetes.io/job-completion-index":"2"}}}`,
			wantRank:  "3",
			wantPatch: true,
		},
		"reinvocation does not patch the pod": {
			pod: `{"metadata":{"labels":{"rollcall.training/rank":"3","rollcall.training/rank-offset":"1",
				"batch.kubernetes.io/job-completion-index":"2"}}}`,
			wantRank: "3",
		},
		"selector that is too broad blocks no pod": {
			pod: `{"metadata":{"labels":{"batch.kubernetes.io/job-completion-index":"2"}}}`,
		},
		"pod without labels": {
			pod: `{}`,
		},
		"pod without an index would start with an empty RANK": {
			pod:        `{"metadata":{"labels":{"rollcall.training/rank-offset":"1"}}}`,
			wantDenial: "but no index",
		},
		"denial contains the label and its invalid value": {
			pod: `{"metadata":{"labels":{"rollcall.training/rank-offset":"1",
				"batch.kubernetes.io/job-completion-index":"two"}}}`,
			wantDenial: `metadata.labels[batch.kubernetes.io/job-completion-index]: Invalid value: "two"`,
		},
		"pod of a newer API server has unknown fields": {
			pod: `{"metadata":{"labels":{"rollcall.training/rank-offset":"1","apps.kubernetes.io/pod-index":"0"},"novel":1},
				"spec":{"containers":"of another shape"}}`,
			wantRank:  "1",
			wantPatch: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := newRequest(admissionv1.Create, "Pod", nil, []byte(c.pod))
			r := webhook.PodRankHandler{}.Handle(t.Context(), req)
			if r.Allowed != (c.wantDenial == "") {
				t.Fatalf("allowed = %t: %+v", r.Allowed, r.Result)
			}
			if !r.Allowed {
				if r.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(r.Result.Message, c.wantDenial) {
					t.Errorf("denied with %d %q, want 422 with %q", r.Result.Code, r.Result.Message, c.wantDenial)
				}
				return
			}
			if hasPatch := len(r.Patch) > 0; hasPatch != c.wantPatch {
				t.Errorf("the response has the patch %s, want a patch: %t", r.Patch, c.wantPatch)
			}
			checkPodRank(t, []byte(c.pod), applyPatch(t, []byte(c.pod), r), c.wantRank)
		})
	}
}

// checkPodRank requires that two pods differ only in the rank label, including fields that the Go types
// do not have.
func checkPodRank(t *testing.T, before, after []byte, want string) {
	t.Helper()
	var oldTree, newTree map[string]any
	if err := json.Unmarshal(before, &oldTree); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &newTree); err != nil {
		t.Fatal(err)
	}
	got := ""
	if meta, ok := newTree["metadata"].(map[string]any); ok {
		labels, _ := meta["labels"].(map[string]any)
		got, _ = labels[gang.LabelRank].(string)
		delete(labels, gang.LabelRank)
		delete(oldTree["metadata"].(map[string]any)["labels"].(map[string]any), gang.LabelRank)
	}
	if got != want {
		t.Errorf("the rank is %q, want %q", got, want)
	}
	if diff := cmp.Diff(oldTree, newTree); diff != "" {
		t.Errorf("the pods differ in more than the rank (-before +after):\n%s", diff)
	}
}

func TestPodRankHandlerUnreadable(t *testing.T) {
	r := webhook.PodRankHandler{}.Handle(t.Context(), newRequest(admissionv1.Create, "Pod", nil, []byte(`[`)))
	if r.Allowed || r.Result.Code != http.StatusBadRequest {
		t.Errorf("the response is %+v, want code 400", r.Result)
	}
}

// FuzzPodRankHandler checks that the response agrees with [gang.PodRank], and that every allowed pod has
// a rank.
func FuzzPodRankHandler(f *testing.F) {
	f.Add("1", "0", "")
	f.Add("", "3", "1")
	f.Fuzz(func(t *testing.T, offset, index, rank string) {
		raw := marshalJSON(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "w-0", Labels: map[string]string{
			gang.LabelRankOffset:           offset,
			"apps.kubernetes.io/pod-index": index,
			gang.LabelRank:                 rank,
		}}})
		var decoded corev1.Pod // JSON replaces invalid UTF-8
		if err := json.Unmarshal(raw, &decoded); err != nil {
			t.Fatal(err)
		}
		want, errs := gang.PodRank(decoded.Labels)
		r := webhook.PodRankHandler{}.Handle(t.Context(), newRequest(admissionv1.Create, "Pod", nil, raw))
		if r.Allowed != (len(errs) == 0) {
			t.Fatalf("offset %q, index %q: allowed = %t, but PodRank returned the errors %v", offset, index, r.Allowed, errs)
		}
		var after corev1.Pod
		if err := json.Unmarshal(applyPatch(t, raw, r), &after); err != nil {
			t.Fatal(err)
		}
		if got := after.Labels[gang.LabelRank]; r.Allowed && got != strconv.Itoa(int(want)) {
			t.Errorf("offset %q, index %q: the rank is %q, want %d", offset, index, got, want)
		}
	})
}
