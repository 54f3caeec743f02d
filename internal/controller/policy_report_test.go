package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/roster"
)

// reportRequests records the requests of a test cluster for reports.
type reportRequests struct {
	applies, deletes int
	// err is the result of the next requests.
	err error
}

// newReportCluster returns a test cluster with reports, a policy, and the Job train of 4 pods.
func newReportCluster(t *testing.T, limits string) (*testCluster, *testPolicies, *reportRequests) {
	t.Helper()
	job := newGPUJob(t, "train", "", "", 4)
	job.UID = "uid-1"
	w, requests := newTestCluster(t, job), &reportRequests{}
	policies := &testPolicies{policy: readPolicy(t, limits)}
	w.Policy, w.PolicyReports = policies, true
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Apply: func(
			ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption,
		) error {
			requests.applies++
			if requests.err != nil {
				return requests.err
			}
			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			requests.deletes++
			if requests.err != nil {
				return requests.err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	return w, policies, requests
}

// listReports returns the reports without server-side metadata.
func (w *testCluster) listReports(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(reportGVK.GroupVersion().WithKind("ReportList"))
	if err := w.List(t.Context(), list); err != nil && !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
		list.Items[i].SetResourceVersion("")
	}
	return list.Items
}

const violatedLimits = "cluster: {limits: {gpus: {max: 16}, size: {max: 2, mode: audit}}}"

// TestReport checks the content of a report, and that equal findings are written once.
func TestReport(t *testing.T) {
	w, policies, requests := newReportCluster(t, violatedLimits)
	w.reconcileOnce(t, trainJobRequest)
	job := map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "namespace": "team", "name": "train", "uid": "uid-1",
	}
	want := []unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "openreports.io/v1alpha1", "kind": "Report",
		"metadata": map[string]any{
			"namespace": "team", "name": "rollcall-uid-1",
			"labels": map[string]any{"app.kubernetes.io/managed-by": "rollcall"},
			"ownerReferences": []any{
				map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-1"},
			},
		},
		"source": "rollcall", "scope": job,
		"summary": map[string]any{
			"pass": int64(0), "fail": int64(1), "warn": int64(1), "error": int64(0), "skip": int64(0),
		},
		"results": []any{
			map[string]any{
				"policy": "cluster", "rule": "gpus", "result": "fail", "scored": true,
				"message": "spec.parallelism: makes a gang of 32 accelerators (4 pods x 8), at most 16 are allowed; " +
					"use at most 2 pods (policy cluster/gpus)",
				"properties": map[string]any{"mode": "enforce"}, "resources": []any{job},
			},
			map[string]any{
				"policy": "cluster", "rule": "size", "result": "warn", "scored": false,
				"message":    "spec.parallelism: makes a gang of 4 pods, at most 2 are allowed (policy cluster/size)",
				"properties": map[string]any{"mode": "audit"}, "resources": []any{job},
			},
		},
	}}}
	if diff := cmp.Diff(want, w.listReports(t)); diff != "" {
		t.Error("reports (-want +got):\n" + diff)
	}

	policies.policy = readPolicy(t, violatedLimits+"\nexemptions: []") // another digest, equal findings
	w.reconcileOnce(t, trainJobRequest)
	w.reconcileOnce(t, trainJobRequest)
	if requests.applies != 1 || requests.deletes != 0 {
		t.Errorf("equal findings: %d applies and %d deletions, want 1 and 0", requests.applies, requests.deletes)
	}

	policies.policy = readPolicy(t, "cluster: {limits: {size: {max: 2, mode: audit}}}")
	w.reconcileOnce(t, trainJobRequest)
	got := w.listReports(t)
	if len(got) != 1 || len(got[0].Object["results"].([]any)) != 1 {
		t.Errorf("after a violation ended, the reports are %v, want one result", got)
	}
}

// TestReportOfCompliantGang checks that a report is deleted, also by a process that did not write it, and
// that a compliant gang causes no further requests.
func TestReportOfCompliantGang(t *testing.T) {
	for name, restart := range map[string]bool{
		"the process that wrote the report": false,
		"a new process":                     true,
	} {
		t.Run(name, func(t *testing.T) {
			w, policies, requests := newReportCluster(t, violatedLimits)
			w.reconcileOnce(t, trainJobRequest)
			if restart {
				w.sessions.forgetGang(trainJobRequest, false)
			}
			policies.policy = readPolicy(t, "")
			for range 3 {
				w.reconcileOnce(t, trainJobRequest)
			}
			if got := w.listReports(t); len(got) != 0 || requests.deletes != 1 {
				t.Errorf("%d deletions, want 1; reports: %v", requests.deletes, got)
			}
		})
	}
}

// TestReportWithoutLabel checks that the report of a workload that is no longer a gang is deleted.
func TestReportWithoutLabel(t *testing.T) {
	w, _, _ := newReportCluster(t, violatedLimits)
	w.reconcileOnce(t, trainJobRequest)
	job := newGPUJob(t, "train", "", "", 4)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	delete(job.Labels, gang.LabelFramework)
	if err := w.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainJobRequest)
	if got := w.listReports(t); len(got) != 0 {
		t.Errorf("the report of a workload without the label remains: %v", got)
	}
}

// TestReportOfFormerGang checks that the deletion of the report of a former gang is repeated after an error.
func TestReportOfFormerGang(t *testing.T) {
	w, _, requests := newReportCluster(t, violatedLimits)
	w.reconcileOnce(t, trainJobRequest)
	if err := w.Delete(t.Context(), newGPUJob(t, "train", "", "", 4)); err != nil {
		t.Fatal(err)
	}
	requests.err = errors.New("the API server is not available")
	if _, err := w.Reconcile(t.Context(), trainJobRequest); !errors.Is(err, requests.err) {
		t.Errorf("the pass returned %v, want %v", err, requests.err)
	}
	requests.err = nil
	w.reconcileOnce(t, trainJobRequest)
	if got := w.listReports(t); len(got) != 0 || len(w.sessions.byRequest) != 0 {
		t.Errorf("%d sessions and the reports %v remain", len(w.sessions.byRequest), got)
	}
}

// TestReportIsOptional checks that no report is written without the option.
func TestReportIsOptional(t *testing.T) {
	w, _, requests := newReportCluster(t, violatedLimits)
	w.PolicyReports = false
	w.reconcileOnce(t, trainJobRequest)
	if requests.applies+requests.deletes != 0 {
		t.Errorf("requests without the option: %+v", requests)
	}
}

// TestReportWithoutAPI checks that a missing API fails no pass, and that it is looked for again later.
func TestReportWithoutAPI(t *testing.T) {
	w, _, requests := newReportCluster(t, violatedLimits)
	requests.err = fmt.Errorf("finding the API: %w", &meta.NoKindMatchError{GroupKind: reportGVK.GroupKind()})
	for range 3 {
		result, err := w.Reconcile(t.Context(), trainJobRequest)
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > reportRetryInterval {
			t.Errorf("Reconcile() = %+v, %v; want a retry within %s", result, err, reportRetryInterval)
		}
	}
	if requests.applies != 1 {
		t.Errorf("%d requests for a missing API, want 1", requests.applies)
	}
	requests.err = nil
	w.clock.SetTime(w.clock.Now().Add(reportRetryInterval))
	w.reconcileOnce(t, trainJobRequest)
	if got := w.listReports(t); len(got) != 1 {
		t.Errorf("after the API was installed, the reports are %v, want 1", got)
	}
}

// TestReportIsBounded checks that a report of many findings with long messages remains small.
func TestReportIsBounded(t *testing.T) {
	job := newGPUJob(t, "train", "", "", 4)
	g := &observedGang{}
	g.Members = []member{{Member: roster.Member{Workload: gang.Workload{Job: job}}}}
	for i := range policy.MaxRules {
		g.findings = append(g.findings, memberFinding{
			Finding: policy.Finding{
				Rule: fmt.Sprintf("cluster/rule-%d", i), Mode: policy.ModeWarn, Field: "spec",
				Message: strings.Repeat("é", 1024),
			},
			member: referTo(gang.Workload{Job: job}),
		})
	}
	report := newReport(g)
	data, err := json.Marshal(report.Object)
	if err != nil || len(data) > 32<<10 {
		t.Errorf("the report has %d bytes, %v; want at most 32 KiB", len(data), err)
	}
	warned, _, _ := unstructured.NestedInt64(report.Object, "summary", "warn")
	results, _, _ := unstructured.NestedSlice(report.Object, "results")
	omitted, _, _ := unstructured.NestedString(results[len(results)-1].(map[string]any), "properties", "omittedResults")
	if warned != policy.MaxRules || len(results) != maxReportResults || omitted != "1004" {
		t.Errorf("%d warnings, %d results and %q omitted results; want %d, %d and 1004",
			warned, len(results), omitted, policy.MaxRules, maxReportResults)
	}
}

// TestDesiredReports checks that the report follows the primary member, and that former members are
// forgotten.
func TestDesiredReports(t *testing.T) {
	const roles = "master=1,worker=4"
	newMember := func(name, role string, pods int32) member {
		job := newGPUJob(t, name, role, roles, pods)
		job.UID = types.UID(name)
		return member{Member: roster.Member{Workload: gang.Workload{Job: job}}}
	}
	g := &observedGang{}
	g.Members = []member{newMember("train-master", "master", 1), newMember("train-worker", "worker", 4)}
	g.findings = []memberFinding{{Finding: policy.Finding{Rule: "cluster/gpus"}, member: referTo(g.Members[1].Workload)}}
	written := map[types.UID]string{"train-worker": "digest", "removed": "digest", "forgotten": ""}
	var created, deleted []string
	for uid, report := range desiredReports([]*observedGang{g}, written) {
		if report != nil {
			created = append(created, string(uid))
			if owner := report.GetOwnerReferences(); len(owner) != 1 || owner[0].UID != uid {
				t.Errorf("the owners of the report are %v, want the primary member", owner)
			}
			continue
		}
		deleted = append(deleted, string(uid))
	}
	slices.Sort(deleted)
	want := [][]string{{"train-master"}, {"removed", "train-worker"}}
	if diff := cmp.Diff(want, [][]string{created, deleted}); diff != "" {
		t.Error("created and deleted reports (-want +got):\n" + diff)
	}
	if _, ok := written["forgotten"]; ok {
		t.Error("a former member without a report is not forgotten")
	}
}
