package configmap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollcall.training/internal/policy"
)

// retryInterval is the interval at which a process without a policy looks for the accepted policy.
const retryInterval = 5 * time.Second

// Options configure a [Source]. All fields except Ceiling are required.
type Options struct {
	// Client reads ConfigMaps.
	Client kubernetes.Interface
	// Namespace and Name identify the ConfigMap with the policy.
	Namespace, Name string
	// Reader reads the file.
	Reader FileReader
	// Ceiling is the strictest mode; empty for no ceiling.
	Ceiling policy.Mode
	// DescribeNamespace returns the name of a namespace, and its labels if Reader.ReadsNamespaces.
	DescribeNamespace func(ctx context.Context, name string) (policy.Namespace, error)
	// Clock provides the time at which a policy was loaded.
	Clock clock.PassiveClock
}

// Source provides the policy in force. It is a controller-runtime Runnable without leader election, and
// its method Ready is a healthz.Checker. Its methods are safe for concurrent use.
type Source struct {
	options  Options
	informer cache.SharedIndexInformer

	mu          sync.RWMutex
	state       State
	subscribers []chan struct{}
}

// State is what a process knows of the policy.
type State struct {
	// Policy is the policy in force, with its ceiling; nil until a policy is loaded.
	Policy *policy.Policy
	// Text is the file of the policy in force.
	Text string
	// Mistake describes why the ConfigMap contains no valid policy; empty if the policy in force is that of
	// the ConfigMap.
	Mistake string
	// ConfigMap is the current ConfigMap; nil if it does not exist.
	ConfigMap *corev1.ConfigMap
}

// New returns a Source. The caller must start it.
func New(o Options) *Source {
	registerMetrics()
	selectByName := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name).String()
	}
	return &Source{
		options: o,
		state:   State{Mistake: "not loaded yet"}, // until the watch is synchronized
		informer: coreinformers.NewFilteredConfigMapInformer(
			o.Client, o.Namespace, 0, cache.Indexers{}, selectByName),
	}
}

// AcceptedName is the name of the ConfigMap with the last valid policy of the ConfigMap name.
func AcceptedName(name string) string { return name + "-accepted" }

// NeedLeaderElection returns false, because every replica judges workloads.
func (s *Source) NeedLeaderElection() bool { return false }

// Current returns the policy in force, or an error until one is loaded.
func (s *Source) Current() (*policy.Policy, error) {
	state := s.State()
	if state.Policy == nil {
		return nil, errors.New(state.Mistake)
	}
	return state.Policy, nil
}

// State returns what this process knows of the policy. The caller must not change it.
func (s *Source) State() State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// DescribeNamespace returns what the policy reads of a namespace.
func (s *Source) DescribeNamespace(ctx context.Context, name string) (policy.Namespace, error) {
	return s.options.DescribeNamespace(ctx, name)
}

// Ready returns an error until a policy is loaded. A mistake in a later version of the file does not
// make the process unready.
func (s *Source) Ready(*http.Request) error {
	if _, err := s.Current(); err != nil {
		return fmt.Errorf("the policy is not loaded: %w", err)
	}
	return nil
}

// Subscribe returns a channel that receives a value after each change of the state. Several changes can
// cause one value. The caller reads the state itself.
func (s *Source) Subscribe() <-chan struct{} {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, c)
	return c
}

// Start watches the ConfigMap until ctx is done. It returns an error only if the watch cannot be set up.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("policy")
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // the next pass reads the current ConfigMap
		}
	}
	_, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watching ConfigMap %s: %w", s.options.Name, err)
	}
	go s.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
		return nil // ctx is done
	}
	for {
		s.load(ctx, logger)
		var retry <-chan time.Time // nil blocks forever
		if s.State().Policy == nil {
			retry = time.After(retryInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

// load reads the ConfigMap of the watch and updates the state.
func (s *Source) load(ctx context.Context, logger logr.Logger) {
	last := s.State()
	next := State{Policy: last.Policy, Text: last.Text, ConfigMap: s.cachedConfigMap()}
	use := func(p *policy.Policy, text string, err error) error {
		if err == nil {
			next.Policy, next.Text = p.WithCeiling(s.options.Ceiling), text
		}
		return err
	}
	if err := use(s.options.Reader.ReadConfigMap(s.options.Name, next.ConfigMap)); err != nil {
		next.Mistake = err.Error()
	}
	if next.Policy == nil {
		if err := use(s.readAccepted(ctx)); err != nil {
			next.Mistake += "; there is no last valid policy: " + err.Error()
		}
	}
	if !s.setState(last, next) {
		return
	}
	recordState(last, next, s.options.Clock.Now())
	if next.Mistake == "" {
		logger.Info("Loaded the policy", "digest", next.Policy.Digest(), "rules", len(next.Policy.Rules()))
	} else {
		logger.Error(errors.New(next.Mistake), "Rejected the policy", "inForce", next.Policy.Digest())
	}
}

// setState changes the state and notifies the subscribers. It returns false if nothing changed.
func (s *Source) setState(last, next State) bool {
	isSame := last.Policy.Digest() == next.Policy.Digest() && last.Text == next.Text && last.Mistake == next.Mistake
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = next
	if isSame {
		return false
	}
	for _, c := range s.subscribers {
		select {
		case c <- struct{}{}:
		default: // the subscriber has not read the previous value yet
		}
	}
	return true
}

// cachedConfigMap returns the ConfigMap of the watch; nil if it does not exist.
func (s *Source) cachedConfigMap() *corev1.ConfigMap {
	for _, o := range s.informer.GetStore().List() {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Name == s.options.Name {
			return m
		}
	}
	return nil
}

// readAccepted returns the last valid policy that the leader recorded.
func (s *Source) readAccepted(ctx context.Context) (*policy.Policy, string, error) {
	name := AcceptedName(s.options.Name)
	m, err := s.options.Client.CoreV1().ConfigMaps(s.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("the ConfigMap %s does not exist", name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the ConfigMap %s: %w", name, err)
	}
	return s.options.Reader.ReadConfigMap(name, m)
}

var (
	validPolicy = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_policy_valid",
		Help: "Whether the ConfigMap contains a valid policy, which is in force (1), or not (0).",
	})
	// policyInfo has one series: that of the policy in force.
	policyInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollcall_policy_info",
		Help: "The policy in force by its digest. The value is always 1.",
	}, []string{"digest"})
	loadTimestamp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_policy_load_timestamp_seconds",
		Help: "Time at which the policy in force was loaded, in seconds since the Unix epoch.",
	})
)

// registerMetrics registers the metrics once, in the first call of [New]. Without a policy, the metrics must not
// exist: rollcall_policy_valid would be 0.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(validPolicy, policyInfo, loadTimestamp) })

// recordState updates the metrics after the state changed.
func recordState(last, next State, now time.Time) {
	validPolicy.Set(0)
	if next.Mistake == "" {
		validPolicy.Set(1)
	}
	if next.Policy == nil || last.Policy.Digest() == next.Policy.Digest() {
		return
	}
	policyInfo.Reset()
	policyInfo.WithLabelValues(next.Policy.Digest()).Set(1)
	loadTimestamp.Set(float64(now.Unix()))
}
