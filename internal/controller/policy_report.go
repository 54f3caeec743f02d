package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// reportGVK is the kind of the reports (https://github.com/openreports/reports-api).
var reportGVK = schema.GroupVersionKind{Group: "openreports.io", Version: "v1alpha1", Kind: "Report"}

const (
	// maxReportResults limits the results of a report. The summary counts all violations.
	maxReportResults = 20
	// reportRetryInterval is the interval at which the API of the reports is looked for.
	reportRetryInterval = 5 * time.Minute
)

// memberFinding is a finding and a reference to the member that violates the rule.
type memberFinding struct {
	policy.Finding
	member map[string]any
}

// syncReports creates, updates and deletes the reports of the gangs of a request, each named after its
// primary member. A report is written only if it differs from the report that this process wrote
// before. A new process does not know the reports of earlier processes: it tries once to delete the
// report of each other member. The API server ignores an applied report that is equal.
func (r *Reconciler) syncReports(ctx context.Context, p *pass, gangs []*observedGang) {
	if !r.PolicyReports {
		return
	}
	written, now := p.session.reportDigests, r.Clock.Now()
	for uid, report := range desiredReports(gangs, written) {
		digest := digestReport(report)
		if last, ok := written[uid]; ok && last == digest {
			continue
		}
		if now.UnixNano() < r.reportRetryTime.Load() {
			p.requeueAfter(reportRetryInterval)
			return
		}
		err := r.writeReport(ctx, p.request.Namespace, uid, report)
		switch {
		case meta.IsNoMatchError(err):
			if r.reportRetryTime.Swap(now.Add(reportRetryInterval).UnixNano()) == 0 {
				log.FromContext(ctx).Info("Skipped the reports of the policy because the cluster has no API for them",
					"api", reportGVK.GroupVersion().String(), "retryInterval", reportRetryInterval.String())
			}
			p.requeueAfter(reportRetryInterval)
			return
		case err != nil:
			p.handleError(fmt.Errorf("writing the report of the policy: %w", err))
		default:
			put(&p.session.reportDigests, uid, digest)
		}
	}
}

// desiredReports returns the report for each member, and for each written report of a former member; nil
// for no report. It removes the former members without a report from written.
func desiredReports(gangs []*observedGang, written map[types.UID]string) map[types.UID]*unstructured.Unstructured {
	reports := map[types.UID]*unstructured.Unstructured{}
	for _, g := range gangs {
		for _, m := range g.Members {
			reports[m.Meta().UID] = nil
		}
		if len(g.findings) > 0 {
			reports[g.primaryMember().Meta().UID] = newReport(g)
		}
	}
	for uid, digest := range written {
		if _, isMember := reports[uid]; !isMember && digest != "" {
			reports[uid] = nil
		} else if !isMember {
			delete(written, uid)
		}
	}
	return reports
}

// digestReport returns an empty string for nil.
func digestReport(report *unstructured.Unstructured) string {
	if report == nil {
		return ""
	}
	data, err := json.Marshal(report.Object)
	if err != nil {
		return err.Error() // the content of a report can always be marshaled
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// writeReport applies a report, or deletes the report of a member if report is nil.
func (r *Reconciler) writeReport(
	ctx context.Context, namespace string, uid types.UID, report *unstructured.Unstructured,
) error {
	if report != nil {
		return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(report.DeepCopy()), FieldOwner,
			client.ForceOwnership)
	}
	old := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: reportName(uid)}}
	old.SetGroupVersionKind(reportGVK)
	return client.IgnoreNotFound(r.Client.Delete(ctx, old))
}

// reportName returns the name of the report of a primary member. Other tools use the UID without prefix.
func reportName(uid types.UID) string { return "rollcall-" + string(uid) }

// newReport returns the report of a gang that violates the policy. It contains no times, so that equal
// findings result in an equal report.
func newReport(g *observedGang) *unstructured.Unstructured {
	owner := g.primaryMember()
	summary := map[string]any{"pass": int64(0), "fail": int64(0), "warn": int64(0), "error": int64(0), "skip": int64(0)}
	results := []any{}
	for _, f := range g.findings {
		outcome := "warn"
		if f.Mode == policy.ModeEnforce {
			outcome = "fail"
		}
		summary[outcome] = summary[outcome].(int64) + 1
		if len(results) == maxReportResults {
			continue
		}
		scope, rule, _ := strings.Cut(f.Rule, "/")
		results = append(results, map[string]any{
			"policy": scope, "rule": rule, "result": outcome, "scored": outcome == "fail",
			"message":    gang.ShortenText(f.String()),
			"properties": map[string]any{"mode": string(f.Mode)},
			"resources":  []any{f.member},
		})
	}
	if omitted := len(g.findings) - len(results); omitted > 0 {
		results[len(results)-1].(map[string]any)["properties"].(map[string]any)["omittedResults"] = fmt.Sprint(omitted)
	}
	report := &unstructured.Unstructured{Object: map[string]any{
		"source":  "rollcall",
		"scope":   referTo(owner.Workload),
		"summary": summary,
		"results": results,
	}}
	report.SetGroupVersionKind(reportGVK)
	report.SetNamespace(owner.Meta().Namespace)
	report.SetName(reportName(owner.Meta().UID))
	report.SetLabels(map[string]string{injectors.LabelManagedBy: injectors.ManagedBy})
	// Without blockOwnerDeletion, Rollcall needs no permission to update finalizers.
	report.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: workloadAPIVersion(owner.Workload), Kind: string(owner.Kind()),
		Name: owner.Meta().Name, UID: owner.Meta().UID,
	}})
	return report
}

// referTo returns a reference to a workload.
func referTo(w gang.Workload) map[string]any {
	return map[string]any{
		"apiVersion": workloadAPIVersion(w), "kind": string(w.Kind()),
		"namespace": w.Meta().Namespace, "name": w.Meta().Name, "uid": string(w.Meta().UID),
	}
}

func workloadAPIVersion(w gang.Workload) string { return w.GroupKind().Group + "/v1" }
