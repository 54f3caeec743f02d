package check

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
}

// listWebhooks returns the webhooks of both configurations.
func (i *Installation) listWebhooks() []webhookEntry {
	var out []webhookEntry
	if c := i.Mutating.Value; c != nil {
		for _, w := range c.Webhooks {
			out = append(out, webhookEntry{w.Name, len(w.Rules), w.ClientConfig, w.NamespaceSelector})
		}
	}
	if c := i.Validating.Value; c != nil {
		for _, w := range c.Webhooks {
			out = append(out, webhookEntry{w.Name, len(w.Rules), w.ClientConfig, w.NamespaceSelector})
		}
	}
	return out
}

// judgeConfigurations judges whether the webhook configurations exist, with all webhooks and the selector of
// the controller.
func (f Facts) judgeConfigurations() []Result {
	i := f.Installation
	var problems []Result
	missing := func(kind string) Result {
		return newProblem(CodeWebhookConfigurations, Error, "the "+kind+" does not exist", i.upgradeCommand())
	}
	switch {
	case i.Mutating.Err != nil:
		problems = append(problems, i.Mutating.explainUnknown(CodeWebhookConfigurations, "the MutatingWebhookConfiguration"))
	case i.Mutating.Value == nil:
		problems = append(problems, missing("MutatingWebhookConfiguration"))
	}
	switch {
	case i.Validating.Err != nil:
		problems = append(problems,
			i.Validating.explainUnknown(CodeWebhookConfigurations, "the ValidatingWebhookConfiguration"))
	case i.Validating.Value == nil:
		problems = append(problems, missing("ValidatingWebhookConfiguration"))
	}
	if len(problems) > 0 {
		return problems
	}
	if problems = i.judgeEntries(); len(problems) > 0 {
		return problems
	}
	return []Result{newOK(CodeWebhookConfigurations, "both webhook configurations exist with %d webhooks",
		len(i.listWebhooks()))}
}

// judgeEntries judges the webhooks of existing configurations.
func (i *Installation) judgeEntries() []Result {
	var problems []Result
	entries := i.listWebhooks()
	var absent, idle []string
	for _, name := range ownWebhooks {
		index := slices.IndexFunc(entries, func(w webhookEntry) bool { return w.name == name })
		switch {
		case index < 0:
			absent = append(absent, name)
		case entries[index].rules == 0 && (name == injectWebhook || name == validateWebhook):
			idle = append(idle, name)
		}
	}
	if len(absent) > 0 {
		problems = append(problems, newProblem(CodeWebhookConfigurations, Error,
			"webhooks do not exist: "+joinNames(absent), i.upgradeCommand()))
	}
	if len(idle) > 0 {
		problems = append(problems, newProblem(CodeWebhookConfigurations, Error,
			"webhooks have no rules: "+joinNames(idle), i.upgradeCommand()))
	}
	text, ok := i.Controller.Flag("namespace-selector")
	var selector metav1.LabelSelector
	if !ok || json.Unmarshal([]byte(text), &selector) != nil {
		return problems
	}
	for _, w := range entries {
		if w.name != injectWebhook && w.name != validateWebhook {
			continue
		}
		if w.namespaceSelector == nil || !apiequality.Semantic.DeepEqual(*w.namespaceSelector, selector) {
			problems = append(problems, newProblem(CodeWebhookConfigurations, Error,
				w.name+" selects other namespaces than the controller", i.upgradeCommand()))
		}
	}
	return problems
}

// judgeService judges whether the Service of the webhooks has ready endpoints.
func (i *Installation) judgeService() Result {
	client := i.findClient()
	switch {
	case client == nil:
		return newProblem(CodeWebhookService, Unknown, "the Service: no webhook configuration is known", "")
	case client.Service == nil:
		return newOK(CodeWebhookService, "API servers call the webhooks by URL: %s", ptr.Deref(client.URL, ""))
	case i.Service.Err != nil:
		return i.Service.explainUnknown(CodeWebhookService, "the Service "+client.Service.Name)
	case i.Service.Value == nil:
		return newProblem(CodeWebhookService, Error, "the Service "+client.Service.Name+" does not exist",
			i.upgradeCommand())
	case i.Endpoints.Err != nil:
		return i.Endpoints.explainUnknown(CodeWebhookService, "the endpoints of the Service "+client.Service.Name)
	case i.Endpoints.Value.Ready == 0:
		return newProblem(CodeWebhookService, Error, "the Service "+client.Service.Name+" has no ready endpoints",
			fmt.Sprintf("the pods of the webhook must be ready: kubectl --namespace %s get pods --selector %s",
				i.Namespace, formatSelector(i.Service.Value.Spec.Selector)))
	}
	return newOK(CodeWebhookService, "the Service %s has %s", client.Service.Name,
		gang.FormatCount(i.Endpoints.Value.Ready, "ready endpoint"))
}

// findClient returns how API servers call the webhooks. It is nil without webhook configurations.
func (i *Installation) findClient() *admissionv1.WebhookClientConfig {
	entries := i.listWebhooks()
	if len(entries) == 0 {
		return nil
	}
	return &entries[0].client
}

// longTimeout is the timeout of a webhook in seconds from which a warning follows. It is above the default of
// Kubernetes.
const longTimeout = 11

// judgeOtherWebhooks judges the mutating webhooks of other programs that API servers call for each Job.
func (f Facts) judgeOtherWebhooks() []Result {
	if f.MutatingConfigurations.Err != nil {
		return []Result{f.MutatingConfigurations.explainUnknown(CodeOtherWebhooks, "the MutatingWebhookConfigurations")}
	}
	var problems []Result
	for _, c := range f.MutatingConfigurations.Value {
		for _, w := range c.Webhooks {
			isOwn := slices.Contains(ownWebhooks, w.Name)
			timeout := ptr.Deref(w.TimeoutSeconds, 10)
			if isOwn || ptr.Deref(w.FailurePolicy, admissionv1.Fail) != admissionv1.Fail || timeout < longTimeout ||
				!slices.ContainsFunc(w.Rules, matchesJobCreation) {
				continue
			}
			problems = append(problems, newProblem(CodeOtherWebhooks, Warning, fmt.Sprintf(
				"while the mutating webhook %s of %s does not answer, each Job waits %d s and is then rejected",
				w.Name, c.Name, timeout), "reduce its timeoutSeconds to 10 or less, or set its failurePolicy to Ignore"))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return []Result{newOK(CodeOtherWebhooks, "no other mutating webhook for Jobs has a long timeout")}
}

// matchesJobCreation reports whether a rule includes the creation of Jobs.
func matchesJobCreation(r admissionv1.RuleWithOperations) bool {
	hasGroup := slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, "batch")
	hasResource := slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*") ||
		slices.Contains(r.Resources, "jobs")
	hasOperation := slices.Contains(r.Operations, admissionv1.OperationAll) ||
		slices.Contains(r.Operations, admissionv1.Create)
	return hasGroup && hasResource && hasOperation
}
