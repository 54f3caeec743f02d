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
	"rollcall.training/webhook"
)

func TestRanker(t *testing.T) {
	for name, c := range map[string]struct {
		reason, pod string
		want        string // the rank afterwards; empty for none
		denied      string // part of the denial; empty for none
		patches     int
	}{
		"Job": {
			reason: "the first worker comes after one master",
			pod:    `{"metadata":{"generateName":"w-0-","labels":{"rollcall.training/rank-offset":"1","batch.kubernetes.io/job-completion-index":"0"}}}`,
			want:   "1", patches: 1,
		},
		"StatefulSet": {
			reason: "its pods have their index in another label",
			pod:    `{"metadata":{"name":"w-3","labels":{"rollcall.training/rank-offset":"2","apps.kubernetes.io/pod-index":"3"}}}`,
			want:   "5", patches: 1,
		},
		"rank of the user's": {
			reason: "a label in the template would be the same on every pod",
			pod:    `{"metadata":{"labels":{"rollcall.training/rank":"0","rollcall.training/rank-offset":"1","batch.kubernetes.io/job-completion-index":"2"}}}`,
			want:   "3", patches: 1,
		},
		"called again": {
			reason: "nothing changes, so no other webhook is called again",
			pod:    `{"metadata":{"labels":{"rollcall.training/rank":"3","rollcall.training/rank-offset":"1","batch.kubernetes.io/job-completion-index":"2"}}}`,
			want:   "3",
		},
		"unlabelled": {
			reason: "a selector that is too wide blocks nobody",
			pod:    `{"metadata":{"labels":{"batch.kubernetes.io/job-completion-index":"2"}}}`,
		},
		"no labels": {pod: `{}`},
		"no index": {
			reason: "the pod would start with an empty RANK",
			pod:    `{"metadata":{"labels":{"rollcall.training/rank-offset":"1"}}}`,
			denied: "no index to add it to",
		},
		"garbled": {
			reason: "the message names the label and its value",
			pod:    `{"metadata":{"labels":{"rollcall.training/rank-offset":"1","batch.kubernetes.io/job-completion-index":"two"}}}`,
			denied: `metadata.labels[batch.kubernetes.io/job-completion-index]: Invalid value: "two"`,
		},
		"unknown fields": {
			reason: "a newer API server's pod is not ours to understand",
			pod:    `{"metadata":{"labels":{"rollcall.training/rank-offset":"1","apps.kubernetes.io/pod-index":"0"},"novel":1},"spec":{"containers":"of another shape"}}`,
			want:   "1", patches: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.Ranker{}.Handle(t.Context(), request(admissionv1.Create, "Pod", nil, []byte(c.pod)))
			if r.Allowed != (c.denied == "") {
				t.Fatalf("%s: allowed is %v: %+v", c.reason, r.Allowed, r.Result)
			}
			if !r.Allowed {
				if r.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(r.Result.Message, c.denied) {
					t.Errorf("%s: denied with %d %q, want 422 with %q", c.reason, r.Result.Code, r.Result.Message, c.denied)
				}
				return
			}
			if len(r.Patches) != c.patches {
				t.Errorf("%s: %d patches, want %d: %v", c.reason, len(r.Patches), c.patches, r.Patches)
			}
			checkRanked(t, []byte(c.pod), apply(t, []byte(c.pod), r), c.want)
		})
	}
}

// checkRanked compares a pod before and after: the one label differs and nothing else,
// fields that our types do not know included.
func checkRanked(t *testing.T, before, after []byte, want string) {
	t.Helper()
	var was, is map[string]any
	if err := json.Unmarshal(before, &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &is); err != nil {
		t.Fatal(err)
	}
	got := ""
	if meta, ok := is["metadata"].(map[string]any); ok {
		labels, _ := meta["labels"].(map[string]any)
		got, _ = labels[gang.LabelRank].(string)
		delete(labels, gang.LabelRank)
		delete(was["metadata"].(map[string]any)["labels"].(map[string]any), gang.LabelRank)
	}
	if got != want {
		t.Errorf("rank %q, want %q", got, want)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("more than the rank changed:\n%s", diff)
	}
}

func TestRankerUnreadable(t *testing.T) {
	r := webhook.Ranker{}.Handle(t.Context(), request(admissionv1.Create, "Pod", nil, []byte(`[`)))
	if r.Allowed || r.Result.Code != http.StatusBadRequest {
		t.Errorf("want 400, got %+v", r.Result)
	}
}

// FuzzRanker: whatever the labels, the answer is the one that gang.RankOf gives, and a
// pod is allowed only with a rank.
func FuzzRanker(f *testing.F) {
	f.Add("1", "0", "")
	f.Add("", "3", "1")
	f.Fuzz(func(t *testing.T, offset, index, rank string) {
		labels := map[string]string{gang.LabelRankOffset: offset, "apps.kubernetes.io/pod-index": index, gang.LabelRank: rank}
		raw := marshal(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "w-0", Labels: labels}})
		var text corev1.Pod // what JSON makes of strings that are no text
		if err := json.Unmarshal(raw, &text); err != nil {
			t.Fatal(err)
		}
		want, errs := gang.RankOf(text.Labels)
		r := webhook.Ranker{}.Handle(t.Context(), request(admissionv1.Create, "Pod", nil, raw))
		if r.Allowed != (len(errs) == 0) {
			t.Fatalf("%q + %q: allowed is %v, errors %v", offset, index, r.Allowed, errs)
		}
		var after corev1.Pod
		if err := json.Unmarshal(apply(t, raw, r), &after); err != nil {
			t.Fatal(err)
		}
		if got := after.Labels[gang.LabelRank]; r.Allowed && got != strconv.Itoa(int(want)) {
			t.Errorf("%q + %q: rank %q, want %d", offset, index, got, want)
		}
	})
}
