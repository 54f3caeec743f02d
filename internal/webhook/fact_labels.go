package webhook

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/policy"
)

// factKeys are the labels with facts about a gang. Policy engines, kubectl and tools for costs can select
// workloads by them. They are not in the pod template, so that a change does not replace pods.
var factKeys = []string{gang.LabelSize, gang.LabelAccelerators}

// setFactLabels sets the labels with facts of a gang. The parameter sent contains the labels of the
// request, and old those that Rollcall wrote before. A value that the user wrote stays, and
// [checkFactLabels] denies it if it is wrong.
func setFactLabels(g gang.Gang, w gang.Workload, sent, old map[string]string) {
	labels := w.Meta().Labels
	if g.Name == "" { // not parsed, because the gang did not change
		for _, key := range factKeys {
			if old[key] != "" && sent[key] == "" {
				labels[key] = old[key]
			}
		}
		return
	}
	want := policy.Member{Gang: g, Workload: w}.FactLabels()
	for _, key := range factKeys {
		isOfUser := sent[key] != "" && sent[key] != old[key]
		switch {
		case isOfUser:
		case want[key] == "":
			delete(labels, key)
		default:
			labels[key] = want[key]
		}
	}
}

// checkFactLabels returns a denial if a label with a fact has another value than the fact. The parameter
// old contains the labels before an update: it does not concern a label that it does not change.
func checkFactLabels(g gang.Gang, w gang.Workload, old map[string]string) error {
	if g.Name == "" {
		return nil
	}
	want := policy.Member{Gang: g, Workload: w}.FactLabels()
	var errs field.ErrorList
	for _, key := range factKeys {
		value, ok := w.Meta().Labels[key]
		if ok && value != want[key] && value != old[key] {
			errs = append(errs, field.Invalid(fieldpath.Labels.Key(key), gang.ShortenText(value),
				fmt.Sprintf("Rollcall writes the label, and its value is %q; remove the label", want[key])))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(w.GroupKind(), gang.ShortenText(w.Meta().Name), errs)
}
