package webhook_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/webhook"
)

const unlabeledJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"default"},
"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"trainer"}]}}}}`

func mergePatch(t testing.TB, raw []byte, patch string) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch(raw, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// admitJob returns a manifest after the mutating webhook.
func admitJob(t *testing.T, raw []byte) []byte {
	t.Helper()
	req := newRequest(admissionv1.Create, gang.Job, nil, raw)
	return applyPatch(t, raw, webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req))
}

// TestJobUpdates checks that no update of a Job is denied or patched, and that an update without effect
// gives a warning.
func TestJobUpdates(t *testing.T) {
	unlabeled, labeled := []byte(unlabeledJob), setFrameworkLabel(t, unlabeledJob)
	admitted := admitJob(t, labeled)
	elastic := admitJob(t, mergePatch(t, labeled, `{"metadata":{"annotations":{"rollcall.training/elastic":"2:4"}}}`))
	neverRestarted := admitJob(t, mergePatch(t, labeled, `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`))
	withoutPods := mergePatch(t, admitted, `{"spec":{"parallelism":0}}`)
	const restarting = `"phase":"Restarting","reason":"GangRestarting","message":"","restarts":1`
	suspend := func(status string) []byte {
		return mergePatch(t, admitted, `{"spec":{"suspend":true},"metadata":{"annotations":{"rollcall.training/status":`+
			strconv.Quote(`{"version":1,`+status+`}`)+`}}}`)
	}
	suspendedByRollcall := suspend(restarting + `,"internal":{"suspendedByRollcall":true}`)
	for name, c := range map[string]struct {
		old         []byte
		patch       string // merge patch of old
		wantWarning string // part of the only warning, empty if there must be no warning
	}{
		"label on an existing Job has no effect": {
			old:         unlabeled,
			patch:       `{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`,
			wantWarning: "nothing was injected",
		},
		"controllers get no warning about an existing label": {
			old:   labeled,
			patch: `{}`,
		},
		"gang without the label is no longer managed": {
			old:         admitted,
			patch:       `{"metadata":{"labels":{"rollcall.training/framework":null}}}`,
			wantWarning: "no longer manages",
		},
		"gang without the label stays suspended": {
			old:         suspendedByRollcall,
			patch:       `{"metadata":{"labels":{"rollcall.training/framework":null}}}`,
			wantWarning: "does not resume it any more; run rollcall detach",
		},
		"gang that opts out is no longer managed": {
			old:         admitted,
			patch:       `{"metadata":{"labels":{"rollcall.training/inject":"false"}}}`,
			wantWarning: "nobody restarts the ranks together",
		},
		"gang that opts out stays suspended": {
			old:         suspendedByRollcall,
			patch:       `{"metadata":{"labels":{"rollcall.training/inject":"false"}}}`,
			wantWarning: "does not resume it any more; run rollcall detach",
		},
		"gang that opts out while its user suspends it": {
			old:         suspend(restarting),
			patch:       `{"metadata":{"labels":{"rollcall.training/inject":"false"}}}`,
			wantWarning: "nobody restarts the ranks together",
		},
		"gang that opts in again": {
			old:   mergePatch(t, admitted, `{"metadata":{"labels":{"rollcall.training/inject":"false"}}}`),
			patch: `{"metadata":{"labels":{"rollcall.training/inject":null}}}`,
		},
		"port of an existing Job cannot change": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/port":"29500"}}}`,
			wantWarning: "rollcall.training/port",
		},
		"ranks are configured for the former size": {
			old:         admitted,
			patch:       `{"spec":{"parallelism":3,"completions":3}}`,
			wantWarning: "spec.parallelism: the ranks are configured for 2 pods of this Job",
		},
		"Job without pods gets its former size": {
			old:   withoutPods,
			patch: `{"spec":{"parallelism":2}}`,
		},
		"Job without pods gets another size": {
			old:         withoutPods,
			patch:       `{"spec":{"parallelism":3}}`,
			wantWarning: "spec.parallelism: the ranks are configured for 2 pods of this Job",
		},
		"max-restarts is mutable": {
			old:   admitted,
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"10"}}}`,
		},
		"a pattern and its timeout are mutable": {
			old: admitted,
			patch: `{"metadata":{"annotations":{"rollcall.training/progress-pattern":"step",
				"rollcall.training/stall-timeout":"1m"}}}`,
		},
		"the timeout of a probe does not change": {
			old: admitted,
			patch: `{"metadata":{"annotations":{"rollcall.training/progress-file":"/f",
				"rollcall.training/stall-timeout":"1m"}}}`,
			wantWarning: "rollcall.training/stall-timeout]: a change has no effect",
		},
		"an invalid pattern is ignored": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/progress-pattern":"step ("}}}`,
			wantWarning: "the annotation is ignored",
		},
		"max-disruptions is mutable": {
			old:   admitted,
			patch: `{"metadata":{"annotations":{"rollcall.training/max-disruptions":"10"}}}`,
		},
		"max-disruptions exceeds the limit of the Job": {
			old:         neverRestarted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/max-disruptions":"1000"}}}`,
			wantWarning: "times in a row",
		},
		"unlimited disruptions do not exceed the limit of the Job": {
			old:   neverRestarted,
			patch: `{"metadata":{"annotations":{"rollcall.training/max-disruptions":"unlimited"}}}`,
		},
		"invalid max-disruptions is ignored": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/max-disruptions":"many"}}}`,
			wantWarning: "the annotation is ignored",
		},
		"max-restarts exceeds the limit of the Job": {
			old:         neverRestarted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/max-restarts":"117"}}}`,
			wantWarning: "fails more than 116 times in a row",
		},
		"max-restarts reaches the limit of the Job": {
			old:   neverRestarted,
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"116"}}}`,
		},
		"invalid max-restarts is ignored": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/max-restarts":"many"}}}`,
			wantWarning: "the annotation is ignored",
		},
		"new restart policy does not change the fields of the Job": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/restart-policy":"never"}}}`,
			wantWarning: "takes effect from now on",
		},
		"new roles of one member freeze the gang": {
			old:         admitted,
			patch:       `{"metadata":{"annotations":{"rollcall.training/roles":"master=1,worker=3"}}}`,
			wantWarning: "does not change the gang until",
		},
		"pod template keeps the former framework": {
			old:         admitted,
			patch:       `{"metadata":{"labels":{"rollcall.training/framework":"jax"}}}`,
			wantWarning: "rollcall.training/framework]: a change has no effect",
		},
		"elastic gang changes its size within its bounds": {
			old:   elastic,
			patch: `{"spec":{"parallelism":4,"completions":4}}`,
		},
		"elastic gang exceeds its bounds": {
			old:         elastic,
			patch:       `{"spec":{"parallelism":5,"completions":5}}`,
			wantWarning: "not within 2:4",
		},
		"queue suspends the Job": {
			old:   admitted,
			patch: `{"spec":{"suspend":true}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := newRequest(admissionv1.Update, gang.Job, c.old, mergePatch(t, c.old, c.patch))
			if r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req); !r.Allowed || len(r.Patch) > 0 {
				t.Errorf("the mutator denied or patched an existing Job: %+v", r)
			}
			r := webhook.NewValidator(newEngine(), nil).Handle(t.Context(), req)
			if !r.Allowed {
				t.Fatalf("the validator denied the update: %s", r.Result.Message)
			}
			got := strings.Join(r.Warnings, "\n")
			if (c.wantWarning == "") != (got == "") || !strings.Contains(got, c.wantWarning) {
				t.Errorf("warnings = %q, want a warning with %q", got, c.wantWarning)
			}
		})
	}
}

// TestAdmissionSetsPendingPhase checks the phase of new gangs.
func TestAdmissionSetsPendingPhase(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  lifecycle.Phase
	}{
		"a new gang is Pending": {patch: `{}`, want: lifecycle.Pending},
		"the phase of the manifest is replaced": {
			patch: `{"metadata":{"labels":{"rollcall.training/phase":"Succeeded"}}}`, want: lifecycle.Pending,
		},
		"a Job of another controller has no phase": {patch: `{"metadata":{"labels":{"rollcall.training/phase":"Pending"}},
			"spec":{"managedBy":"kueue.x-k8s.io/multikueue"}}`},
	} {
		var job batchv1.Job
		raw := mergePatch(t, setFrameworkLabel(t, unlabeledJob), c.patch)
		if err := json.Unmarshal(admitJob(t, raw), &job); err != nil {
			t.Fatal(err)
		}
		if got := lifecycle.Phase(job.Labels[gang.LabelPhase]); got != c.want {
			t.Errorf("%s: the phase is %q, want %q", name, got, c.want)
		}
	}
}
