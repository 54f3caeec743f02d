package injectors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/policy/defaults"
	"rollcall.training/plan"
)

// Engine turns labeled workloads into members of gangs. The zero value has no frameworks, so create an
// engine with [NewEngine]. An Engine is immutable and safe for concurrent use.
type Engine struct {
	registry   Registry
	frameworks gang.Frameworks
	config     gang.Config
	// schedulerFacts and queueFacts are those of [Engine.WithFacts], nil if the facts are not known.
	schedulerFacts func(gang.Scheduler) string
	queueFacts     func() string
}

// NewEngine returns an engine that supports the frameworks of a registry.
func NewEngine(registry Registry, config gang.Config) *Engine {
	return &Engine{registry: registry, frameworks: registry.Frameworks(), config: config}
}

// Frameworks returns the supported frameworks, in display order.
func (e *Engine) Frameworks() gang.Frameworks { return e.frameworks }

// Result is the outcome for one workload.
type Result struct {
	// Reason is the stable code of the outcome.
	Reason gang.Reason
	// Gang is the parsed gang. It is the zero value if the workload was not parsed.
	Gang gang.Gang
	// Children are the objects that the reconciler must create for the gang.
	Children plan.Children
	// Warnings are messages for the user.
	Warnings gang.Warnings
	// Denials are the mistakes with their remedies, if the error is a user error.
	Denials gang.Denials
}

// Inject turns w, the manifest of a new workload, into a member of its gang. It changes w in place. It
// does not change a workload without the label rollcall.training/framework, or with the annotation
// rollcall.training/inject: "false".
//
// A user error is an apierrors.StatusError with HTTP code 422 and reason Invalid, which lists all
// mistakes that can be found. After an error, w is unchanged. [IsDenied] distinguishes user errors from internal
// errors.
//
// Inject removes the phase and the status of the manifest. They belong to a different gang if the
// manifest was copied from a live object.
func (e *Engine) Inject(w gang.Workload) (Result, error) {
	return e.injectNew(w, func(draft gang.Workload) { delete(draft.Meta().Labels, gang.LabelPhase) })
}

// Admit does the same as [Engine.Inject] for a workload that is being created, and sets the phase
// Pending. During admission the phase costs no additional write.
func (e *Engine) Admit(w gang.Workload) (Result, error) {
	return e.injectNew(w, setPendingPhase)
}

// setPendingPhase sets the phase of a new workload. A Job that Rollcall does not manage has no phase, because nothing
// would change it.
func setPendingPhase(w gang.Workload) {
	if w.IsManagedExternally() {
		delete(w.Meta().Labels, gang.LabelPhase)
		return
	}
	w.Meta().Labels[gang.LabelPhase] = string(lifecycle.Pending)
}

func (e *Engine) injectNew(w gang.Workload, setPhase func(gang.Workload)) (Result, error) {
	if r, skip := e.skipUnmanaged(w); skip {
		return r, nil
	}
	warnings := e.warnQueueName(w)
	r, err := e.applyPlan(w, func(draft gang.Workload) {
		injection.ClearDerivedNames(draft)
		revertSpecChanges(draft)
		e.moveQueueName(draft)
		injection.ForgetSize(draft)
		setPhase(draft)
		// A copy of a live object contains the attempt and the status of that object.
		draft.SetAttempt(0)
		delete(draft.Template().Labels, gang.LabelAttempt)
		delete(draft.Meta().Annotations, gang.AnnotationStatus)
		delete(draft.Meta().Annotations, gang.AnnotationSuspendedBy)
	})
	r.Warnings = append(warnings, r.Warnings...)
	if err == nil {
		suspendForQueue(w, r.Gang)
	}
	return r, err
}

// AdmitUpdate injects a StatefulSet that is being updated. It changes updated in place. The injected
// values of old stay exactly as they are, unless the user changed an input of the injection. Errors
// are those of [Engine.Inject].
func (e *Engine) AdmitUpdate(old, updated *appsv1.StatefulSet) (Result, error) {
	w := gang.Workload{StatefulSet: updated}
	if r, skip := e.skipUnmanaged(w); skip {
		return r, nil
	}
	sent := w.DeepCopy()
	warnings := preserveZeroReplicas(old, updated)
	defaults.Preserve(old, updated)
	preserved, err := injection.PreserveAdmitted(old, updated)
	if err != nil {
		return Result{Reason: gang.ReasonInternalError}, apierrors.NewInternalError(err)
	}
	if preserved {
		// The workload is not parsed again. A newer release may have stricter rules, and must not deny
		// an update that does not concern these rules.
		return Result{Reason: changeReason(sent, w), Warnings: warnings}, nil
	}
	if denials := validateAdoption(old, updated); len(denials) > 0 {
		labeledWithoutWebhook := gang.Workload{StatefulSet: old}.HasFrameworkLabel()
		if labeledWithoutWebhook {
			delete(updated.Annotations, gang.AnnotationInjected) // nothing was injected
			return Result{Reason: gang.ReasonImmutableTemplate}, nil
		}
		return Result{Reason: gang.ReasonInvalid, Denials: denials}, newInvalidError(w, denials.ErrorList())
	}
	r, err := e.applyPlan(w, func(draft gang.Workload) {
		if lifecycle.ReadPhase(draft) == "" {
			setPendingPhase(draft)
		}
	})
	r.Warnings = append(warnings, r.Warnings...)
	return r, err
}

// changeReason returns ReasonUnchanged if the two workloads are equal, ReasonInjected otherwise.
func changeReason(before, after gang.Workload) gang.Reason {
	sameRecord := before.Meta().Annotations[gang.AnnotationInjected] == after.Meta().Annotations[gang.AnnotationInjected]
	if sameRecord && before.Equal(after) {
		return gang.ReasonUnchanged
	}
	return gang.ReasonInjected
}

// validateAdoption returns denials for the label on an existing StatefulSet that was not injected and
// cannot become a gang, because the required fields are immutable.
func validateAdoption(old, updated *appsv1.StatefulSet) gang.Denials {
	if (gang.Workload{StatefulSet: old}).IsInjected() {
		return nil
	}
	const fix = "; the field is immutable, so recreate the StatefulSet with the label"
	spec := field.NewPath("spec")
	var denials gang.Denials
	if policy := updated.Spec.PodManagementPolicy; policy != appsv1.ParallelPodManagement {
		err := field.NotSupported(spec.Child("podManagementPolicy"), policy,
			[]appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement})
		err.Detail += fix
		denials = append(denials, gang.Denial{Error: err})
	}
	if updated.Spec.ServiceName == "" {
		denials = append(denials, gang.Denial{Error: field.Required(spec.Child("serviceName"),
			"the ranks find each other through a headless Service"+fix)})
	}
	return denials
}

// parseGang parses a workload. A StatefulSet with 0 replicas is suspended. Its size is then the size
// that was injected, or the size that its annotations declare if it was never injected. Scaling up
// corrects a wrong declaration.
func (e *Engine) parseGang(w gang.Workload) (gang.Gang, gang.Warnings, gang.Denials) {
	if set := w.StatefulSet; set != nil && w.Ranks() == 0 {
		size := cmp.Or(injection.RecordedSize(w), gang.DeclaredSize(w, e.frameworks))
		view := *set
		view.Spec.Replicas = &size
		w = gang.Workload{StatefulSet: &view}
	}
	if w.Job != nil {
		w.Job = injection.WithoutOwnBackoffLimit(w.Job)
	}
	return gang.Parse(e.preferRecordedContainers(w), e.frameworks, e.config)
}

// preferRecordedContainers returns a copy of w in which an annotation names the training containers of
// an earlier injection, if only their position would select another container. Other webhooks insert
// sidecars as the first container.
func (e *Engine) preferRecordedContainers(w gang.Workload) gang.Workload {
	template := w.Template()
	_, named := w.Meta().Annotations[gang.AnnotationContainers]
	_, hasDefault := template.Annotations[gang.AnnotationDefaultContainer]
	if named || hasDefault || len(template.Spec.Containers) < 2 {
		return w
	}
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return w
	}
	names := record.TrainingContainers(template)
	found := e.frameworks.FindTrainingContainer(template)
	if len(names) == 0 || slices.Contains(names, found) || found != template.Spec.Containers[0].Name {
		return w
	}
	view := w.DeepCopy()
	view.Meta().Annotations[gang.AnnotationContainers] = strings.Join(names, ",")
	return view
}

// skipUnmanaged returns the result and true for a workload that Rollcall does not manage.
func (e *Engine) skipUnmanaged(w gang.Workload) (Result, bool) {
	switch {
	case !w.HasFrameworkLabel():
		return Result{Reason: gang.ReasonNotLabeled}, true
	case w.OptedOut():
		return Result{Reason: gang.ReasonOptedOut}, true
	}
	return Result{}, false
}

// applyPlan plans and applies the injection of w. It works on a copy, so that a denied workload stays
// unchanged. The function prepare makes the changes to the copy that precede parsing.
func (e *Engine) applyPlan(w gang.Workload, prepare func(gang.Workload)) (Result, error) {
	draft := w.DeepCopy()
	prepare(draft)
	parsed := injection.WithoutOwnPlacement(draft)
	g, warnings, denials := e.parseGang(parsed)
	r := Result{Reason: gang.ReasonInvalid, Gang: g, Warnings: warnings, Denials: denials}
	if len(denials) > 0 {
		r.Denials = e.findAllMistakes(w, denials, prepare)
		return r, newInvalidError(w, r.Denials.ErrorList())
	}
	return e.applyParsed(w, draft, parsed, r)
}

// applyParsed plans and applies the injection of the prepared copy of w. The gang of r was parsed from parsed.
func (e *Engine) applyParsed(w, draft, parsed gang.Workload, r Result) (Result, error) {
	g, p, err := e.planGang(draft, r.Gang)
	r.Gang = g
	if err != nil {
		r.Reason = gang.ReasonInternalError
		return r, apierrors.NewInternalError(err)
	}
	if r.Denials = validateEnvLength(w, g, p); len(r.Denials) > 0 {
		return r, newInvalidError(w, r.Denials.ErrorList())
	}
	placementWarnings, denials := e.checkScheduler(parsed, g)
	queueWarnings, queueDenials := e.checkQueue(g)
	r.Warnings = slices.Concat(r.Warnings, placementWarnings, queueWarnings)
	if r.Denials = append(denials, queueDenials...); len(r.Denials) > 0 {
		return r, newInvalidError(w, r.Denials.ErrorList())
	}
	applyWarnings, denials := injection.Apply(draft, g, p, e.config.Build)
	r.Warnings, r.Denials = append(r.Warnings, applyWarnings...), denials
	if len(denials) > 0 {
		return r, newInvalidError(w, denials.ErrorList())
	}
	recordPlacement(draft, g)
	if err := draft.CheckSize(); err != nil {
		r.Denials = gang.Denials{{Error: err}}
		return r, newInvalidError(w, r.Denials.ErrorList())
	}
	r.Children = p.Children
	r.describePlacement(draft)
	r.Reason = changeReason(w, draft)
	w.ReplaceWith(draft)
	return r, nil
}

// findAllMistakes returns the denials of parsing, and the denials that the workload gets after their remedies. The
// injection cannot be checked without a valid gang, so a denial without a remedy hides those of the injection.
func (e *Engine) findAllMistakes(w gang.Workload, denials gang.Denials, prepare func(gang.Workload)) gang.Denials {
	repaired, ok := denials.Repair(w)
	if !ok {
		return denials
	}
	draft := repaired.DeepCopy()
	prepare(draft)
	parsed := injection.WithoutOwnPlacement(draft)
	g, _, remaining := e.parseGang(parsed)
	if len(remaining) == 0 {
		r, _ := e.applyParsed(repaired, draft, parsed, Result{Gang: g}) // the result lists the denials
		remaining = r.Denials
	}
	hasNoFix := func(d gang.Denial) bool { return len(d.Fix) == 0 }
	return append(slices.DeleteFunc(denials, hasNoFix), remaining...)
}

// InjectedByOtherVersion reports whether w has the unmodified injection of another build of Rollcall.
// Differences from the injection of this build are then not the user's fault: during a rolling update,
// managers of both builds can handle the same request.
func (e *Engine) InjectedByOtherVersion(w gang.Workload) bool {
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return false
	}
	buildsKnown := record.Build != "" && e.config.Build != ""
	return buildsKnown && record.Build != e.config.Build && record.IsUnmodified(w)
}

// planGang plans the injection of a workload. It returns the gang with the settings that the plan is
// based on: those of the annotations, else those that the variables of the user contain (injection.Adopt). It
// adopts nothing if a variable is too long, because the comparison costs as much as the variable is long.
func (e *Engine) planGang(w gang.Workload, g gang.Gang) (gang.Gang, plan.Plan, error) {
	p, err := e.buildPlan(g)
	if err != nil || len(validateEnvLength(w, g, p)) > 0 {
		return g, p, err
	}
	adopted, changed := injection.Adopt(w, g, p)
	if !changed {
		return g, p, nil
	}
	p, err = e.buildPlan(adopted)
	return adopted, p, err
}

// buildPlan adds the needs of every gang to the plan of the framework's injector.
func (e *Engine) buildPlan(g gang.Gang) (plan.Plan, error) {
	inj, err := e.registry.findInjector(g.Framework.Name)
	if err != nil {
		return plan.Plan{}, err
	}
	p := inj.Plan(g)
	addBaseline(&p, g)
	return p, injection.CheckUnique(&p)
}

func newInvalidError(w gang.Workload, errs field.ErrorList) error {
	return apierrors.NewInvalid(w.GroupKind(), gang.ShortenText(w.Meta().Name), gang.LimitErrors(errs))
}

// IsDenied reports whether err is a user error that a change of the workload can fix, as opposed to an
// internal error.
func IsDenied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsInvalid(err)
}

// DenialCauses returns the mistakes that a denial lists, each as "field: message". For any other error
// it returns the text of the error.
func DenialCauses(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		out = append(out, fmt.Sprintf("%s: %s", c.Field, c.Message))
	}
	return out
}
