package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// FieldOwner is the name under which the reconciler's writes are recorded.
const FieldOwner = client.FieldOwner("rollcall-controller")

// Reconciler follows the gangs of one workload kind.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Live reads from the API server, for the rare case that the cache, which
	// holds our own objects alone, cannot answer.
	Live client.Reader
	// Engine reads workloads as gangs.
	Engine *injectors.Engine
	// Recorder records Events on workloads.
	Recorder events.EventRecorder
	// Clock dates phases.
	Clock clock.PassiveClock
	// Kind is the kind that this Reconciler follows.
	Kind gang.Kind
}

// SetupWithManager registers one controller for each workload kind.
func SetupWithManager(mgr ctrl.Manager, e *injectors.Engine) error {
	for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
		r := &Reconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Engine:   e,
			Recorder: mgr.GetEventRecorder("rollcall"),
			Clock:    clock.RealClock{},
			Kind:     kind,
		}
		if err := r.setup(mgr); err != nil {
			return fmt.Errorf("setting up the controller of %s gangs: %w", kind, err)
		}
	}
	return nil
}

func (r *Reconciler) setup(mgr ctrl.Manager) error {
	w, ok := gang.NewWorkload(r.Kind)
	if !ok {
		return fmt.Errorf("following %q: no kind of workload", r.Kind)
	}
	name := "gang-job"
	if r.Kind == gang.StatefulSet {
		name = "gang-statefulset"
	}
	// A Service is watched for its loss alone; nothing else of it moves a gang.
	lost := predicate.Funcs{
		CreateFunc: none[event.CreateEvent], UpdateFunc: none[event.UpdateEvent], GenericFunc: none[event.GenericEvent],
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(w.Object().(client.Object)).
		Owns(&corev1.Service{}, builder.WithPredicates(lost), builder.MatchEveryOwner).
		Complete(r)
}

// Reconcile brings one gang's children and phase up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w, _ := gang.NewWorkload(r.Kind) // setup has checked the kind
	if err := r.Client.Get(ctx, req.NamespacedName, w.Object().(client.Object)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !w.Labelled() || w.OptedOut() || w.Meta().DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	err := r.follow(ctx, w)
	switch {
	case apierrors.IsConflict(err):
		// The cache is behind; the write that it has not seen yet brings us back.
		return ctrl.Result{}, nil
	case errors.Is(err, errServiceTaken):
		return ctrl.Result{RequeueAfter: serviceRetry}, nil
	case errors.Is(err, errServiceGoing):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}

// follow makes children and phase of one admitted workload. The phase is told
// whatever becomes of the rest.
func (r *Reconciler) follow(ctx context.Context, w gang.Workload) error {
	if _, injected := w.Meta().Annotations[gang.AnnotationInjected]; !injected {
		return r.reportMissed(ctx, w)
	}
	seen := gang.Observe(w)
	var errs []error
	if !seen.Complete && !seen.Failed {
		errs = append(errs, r.resize(ctx, w), r.children(ctx, w))
	}
	return errors.Join(append(errs, r.followPhase(ctx, w, seen))...)
}

// children makes what the workload names.
func (r *Reconciler) children(ctx context.Context, w gang.Workload) error {
	result, err := r.Engine.Describe(w)
	if err != nil {
		// Admitted by another release, or edited since: its children are made
		// already, and trying again cannot help.
		log.FromContext(ctx).V(1).Info("Not a gang as it stands", "causes", injectors.Causes(err))
		return nil
	}
	return r.ensureService(ctx, w, result)
}
