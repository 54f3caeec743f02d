package check

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// judgeInjection judges the dry run of a labeled Job.
func judgeInjection(r *reporter, i *Installation) {
	a := i.Admission
	where := "a labeled Job in the namespace " + a.Namespace
	switch {
	case a.Namespace == "":
		r.fail("change the values webhook.namespaceSelector and namespaces, or label a namespace",
			"Rollcall manages no existing namespace")
	case a.isExcluded():
		r.fail("change the labels of the namespace or the values webhook.namespaceSelector and namespaces; Rollcall never "+
			"manages kube-system and its own namespace",
			"Rollcall does not manage the namespace %s, or it does not exist", a.Namespace)
	case a.Job.Err != nil:
		a.explainRejection(r, where)
	case a.isInjected():
		r.ok("%s is injected (dry run)", where)
	case a.Selected.Err != nil:
		r.unknown("choose a namespace that Rollcall manages with --namespace, or grant the permission to get namespaces",
			"%s is not injected (dry run), but the labels of the namespace are not known", where)
	case i.Mutating.Err == nil && i.Mutating.Value == nil:
		r.fail(i.upgradeCommand(),
			"%s is not injected, because the MutatingWebhookConfiguration does not exist (dry run)", where)
	default:
		r.fail(reachFix, "%s is admitted without injection: API servers cannot call the webhook, and its "+
			"failurePolicy is Ignore (dry run)", where)
	}
}

// explainRejection reports a labeled Job that was rejected.
func (a Admission) explainRejection(r *reporter, where string) {
	text := shortenError(a.Job.Err)
	isOwn := namesWebhook(text)
	switch {
	case isOwn && strings.Contains(text, "failed calling webhook"):
		r.fail(reachFix, "API servers cannot call the webhook: %s", text)
	case isOwn && strings.Contains(text, "does not match the injection"):
		r.fail("restore the MutatingWebhookConfiguration with helm upgrade --reset-then-reuse-values",
			"%s is not injected (dry run): %s", where, text)
	case isOwn:
		r.unknown("choose a namespace with --namespace in which the policy permits the image of the Job",
			"%s is denied by Rollcall (dry run): %s", where, text)
	case isOtherRejection(a.Job.Err):
		r.unknown("choose another namespace with --namespace", "%s is rejected by something else (dry run): %s",
			where, text)
	default:
		r.addUnread(where, a.Job.Err)
	}
}

// isOtherRejection reports whether the API server or another webhook rejected a Job, although the user must create
// Jobs.
func isOtherRejection(err error) bool {
	text := err.Error()
	isMissingPermission := strings.Contains(text, "cannot create resource") // of an authorizer
	return !isMissingPermission && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInternalError(err) || strings.Contains(text, "admission webhook"))
}

// namesWebhook reports whether an error names a webhook of Rollcall.
func namesWebhook(text string) bool {
	return slices.ContainsFunc(ownWebhooks, func(name string) bool { return strings.Contains(text, `"`+name+`"`) })
}

// reachFix is the fix for a webhook that API servers cannot call.
const reachFix = "see the results of WebhookReady, WebhookService, CABundle and Certificate; if they are ok, permit " +
	"connections from the API servers to the value webhook.port of the nodes (firewalls, NetworkPolicies)"

// judgeDenial judges the dry run of an invalid Job.
func judgeDenial(r *reporter, i *Installation) {
	a := i.Admission
	where := "an invalid Job in the namespace " + a.Namespace
	const seeInjection = "see the result of Injection"
	switch {
	case a.isExcluded():
		r.unknown(seeInjection, "the denial of an invalid Job: no namespace is managed by Rollcall")
		return
	case a.Denial.Err == nil && a.Selected.Err != nil:
		r.unknown(seeInjection, "%s is admitted (dry run)", where)
		return
	case a.Denial.Err == nil:
		r.fail(seeInjection, "%s is admitted (dry run)", where)
		return
	}
	text := shortenError(a.Denial.Err)
	isOwn := namesWebhook(text)
	switch {
	case isOwn && strings.Contains(text, invalidField):
		r.ok("%s is denied with the reason (dry run)", where)
	case isOwn && strings.Contains(text, "failed calling webhook"):
		r.unknown(seeInjection, "%s: API servers cannot call the webhook", where)
	case isOwn:
		r.fail("", "%s is denied without its reason: %s", where, text)
	case isOtherRejection(a.Denial.Err):
		r.unknown("choose another namespace with --namespace", "%s is rejected by something else: %s", where, text)
	default:
		r.addUnread(where, a.Denial.Err)
	}
}

// judgeWorkloads judges the labeled workloads that were admitted without injection.
func judgeWorkloads(r *reporter, f Facts) {
	if f.Workloads.Err != nil {
		r.addUnread("the labeled workloads", f.Workloads.Err)
		return
	}
	var names []string
	injected := 0
	for _, w := range f.Workloads.Value {
		switch observed := lifecycle.Observe(w); {
		case w.OptedOut() || observed.Complete || observed.Failed:
		case w.Meta().Annotations[gang.AnnotationInjected] != "":
			injected++
		default:
			names = append(names, w.Meta().Namespace+"/"+w.Kind().ObjectName(w.Meta().Name))
		}
	}
	slices.Sort(names)
	switch {
	case len(names) > 0:
		r.warn("delete and recreate them in a namespace that Rollcall manages, or set their label "+
			gang.LabelInject+": \"false\"",
			"labeled workloads were admitted without injection, so they are not gangs: %s", joinNames(names))
	case injected == 0:
		r.ok("no labeled workloads run")
	default:
		r.ok("no labeled workload was admitted without injection; %d are injected", injected)
	}
}
