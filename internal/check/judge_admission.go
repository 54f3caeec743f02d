package check

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// isInjected reports whether the dry run proved that a Job is injected.
func (a Admission) isInjected() bool {
	return a.Job.Err == nil && a.Job.Value != nil && a.Job.Value.Annotations[gang.AnnotationInjected] != ""
}

// judgeInjection judges the dry run of a labeled Job.
func (f Facts) judgeInjection() Result {
	i := f.Installation
	a := i.Admission
	switch a.Selection {
	case NothingSelected:
		return newProblem(CodeInjection, Error, "Rollcall manages no existing namespace",
			"change the values webhook.namespaceSelector and namespaces, or label a namespace")
	case NamespaceMissing:
		return newProblem(CodeInjection, Error, "the namespace "+a.Namespace+" does not exist",
			"choose another --namespace")
	case NotSelected:
		return newProblem(CodeInjection, Error, "Rollcall does not manage the namespace "+a.Namespace,
			"change the labels of the namespace or the values webhook.namespaceSelector and namespaces; Rollcall never "+
				"manages kube-system and its own namespace")
	}
	where := fmt.Sprintf("a labeled Job in the namespace %s", a.Namespace)
	if a.Job.Err != nil {
		return a.explainRejection(where)
	}
	if a.isInjected() {
		return newOK(CodeInjection, "%s is injected (dry run)", where)
	}
	if a.Selection == SelectionUnknown {
		return newProblem(CodeInjection, Unknown, where+" is not injected (dry run), but the labels of the namespace are "+
			"not known", "choose a namespace that Rollcall manages with --namespace, or grant the permission to get namespaces")
	}
	if i.Mutating.Err == nil && i.Mutating.Value == nil {
		return newProblem(CodeInjection, Error, where+" is not injected, because the MutatingWebhookConfiguration does "+
			"not exist (dry run)", i.upgradeCommand())
	}
	return newProblem(CodeInjection, Error, where+" is admitted without injection: API servers cannot call the webhook, "+
		"and its failurePolicy is Ignore (dry run)", explainReach(""))
}

// explainRejection returns the result of a labeled Job that was rejected.
func (a Admission) explainRejection(where string) Result {
	err, text := a.Job.Err, shortenError(a.Job.Err)
	switch webhook := findWebhook(text); {
	case strings.Contains(text, "failed calling webhook") && webhook != "":
		return newProblem(CodeInjection, Error, "API servers cannot call the webhook: "+text, explainReach(text))
	case webhook != "" && strings.Contains(text, "does not match the injection"):
		return newProblem(CodeInjection, Error, where+" is not injected (dry run): "+text,
			"restore the MutatingWebhookConfiguration with helm upgrade --reuse-values")
	case webhook != "":
		return newProblem(CodeInjection, Unknown, where+" is denied by Rollcall (dry run): "+text,
			"choose a namespace with --namespace in which the policy permits the image "+checkImage)
	case apierrors.IsForbidden(err) && isMissingPermission(text):
		return a.Job.explainUnknown(CodeInjection, where)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInternalError(err) || strings.Contains(text, "admission webhook"):
		return newProblem(CodeInjection, Unknown, where+" is rejected by something else (dry run): "+text,
			"choose another namespace with --namespace")
	}
	return a.Job.explainUnknown(CodeInjection, where)
}

// findWebhook returns the name of the webhook of Rollcall that an error names; empty for none.
func findWebhook(text string) string {
	i := slices.IndexFunc(ownWebhooks, func(name string) bool { return strings.Contains(text, `"`+name+`"`) })
	if i < 0 {
		return ""
	}
	return ownWebhooks[i]
}

// isMissingPermission reports whether the text is the error of an authorizer.
func isMissingPermission(text string) bool {
	return strings.Contains(text, "cannot create resource")
}

// explainReach returns the fix for a webhook that API servers cannot call. The text is their error.
func explainReach(text string) string {
	switch {
	case strings.Contains(text, "x509") || strings.Contains(text, "certificate"):
		return "see the results of CABundle and Certificate"
	case strings.Contains(text, "not found") || strings.Contains(text, "no endpoints"):
		return "see the results of WebhookReady and WebhookService"
	}
	return "if the pods of the webhook are ready, permit connections from the API servers to the value webhook.port " +
		"of the nodes (firewalls, NetworkPolicies)"
}

// judgeDenial judges the dry run of an invalid Job.
func (i *Installation) judgeDenial() Result {
	a := i.Admission
	if a.Namespace == "" || a.Selection == NotSelected || a.Selection == NamespaceMissing {
		return newProblem(CodeDenial, Unknown, "the denial of an invalid Job: no namespace is managed by Rollcall",
			"see the result of Injection")
	}
	where := fmt.Sprintf("an invalid Job in the namespace %s", a.Namespace)
	if a.Denial.Err == nil {
		status := Error
		if a.Selection == SelectionUnknown {
			status = Unknown
		}
		return newProblem(CodeDenial, status, where+" is admitted (dry run)", "see the result of Injection")
	}
	text := shortenError(a.Denial.Err)
	switch webhook := findWebhook(text); {
	case webhook != "" && strings.Contains(text, invalidField):
		return newOK(CodeDenial, "%s is denied with the reason (dry run)", where)
	case webhook != "" && strings.Contains(text, "failed calling webhook"):
		return newProblem(CodeDenial, Unknown, where+": API servers cannot call the webhook", "see the result of Injection")
	case webhook != "":
		return newProblem(CodeDenial, Error, where+" is denied without its reason: "+text, "")
	case apierrors.IsForbidden(a.Denial.Err) && !isMissingPermission(text):
		return newProblem(CodeDenial, Unknown, where+" is rejected by something else: "+text,
			"choose another namespace with --namespace")
	}
	return a.Denial.explainUnknown(CodeDenial, where)
}

// hasFinished reports whether a workload completed or failed.
func hasFinished(w gang.Workload) bool {
	o := lifecycle.Observe(w)
	return o.Complete || o.Failed
}

// judgeWorkloads judges the labeled workloads that were admitted without injection.
func (f Facts) judgeWorkloads() []Result {
	if f.Workloads.Err != nil {
		return []Result{f.Workloads.explainUnknown(CodeNotInjected, "the labeled workloads")}
	}
	var names []string
	injected := 0
	for _, w := range f.Workloads.Value {
		switch {
		case w.OptedOut() || hasFinished(w):
		case w.Meta().Annotations[gang.AnnotationInjected] != "":
			injected++
		default:
			names = append(names, w.Meta().Namespace+"/"+strings.ToLower(string(w.Kind()))+"/"+w.Meta().Name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		return []Result{newProblem(CodeNotInjected, Warning,
			"labeled workloads were admitted without injection, so they are not gangs: "+joinNames(names),
			"delete and recreate them in a namespace that Rollcall manages, or set their label "+
				gang.LabelInject+": \"false\"")}
	}
	if injected == 0 {
		return []Result{newOK(CodeNotInjected, "no labeled workloads run")}
	}
	return []Result{newOK(CodeNotInjected,
		"no labeled workload was admitted without injection; %d are injected", injected)}
}
