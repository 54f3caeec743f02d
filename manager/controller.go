package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/certs/owner"
	"rollcall.training/internal/controller"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/configmap"
)

// controllerOptions are the values of the flags of the controller. The chart sets every flag.
type controllerOptions struct {
	commonOptions
	namespaceSelector string
	namespaces        []string
	leaderElect       bool
	leaseName         string
	policyReports     string
	metricNamespaces  int
}

// The values of the flag --policy-reports.
const (
	policyReportsNone        = "none"
	policyReportsOpenReports = "openreports"
)

func newControllerCommand(registry injectors.Registry) *cobra.Command {
	o := controllerOptions{commonOptions: commonOptions{registry: registry}}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Reconcile gangs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validateFlags(); err != nil {
				return fmt.Errorf("parsing the flags: %w", err)
			}
			return runController(cmd.Context(), o)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of the controller to f.
func (o *controllerOptions) addFlags(f *pflag.FlagSet) {
	o.commonOptions.addFlags(f)
	f.StringVar(&o.namespaceSelector, "namespace-selector", "{}",
		"LabelSelector of the namespaces whose gangs are reconciled, as JSON; the selector of the webhooks")
	f.StringSliceVar(&o.namespaces, "namespaces", nil,
		"namespaces whose gangs are reconciled, separated by commas (default: all namespaces)")
	f.BoolVar(&o.leaderElect, "leader-elect", false,
		"reconcile gangs only as the elected leader, required for several replicas")
	f.StringVar(&o.leaseName, "lease-name", "rollcall", "name of the Lease of the leader election")
	f.IntVar(&o.metricNamespaces, "metrics-namespaces", 200,
		"maximum number of namespaces in the label namespace of metrics, 0 for metrics without the label")
	f.StringVar(&o.policyReports, "policy-reports", policyReportsNone,
		"objects for the gangs that violate the policy: none, or openreports for Reports of openreports.io")
}

// validateFlags returns an error that joins a message for each invalid flag.
func (o *controllerOptions) validateFlags() error {
	errs := []error{o.commonOptions.validateFlags()}
	if _, err := o.parseNamespaceSelector(); err != nil {
		errs = append(errs, err)
	}
	if o.policyReports != policyReportsNone && o.policyReports != policyReportsOpenReports {
		errs = append(errs, fmt.Errorf("--policy-reports: invalid value %q: must be none or openreports", o.policyReports))
	}
	if o.metricNamespaces < 0 {
		errs = append(errs, fmt.Errorf("--metrics-namespaces: invalid value %d: must be at least 0", o.metricNamespaces))
	}
	for _, namespace := range o.namespaces {
		for _, message := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, fmt.Errorf("--namespaces: invalid value %q: %s", namespace, message))
		}
	}
	return errors.Join(errs...)
}

// parseNamespaceSelector returns the selector of the flag --namespace-selector. Unknown fields are errors:
// an ignored condition would select more namespaces than its author intended.
func (o *controllerOptions) parseNamespaceSelector() (labels.Selector, error) {
	var selector metav1.LabelSelector
	decoder := json.NewDecoder(strings.NewReader(o.namespaceSelector))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&selector); err != nil {
		return nil, fmt.Errorf("--namespace-selector: invalid value %q: must be a LabelSelector as JSON: %w",
			o.namespaceSelector, err)
	}
	out, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("--namespace-selector: invalid value %q: %w", o.namespaceSelector, err)
	}
	return out, nil
}

// reserveMemory reduces the limit of the environment variable GOMEMLIMIT by a tenth. The chart sets the
// variable to the limit of the container, which also includes memory that the Go runtime does not
// manage. The webhook needs more, see the package webhook.
func reserveMemory() {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit - limit/10)
	}
}

// runController reconciles gangs until ctx is done. It returns an error if the process loses the Lease.
func runController(ctx context.Context, o controllerOptions) error {
	if err := o.setLogLevel(); err != nil {
		return err
	}
	reserveMemory()
	if err := o.waitForAPIServer(ctx); err != nil {
		return err
	}
	mgr, err := newControllerManager(ctx, o)
	if err != nil {
		return err
	}
	return startManager(ctx, mgr)
}

// newControllerManager returns a manager with reconcilers and probes.
func newControllerManager(ctx context.Context, o controllerOptions) (manager.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the client configuration: %w", err)
	}
	serverClock := controller.NewServerClock(clock.RealClock{})
	config.Wrap(serverClock.WrapTransport)
	options := o.newManagerOptions()
	options.Cache = newCacheOptions(o.namespaces, o.policy.configMap != "")
	options.LeaderElection = o.leaderElect
	options.LeaderElectionID = o.leaseName
	options.LeaderElectionNamespace = o.namespace
	options.LeaderElectionReleaseOnCancel = true // safe, because the process exits after Start returns
	if options.LeaderElectionResourceLockInterface, err = o.newLeaseLock(config); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	if err := addLeaseOwner(mgr, o); err != nil {
		return nil, err
	}
	engine, err := o.newEngine(config)
	if err != nil {
		return nil, err
	}
	namespaces, err := o.parseNamespaceSelector()
	if err != nil {
		return nil, err
	}
	readiness := map[string]healthz.Checker{"cache": newCacheCheck(mgr.GetCache())}
	source, err := o.policy.addPolicySource(mgr, o.namespace, engine.Frameworks())
	if err != nil {
		return nil, err
	}
	var policies policy.Source // nil without a policy
	if source != nil {
		policies, readiness["policy"] = source, source.Ready
		err := mgr.Add(&configmap.Keeper{Source: source, Recorder: mgr.GetEventRecorder("rollcall")})
		if err != nil {
			return nil, fmt.Errorf("adding the keeper of the policy: %w", err)
		}
	}
	err = controller.SetupWithManager(ctx, mgr, engine, controller.Options{
		Namespaces:       namespaces,
		Policy:           policies,
		PolicyReports:    o.policyReports == policyReportsOpenReports,
		MetricNamespaces: o.metricNamespaces,
		QueueGangs:       o.schedulers.kueueWorkloads,
		ReadLogs:         o.readLogs,
		NodeEvents:       len(o.namespaces) == 0 || slices.Contains(o.namespaces, metav1.NamespaceDefault),
		ServerClock:      serverClock,
	})
	if err != nil {
		return nil, err
	}
	return mgr, o.addProbes(mgr, readiness)
}

// newCacheCheck returns a check that fails until the cache contains the gangs. During a rollout, the next
// leader then reconciles as soon as it is elected.
func newCacheCheck(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second) // shorter than the timeout of the probe
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("waiting for the cache: the workloads and pods of gangs are not read yet")
		}
		return nil
	}
}

// leaseTimeout bounds one request of the leader election: half of the time in which the leader must renew its Lease.
const leaseTimeout = 5 * time.Second

// newLeaseLock returns the lock of the leader election for a process in a pod; nil outside of a pod. Its identity is
// the name of the pod. If the container restarts, its process is the leader again at once, and need not wait until the
// Lease of its predecessor expires. A pod never runs two processes of a container at the same time.
func (o *controllerOptions) newLeaseLock(config *rest.Config) (resourcelock.Interface, error) {
	pod := os.Getenv("POD_NAME")
	if pod == "" || !o.leaderElect {
		return nil, nil
	}
	config = rest.AddUserAgent(config, "leader-election")
	config.Timeout = leaseTimeout
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the Lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: pod},
	}, nil
}

// addLeaseOwner makes the ServiceAccount of the process the owner of the Lease, so that the Lease is deleted
// with the installation. controller-runtime starts a RunnableFunc after the election of a leader, so the
// Lease exists by then.
func addLeaseOwner(mgr manager.Manager, o controllerOptions) error {
	if !o.leaderElect {
		return nil
	}
	client, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return owner.KeepLeaseOwned(ctx, client, o.namespace, o.leaseName)
	}))
	if err != nil {
		return fmt.Errorf("adding the owner of the Lease: %w", err)
	}
	return nil
}

// newCacheOptions returns options that limit the cache to labeled workloads, their pods and their
// Services, without managedFields. This limits the memory of the controller. With a list of namespaces,
// the cache does not read any other namespace, for which the controller then needs no permission. With a
// policy, the cache also identifies the content of each workload, because rules can read each field.
func newCacheOptions(namespaces []string, hasPolicy bool) cache.Options {
	transformWorkload := controller.TrimWorkload
	if hasPolicy {
		transformWorkload = controller.DigestWorkload
	}
	hasLabel := func(label string) labels.Selector {
		requirement, err := labels.NewRequirement(label, selection.Exists, nil)
		utilruntime.Must(err) // the labels are constants
		return labels.NewSelector().Add(*requirement)
	}
	var byNamespace map[string]cache.Config // nil selects all namespaces
	if len(namespaces) > 0 {
		byNamespace = map[string]cache.Config{}
	}
	for _, namespace := range namespaces {
		byNamespace[namespace] = cache.Config{}
	}
	byObject := map[client.Object]cache.ByObject{
		&batchv1.Job{}:        {Label: hasLabel(gang.LabelFramework), Transform: transformWorkload},
		&appsv1.StatefulSet{}: {Label: hasLabel(gang.LabelFramework), Transform: transformWorkload},
		&corev1.Service{}:     {Label: hasLabel(gang.LabelGang), Transform: controller.TrimService},
		&corev1.Pod{}:         {Label: hasLabel(gang.LabelGang), Transform: controller.CompactPod},
	}
	return cache.Options{
		DefaultNamespaces: byNamespace,
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject:          byObject,
		NewInformer:       newPagedInformer(byObject),
	}
}
