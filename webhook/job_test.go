package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"rollcall.training/gang"
	"rollcall.training/webhook"
)

const plainJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"default"},
"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"trainer"}]}}}}`

func TestJobUpdates(t *testing.T) {
	admitted := func(t *testing.T) []byte {
		t.Helper()
		raw := labelled(t, plainJob)
		return apply(t, raw, webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw)))
	}
	merge := func(t *testing.T, raw []byte, patch string) []byte {
		t.Helper()
		out, err := jsonpatch.MergePatch(raw, []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	elastic := func(t *testing.T) []byte {
		t.Helper()
		raw := merge(t, labelled(t, plainJob), `{"metadata":{"annotations":{"rollcall.training/elastic":"2:4"}}}`)
		return apply(t, raw, webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw)))
	}
	for name, c := range map[string]struct {
		reason   string
		old, now func(t *testing.T) []byte
		want     string // part of the one warning; empty for none
	}{
		"label comes late": {
			reason: "a running Job's template cannot change, so the user must hear that the label does nothing",
			old:    func(*testing.T) []byte { return []byte(plainJob) },
			now:    func(t *testing.T) []byte { return labelled(t, plainJob) },
			want:   "nothing was injected",
		},
		"label was late before": {
			reason: "controllers update the Job many times; the warning is for the one who sets the label",
			old:    func(t *testing.T) []byte { return labelled(t, plainJob) },
			now:    func(t *testing.T) []byte { return labelled(t, plainJob) },
		},
		"label removed": {
			reason: "the injection stays but nobody follows the gang",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"labels":{"rollcall.training/framework":null}}}`)
			},
			want: "no longer follows",
		},
		"port changed": {
			reason: "an annotation of an existing Job has no effect",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/port":"29500"}}}`)
			},
			want: "rollcall.training/port",
		},
		"parallelism changed": {
			reason: "the ranks know another size",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"spec":{"parallelism":3,"completions":3}}`)
			},
			want: "spec.parallelism",
		},
		"restarts changed": {
			reason: "what is heeded while the gang runs may change while it does",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/max-restarts":"10"}}}`)
			},
		},
		"restarts garbled": {
			reason: "the gang goes on as if nothing was said, and its user must hear it",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/max-restarts":"many"}}}`)
			},
			want: "counts as absent",
		},
		"policy changed": {
			reason: "the gang follows it, and what the Job was given for the former one stays",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/restart-policy":"never"}}}`)
			},
			want: "is heeded from now on",
		},
		"framework changed": {
			reason: "the template is of the former one",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"labels":{"rollcall.training/framework":"jax"}}}`)
			},
			want: "rollcall.training/framework]: a change has no effect",
		},
		"elastic, within bounds": {
			reason: "such a gang takes ranks in and lets them go",
			old:    elastic,
			now:    func(t *testing.T) []byte { return merge(t, elastic(t), `{"spec":{"parallelism":4,"completions":4}}`) },
		},
		"elastic, out of bounds": {
			reason: "the ranks were told the bounds",
			old:    elastic,
			now:    func(t *testing.T) []byte { return merge(t, elastic(t), `{"spec":{"parallelism":5,"completions":5}}`) },
			want:   "not within 2:4",
		},
		"suspended": {
			reason: "suspend is how queues and restarts work",
			old:    admitted,
			now:    func(t *testing.T) []byte { return merge(t, admitted(t), `{"spec":{"suspend":true}}`) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(admissionv1.Update, gang.Job, c.old(t), c.now(t))
			if r := webhook.NewMutator(engine()).Handle(t.Context(), req); !r.Allowed || len(r.Patches) > 0 {
				t.Errorf("%s: an existing Job was patched or refused: %+v", c.reason, r)
			}
			r := webhook.NewValidator(clientgoscheme.Scheme, engine()).Handle(t.Context(), req)
			if !r.Allowed {
				t.Fatalf("%s: refused: %s", c.reason, r.Result.Message)
			}
			got := strings.Join(r.Warnings, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: warnings %q, want one with %q", c.reason, got, c.want)
			}
		})
	}
}

// TestPhaseBeginsAtAdmission: a new gang is Pending, whatever its manifest says.
func TestPhaseBeginsAtAdmission(t *testing.T) {
	for _, stale := range []string{"", "Succeeded"} {
		raw := labelled(t, plainJob)
		if stale != "" {
			var err error
			if raw, err = jsonpatch.MergePatch(raw, []byte(`{"metadata":{"labels":{"rollcall.training/phase":"`+stale+`"}}}`)); err != nil {
				t.Fatal(err)
			}
		}
		r := webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw))
		var job batchv1.Job
		if err := json.Unmarshal(apply(t, raw, r), &job); err != nil {
			t.Fatal(err)
		}
		if got := job.Labels[gang.LabelPhase]; got != string(gang.Pending) {
			t.Errorf("with %q in the manifest, the phase is %q", stale, got)
		}
	}
}
