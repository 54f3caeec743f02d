package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selection is why the dry runs use a namespace.
type Selection string

// The selections.
const (
	// SelectedByFlag means that the user chose a namespace that Rollcall manages.
	SelectedByFlag Selection = "flag"
	// SelectedAutomatically means that Rollcall manages the namespace.
	SelectedAutomatically Selection = "automatic"
	// NotSelected means that Rollcall does not manage the namespace that the user chose.
	NotSelected Selection = "excluded"
	// NamespaceMissing means that the namespace that the user chose does not exist.
	NamespaceMissing Selection = "missing"
	// NothingSelected means that Rollcall manages no namespace.
	NothingSelected Selection = "none"
	// SelectionUnknown means that the labels of namespaces could not be read.
	SelectionUnknown Selection = "unknown"
)

// chooseNamespace returns the namespace of the dry runs. required is the namespace that the user chose, or
// empty. preferred are tried before all other namespaces.
func chooseNamespace(
	namespaces []corev1.Namespace, selector labels.Selector, required string, preferred ...string,
) (string, Selection) {
	selected := map[string]bool{}
	var names []string
	for _, n := range namespaces {
		if n.DeletionTimestamp == nil {
			selected[n.Name] = selector.Matches(labels.Set(n.Labels))
			names = append(names, n.Name)
		}
	}
	if required != "" {
		isSelected, exists := selected[required]
		switch {
		case !exists:
			return required, NamespaceMissing
		case !isSelected:
			return required, NotSelected
		}
		return required, SelectedByFlag
	}
	slices.Sort(names)
	for _, name := range append(preferred, names...) {
		if selected[name] {
			return name, SelectedAutomatically
		}
	}
	return "", NothingSelected
}

// namespaceSelector returns the selector of the namespaces that Rollcall manages: that of the mutating
// webhook, or of the validating webhook, or everything but the namespaces that are always excluded.
func (i *Installation) namespaceSelector() labels.Selector {
	var selector *metav1.LabelSelector
	if c := i.Validating.Value; c != nil {
		for _, w := range c.Webhooks {
			if w.Name == validateWebhook {
				selector = w.NamespaceSelector
			}
		}
	}
	if c := i.Mutating.Value; c != nil {
		for _, w := range c.Webhooks {
			if w.Name == injectWebhook {
				selector = w.NamespaceSelector
			}
		}
	}
	if selector == nil {
		selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{metav1.NamespaceSystem, i.Namespace},
		}}}
	}
	out, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing() // the API server rejects such a selector
	}
	return out
}
