package check

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Names of webhooks of the chart.
const (
	injectWebhook   = "inject.rollcall.training"
	suspendWebhook  = "suspend.rollcall.training"
	rankWebhook     = "pod-rank.rollcall.training"
	validateWebhook = "validate.rollcall.training"
	updateWebhook   = "validate-update.rollcall.training"
	judgeWebhook    = "judge-update.rollcall.training"
	policyWebhook   = "policy-file.rollcall.training"
)

// ownWebhooks are the names of all webhooks of the chart.
var ownWebhooks = []string{
	injectWebhook, suspendWebhook, rankWebhook, validateWebhook, updateWebhook, judgeWebhook, policyWebhook,
}

// webhookEntry is what the checks read of a mutating or validating webhook.
type webhookEntry struct {
	name              string
	rules             int
	client            admissionv1.WebhookClientConfig
	namespaceSelector *metav1.LabelSelector
	failurePolicy     admissionv1.FailurePolicyType
}

// listWebhooks returns the webhooks of both configurations.
func (i *Installation) listWebhooks() []webhookEntry {
	var out []webhookEntry
	for _, w := range ptr.Deref(i.Mutating.Value, admissionv1.MutatingWebhookConfiguration{}).Webhooks {
		policy := ptr.Deref(w.FailurePolicy, admissionv1.Fail)
		out = append(out, webhookEntry{w.Name, len(w.Rules), w.ClientConfig, w.NamespaceSelector, policy})
	}
	for _, w := range ptr.Deref(i.Validating.Value, admissionv1.ValidatingWebhookConfiguration{}).Webhooks {
		policy := ptr.Deref(w.FailurePolicy, admissionv1.Fail)
		out = append(out, webhookEntry{w.Name, len(w.Rules), w.ClientConfig, w.NamespaceSelector, policy})
	}
	return out
}

// findWebhook returns the webhook with a name. The result has no name if the webhook does not exist.
func (i *Installation) findWebhook(name string) webhookEntry {
	for _, w := range i.listWebhooks() {
		if w.name == name {
			return w
		}
	}
	return webhookEntry{failurePolicy: admissionv1.Fail}
}

// findClient returns how API servers call the webhooks. It is nil without webhook configurations.
func (i *Installation) findClient() *admissionv1.WebhookClientConfig {
	for _, w := range i.listWebhooks() {
		return &w.client
	}
	return nil
}

// judgeConfigurations judges whether the webhook configurations exist, with all webhooks and the selector of
// the controller.
func judgeConfigurations(r *reporter, i *Installation) {
	if i.Mutating.Err != nil {
		r.addUnread("the MutatingWebhookConfiguration", i.Mutating.Err)
	} else if i.Mutating.Value == nil {
		r.fail(i.upgradeCommand(), "the MutatingWebhookConfiguration does not exist")
	}
	if i.Validating.Err != nil {
		r.addUnread("the ValidatingWebhookConfiguration", i.Validating.Err)
	} else if i.Validating.Value == nil {
		r.fail(i.upgradeCommand(), "the ValidatingWebhookConfiguration does not exist")
	}
	if len(r.results) == 0 {
		i.judgeEntries(r)
	}
}

// judgeEntries judges the webhooks of existing configurations.
func (i *Installation) judgeEntries(r *reporter) {
	text, isSet := i.Controller.Flag("namespace-selector")
	var selector metav1.LabelSelector
	isSet = isSet && json.Unmarshal([]byte(text), &selector) == nil
	var absent, idle, different []string
	for _, name := range ownWebhooks {
		isMain := name == injectWebhook || name == validateWebhook
		w := i.findWebhook(name)
		switch {
		case w.name == "":
			absent = append(absent, name)
			continue
		case w.rules == 0 && isMain:
			idle = append(idle, name)
		}
		if isMain && isSet && !apiequality.Semantic.DeepEqual(w.namespaceSelector, &selector) {
			different = append(different, name)
		}
	}
	if len(absent) > 0 {
		r.fail(i.upgradeCommand(), "webhooks do not exist: %s", joinNames(absent))
	}
	if len(idle) > 0 {
		r.fail(i.upgradeCommand(), "webhooks have no rules: %s", joinNames(idle))
	}
	for _, name := range different {
		r.fail(i.upgradeCommand(), "%s selects other namespaces than the controller", name)
	}
	if len(r.results) == 0 {
		r.ok("both webhook configurations exist with %d webhooks", len(i.listWebhooks()))
	}
}

// judgeService judges whether the Service of the webhooks has ready endpoints.
func judgeService(r *reporter, i *Installation) {
	client := i.findClient()
	switch {
	case client == nil:
		r.unknown("", "the Service: no webhook configuration is known")
	case client.Service == nil:
		r.ok("API servers call the webhooks by URL: %s", ptr.Deref(client.URL, ""))
	case i.Service.Err != nil:
		r.addUnread("the Service "+client.Service.Name, i.Service.Err)
	case i.Service.Value == nil:
		r.fail(i.upgradeCommand(), "the Service %s does not exist", client.Service.Name)
	case i.ReadyEndpoints.Err != nil:
		r.addUnread("the endpoints of the Service "+client.Service.Name, i.ReadyEndpoints.Err)
	case i.ReadyEndpoints.Value == 0:
		r.fail(fmt.Sprintf("the pods of the webhook must be ready: kubectl --namespace %s get pods --selector %s",
			i.Namespace, labels.FormatLabels(i.Service.Value.Spec.Selector)),
			"the Service %s has no ready endpoints", client.Service.Name)
	default:
		r.ok("the Service %s has %s", client.Service.Name, gang.FormatCount(i.ReadyEndpoints.Value, "ready endpoint"))
	}
}
