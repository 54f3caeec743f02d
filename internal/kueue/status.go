package kueue

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The conditions of a Workload (kueue apis/kueue/v1beta2/workload_types.go).
const (
	conditionAdmitted      = "Admitted"
	conditionQuotaReserved = "QuotaReserved"
	conditionEvicted       = "Evicted"
	conditionRequeued      = "Requeued"
	conditionPodsReady     = "PodsReady"
	conditionFinished      = "Finished"
	// conditionDeactivationTarget makes Kueue deactivate a Workload, with the message.
	conditionDeactivationTarget = "DeactivationTarget"
)

// reasonDeactivated is the reason of an eviction, or the beginning of one.
const reasonDeactivated = "Deactivated"

// Status is the status of a Workload.
type Status struct {
	// Admitted is true if the gang may run.
	Admitted bool
	// MustRelease is true if Kueue evicted the gang and waits until the gang gives the quota back.
	MustRelease bool
	// ReportsReady is true if the Workload shows that all pods are ready.
	ReportsReady bool
	// Finished is true after the end of the gang.
	Finished bool
	// Unsupported is true if [Deactivate] deactivated the Workload, and nobody activated it again.
	Unsupported bool
	// Message is why the gang waits, in the words of Kueue; empty if Kueue has not decided.
	Message string
}

// Read returns the status of a Workload. The zero value stands for no Workload, nil.
func Read(w *unstructured.Unstructured) (Status, error) {
	if w == nil {
		return Status{}, nil
	}
	conditions, err := readConditions(w)
	if err != nil {
		return Status{}, err
	}
	is := func(condition string) bool { return meta.IsStatusConditionTrue(conditions, condition) }
	out := Status{
		Admitted: is(conditionAdmitted) && !is(conditionEvicted) && !is(conditionFinished) &&
			!is(conditionDeactivationTarget),
		MustRelease:  is(conditionEvicted) && is(conditionQuotaReserved) && !is(conditionFinished),
		ReportsReady: is(conditionPodsReady), Finished: is(conditionFinished),
	}
	deactivated := meta.FindStatusCondition(conditions, conditionDeactivationTarget)
	if active, isSet, _ := unstructured.NestedBool(w.Object, "spec", "active"); isSet && !active {
		deactivated = meta.FindStatusCondition(conditions, conditionEvicted)
	}
	if deactivated != nil && strings.Contains(deactivated.Message, ErrUnsupported.Error()) {
		out.Unsupported, out.Message = true, deactivated.Message
		return out, nil
	}
	for _, name := range []string{conditionQuotaReserved, conditionAdmitted} {
		if c := meta.FindStatusCondition(conditions, name); c != nil && c.Status != metav1.ConditionTrue {
			out.Message = c.Message
			break
		}
	}
	return out, nil
}

// Release gives the quota of an evicted Workload back, so that Kueue queues it again. The gang has no pods. Kueue
// itself sets the condition Requeued after all other causes of an eviction (kueue pkg/controller/jobframework,
// ReconcileGenericJob).
func Release(w *unstructured.Unstructured, now time.Time) error {
	conditions, err := readConditions(w)
	if err != nil {
		return err
	}
	evicted := meta.FindStatusCondition(conditions, conditionEvicted)
	if evicted == nil {
		return fmt.Errorf("the Workload %s is not evicted", w.GetName())
	}
	requeued, reason := metav1.ConditionFalse, evicted.Reason
	switch {
	case reason == "Preempted" || reason == "NodeFailures":
		requeued = metav1.ConditionTrue
	case strings.HasPrefix(reason, reasonDeactivated):
		reason = reasonDeactivated // without the cause: Kueue requeues an activated Workload only with this reason
	}
	unstructured.RemoveNestedField(w.Object, "status", "admission")
	// Kueue does not remove the condition of another field manager, and would deactivate the Workload again.
	meta.RemoveStatusCondition(&conditions, conditionDeactivationTarget)
	return setConditions(w, conditions, now, []metav1.Condition{
		{Type: conditionRequeued, Status: requeued, Reason: reason, Message: evicted.Message},
		{Type: conditionQuotaReserved, Status: metav1.ConditionFalse, Reason: "Pending", Message: evicted.Message},
		{Type: conditionAdmitted, Status: metav1.ConditionFalse, Reason: "NoReservation",
			Message: "The workload has no reservation"},
		{Type: conditionPodsReady, Status: metav1.ConditionFalse, Reason: "WaitForStart",
			Message: "Not all pods are ready or succeeded"},
	})
}

// Finish ends a Workload, which gives its quota back.
func Finish(w *unstructured.Unstructured, succeeded bool, message string, now time.Time) error {
	reason := "Failed"
	if succeeded {
		reason = "Succeeded"
	}
	return changeStatus(w, now, metav1.Condition{
		Type: conditionFinished, Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

// ReportReady sets the condition PodsReady, without which Kueue evicts the gang if waitForPodsReady is on.
func ReportReady(w *unstructured.Unstructured, now time.Time) error {
	return changeStatus(w, now, metav1.Condition{Type: conditionPodsReady, Status: metav1.ConditionTrue, Reason: "Started",
		Message: "All pods reached readiness and the workload is running"})
}

// Deactivate makes Kueue deactivate and evict a Workload whose admission is [ErrUnsupported]. A user can activate it.
func Deactivate(w *unstructured.Unstructured, unsupported error, now time.Time) error {
	return changeStatus(w, now, metav1.Condition{Type: conditionDeactivationTarget, Status: metav1.ConditionTrue,
		Reason: "UnsupportedByRollcall", Message: unsupported.Error()})
}

func changeStatus(w *unstructured.Unstructured, now time.Time, condition metav1.Condition) error {
	conditions, err := readConditions(w)
	if err != nil {
		return err
	}
	return setConditions(w, conditions, now, []metav1.Condition{condition})
}

func readConditions(w *unstructured.Unstructured) ([]metav1.Condition, error) {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	err := readStatus(w, &status)
	return status.Conditions, err
}

// readStatus reads fields of the status of a Workload.
func readStatus(w *unstructured.Unstructured, fields any) error {
	raw, _, err := unstructured.NestedMap(w.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, fields)
	}
	if err != nil {
		return fmt.Errorf("reading the status of the Workload %s: %w", w.GetName(), err)
	}
	return nil
}

func setConditions(
	w *unstructured.Unstructured, conditions []metav1.Condition, now time.Time, changed []metav1.Condition,
) error {
	for _, c := range changed {
		c.LastTransitionTime, c.ObservedGeneration = metav1.NewTime(now), w.GetGeneration()
		meta.SetStatusCondition(&conditions, c)
	}
	var list []any
	for i := range conditions {
		c, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i])
		if err != nil {
			return fmt.Errorf("converting a condition: %w", err)
		}
		list = append(list, c)
	}
	return unstructured.SetNestedSlice(w.Object, list, "status", "conditions")
}
