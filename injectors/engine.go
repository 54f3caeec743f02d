package injectors

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Engine turns labelled workloads into members of gangs. Its zero value knows no
// framework; use [New].
type Engine struct {
	registry   Registry
	frameworks gang.Frameworks
	config     gang.Config
}

// New returns an engine over the given injectors.
func New(r Registry, cfg gang.Config) *Engine {
	return &Engine{registry: r, frameworks: r.Frameworks(), config: cfg}
}

// Frameworks returns what the engine supports, in the order shown to users.
func (e *Engine) Frameworks() gang.Frameworks { return e.frameworks }

// Result says what became of one workload.
type Result struct {
	// Reason is the stable code of the outcome.
	Reason gang.Reason
	// Gang is what the workload was read as; the zero value where it is none.
	Gang gang.Gang
	// Children are the objects that the reconciler makes for the gang.
	Children plan.Children
	// Warnings are for the user, one line each.
	Warnings []string
}

// Inject makes w, the manifest of a workload that is to be created, a member of its
// gang. A workload without the label, or with rollcall.training/inject: "false", is
// left alone. The error is an apierrors.StatusError of HTTP 422 and kind Invalid
// that lists all mistakes at once; w is unchanged then.
//
// A phase that came with the manifest is taken away: manifests are copied from
// live objects, and it is some other gang's.
func (e *Engine) Inject(w gang.Workload) (Result, error) {
	return e.create(w, func(draft gang.Workload) { delete(draft.Meta().Labels, gang.LabelPhase) })
}

// Admit does what Inject does for a workload that is being created, and begins its
// life: the first phase is free at admission, and costs a write later.
func (e *Engine) Admit(w gang.Workload) (Result, error) {
	return e.create(w, begin)
}

func begin(w gang.Workload) { w.Meta().Labels[gang.LabelPhase] = string(gang.Pending) }

func (e *Engine) create(w gang.Workload, phase func(gang.Workload)) (Result, error) {
	if r, stop := e.skip(w); stop {
		return r, nil
	}
	return e.apply(w, func(draft gang.Workload) {
		plan.Rename(draft)
		revive(draft)
		phase(draft)
		delete(draft.Template().Labels, gang.LabelAttempt) // of the object that it was copied from
		delete(draft.Meta().Annotations, gang.AnnotationStatus)
	})
}

// Readmit does the same for a StatefulSet that is being updated. What was injected
// before stays to the letter unless the user's inputs have moved.
func (e *Engine) Readmit(old, updated *appsv1.StatefulSet) (Result, error) {
	w := gang.Workload{StatefulSet: updated}
	if r, stop := e.skip(w); stop {
		return r, nil
	}
	sent := w.DeepCopy()
	warnings := hold(old, updated)
	stuck, err := plan.Stick(old, updated)
	if err != nil {
		return Result{Reason: gang.ReasonInternal}, apierrors.NewInternalError(err)
	}
	if stuck {
		// Not parsed again: a newer release may read the same text more strictly,
		// and must not refuse what it is not asked to change.
		return Result{Reason: reason(sent, w), Warnings: warnings}, nil
	}
	if errs := becoming(old, updated); len(errs) > 0 {
		if (gang.Workload{StatefulSet: old}).Labelled() {
			return Result{Reason: gang.ReasonTooLate}, nil // labelled while Rollcall was not there to refuse
		}
		return Result{Reason: gang.ReasonInvalid}, invalid(w, errs)
	}
	return e.apply(w, func(draft gang.Workload) {
		if gang.PhaseOf(draft) == "" {
			begin(draft)
		}
	})
}

// reason tells whether a workload was changed.
func reason(before, after gang.Workload) gang.Reason {
	if before.Equal(after) {
		return gang.ReasonUnchanged
	}
	return gang.ReasonInjected
}

// becoming refuses a StatefulSet that exists, is no gang yet, and cannot become
// one since the fields in question are immutable.
func becoming(old, updated *appsv1.StatefulSet) field.ErrorList {
	if _, was := old.Annotations[gang.AnnotationInjected]; was {
		return nil
	}
	const fix = "; the field is immutable, so delete the StatefulSet and create it anew with the label"
	var errs field.ErrorList
	if updated.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		errs = append(errs, field.NotSupported(field.NewPath("spec", "podManagementPolicy"), updated.Spec.PodManagementPolicy,
			[]appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement}))
		errs[len(errs)-1].Detail += fix
	}
	if updated.Spec.ServiceName == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "serviceName"), "ranks find each other in a headless Service"+fix))
	}
	return errs
}

// parse reads a workload as a gang. A StatefulSet of no replicas is one that is
// held back: it is read with the size that its ranks were told, and with what its
// annotations say when they were never told any, which is put right when it is scaled up.
func (e *Engine) parse(w gang.Workload) (gang.Gang, []string, field.ErrorList) {
	if set := w.StatefulSet; set != nil && w.Ranks() == 0 {
		size := gang.Asked(w, e.frameworks)
		if r, err := plan.ReadRecord(w); err == nil && r != nil && r.Size > 0 {
			size = r.Size
		}
		view := *set
		view.Spec.Replicas = &size
		w = gang.Workload{StatefulSet: &view}
	}
	return gang.Parse(w, e.frameworks, e.config)
}

func (e *Engine) skip(w gang.Workload) (Result, bool) {
	switch {
	case !w.Labelled():
		return Result{Reason: gang.ReasonNotLabelled}, true
	case w.OptedOut():
		return Result{Reason: gang.ReasonOptedOut}, true
	}
	return Result{}, false
}

// apply works on a copy, so that a refused workload is left as it came. What
// depends on whether the workload is new, prepare does.
func (e *Engine) apply(w gang.Workload, prepare func(gang.Workload)) (Result, error) {
	draft := w.DeepCopy()
	prepare(draft)
	g, warnings, errs := e.parse(draft)
	r := Result{Reason: gang.ReasonInvalid, Gang: g, Warnings: warnings}
	if len(errs) > 0 {
		return r, invalid(w, errs)
	}
	p, err := e.plan(g)
	if err != nil {
		r.Reason = gang.ReasonInternal
		return r, apierrors.NewInternalError(err)
	}
	if errs := tooLong(w, p); len(errs) > 0 {
		return r, invalid(w, errs)
	}
	applied, errs := plan.Apply(draft, g, p)
	r.Warnings = append(r.Warnings, applied...)
	if len(errs) > 0 {
		return r, invalid(w, errs)
	}
	r.Children = p.Children
	r.Reason = reason(w, draft)
	w.Become(draft)
	return r, nil
}

// maxEnvString is MAX_ARG_STRLEN of Linux, 32 pages: the longest NAME=value that a
// process can be started with, its closing zero byte included.
const maxEnvString = 32 * 4096

// tooLong refuses a gang whose ranks could not be told of each other by variables:
// its containers would fail to start, with an error that names no variable.
func tooLong(w gang.Workload, p plan.Plan) field.ErrorList {
	path := field.NewPath("spec", "parallelism")
	if w.StatefulSet != nil {
		path = field.NewPath("spec", "replicas")
	}
	var errs field.ErrorList
	for _, e := range p.Env {
		if n := len(e.Name) + len("=") + len(e.Value) + 1; n > maxEnvString {
			errs = append(errs, field.Invalid(path, w.Ranks(), fmt.Sprintf(
				"%s would take %d bytes, and Linux starts no process with a variable of more than %d; use fewer ranks with more processes each, or shorter names",
				e.Name, n, maxEnvString)))
		}
	}
	return errs
}

// Another reports whether w bears the injection of another build of Rollcall, all of it as it
// was put there. What this build would do instead is no fault of the workload then: while
// managers are replaced by others, one of each may hear of the same request.
func (e *Engine) Another(w gang.Workload) bool {
	r, err := plan.ReadRecord(w)
	return err == nil && r != nil && r.Build != "" && e.config.Build != "" && r.Build != e.config.Build && r.Whole(w)
}

// plan asks the framework's injector and adds what every gang gets.
func (e *Engine) plan(g gang.Gang) (plan.Plan, error) {
	inj, err := e.registry.find(g.Framework.Name)
	if err != nil {
		return plan.Plan{}, err
	}
	p := inj.Plan(g)
	p.By, p.Build = g.Framework.Name, e.config.Build
	return plan.Merge(p, baseline(g))
}

func invalid(w gang.Workload, errs field.ErrorList) error {
	return apierrors.NewInvalid(w.GroupKind(), w.Meta().Name, errs)
}

// IsDenied reports whether err tells of a workload that its user has to change,
// as opposed to a fault of Rollcall's.
func IsDenied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsInvalid(err)
}

// Causes lists the mistakes that a denial names, each "field: what is wrong".
func Causes(err error) []string {
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
