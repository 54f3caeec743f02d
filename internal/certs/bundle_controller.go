package certs

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Delays between retries of a failed write, which increase exponentially. The first delay is sufficient
// after a conflict with another replica. The last delay limits how long a recovered API server or a
// restored permission remains unnoticed.
const (
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// secretQueueKey is the key of the Secret in the queue. The keys of the webhook configurations contain a
// space, so they differ.
const secretQueueKey = "Secret"

// bundleReconciler keeps the CA in the Secret valid, and the bundles of the webhook configurations up to
// date. The desired bundle is the merge of the CA in the Secret with the bundles that the configuration
// already contains.
type bundleReconciler struct {
	client         kubernetes.Interface
	secretInformer cache.SharedIndexInformer
	configs        map[string]*webhookConfig
	leaf           *leafIssuer
	trust          *trustTracker
	queue          workqueue.TypedRateLimitingInterface[string]

	// namespace and secretName identify the Secret with the CA, which is valid for caDuration.
	namespace, secretName string
	caDuration            time.Duration
}

func newBundleReconciler(client kubernetes.Interface, o Options) *bundleReconciler {
	r := &bundleReconciler{
		client:     client,
		namespace:  o.Namespace,
		secretName: o.SecretName,
		caDuration: o.CADuration,
		configs:    map[string]*webhookConfig{},
		secretInformer: coreinformers.NewFilteredSecretInformer(
			client, o.Namespace, resyncPeriod, cache.Indexers{}, selectByName(o.SecretName)),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay)),
	}
	var configs []*webhookConfig
	if o.MutatingConfiguration != "" {
		configs = append(configs, newWebhookConfig(client, kindMutating, o.MutatingConfiguration))
	}
	if o.ValidatingConfiguration != "" {
		configs = append(configs, newWebhookConfig(client, kindValidating, o.ValidatingConfiguration))
	}
	var keys []string
	for _, config := range configs {
		r.configs[config.queueKey] = config
		keys = append(keys, config.queueKey)
	}
	r.trust = newTrustTracker(keys...)
	r.leaf = &leafIssuer{
		dnsNames:         o.DNSNames,
		validity:         o.LeafDuration,
		propagationDelay: min(maxPropagationDelay, o.LeafDuration/propagationDelayDivisor),
		trust:            r.trust,
	}
	return r
}

// runWorker reconciles until ctx is done. It returns an error only if a watch cannot be set up.
func (r *bundleReconciler) runWorker(ctx context.Context, log logr.Logger) error {
	context.AfterFunc(ctx, r.queue.ShutDown)
	if _, err := r.secretInformer.AddEventHandler(newEventHandler(r.enqueueAll)); err != nil {
		return fmt.Errorf("watching Secret %s: %w", r.secretName, err)
	}
	synced := []cache.InformerSynced{r.secretInformer.HasSynced}
	go r.secretInformer.RunWithContext(ctx)
	for key, config := range r.configs {
		if _, err := config.informer.AddEventHandler(newEventHandler(func() { r.queue.Add(key) })); err != nil {
			return fmt.Errorf("watching %s: %w", key, err)
		}
		synced = append(synced, config.informer.HasSynced)
		go config.informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx is done
	}

	r.enqueueAll() // a configuration that does not exist causes no event
	for r.processNextItem(ctx, log) {
	}
	return nil
}

// newEventHandler returns a handler that calls enqueue for every event.
func newEventHandler(enqueue func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { enqueue() },
		UpdateFunc: func(any, any) { enqueue() },
		DeleteFunc: func(any) { enqueue() },
	}
}

// enqueueAll schedules the Secret and all configurations, because a new CA changes every bundle.
func (r *bundleReconciler) enqueueAll() {
	r.queue.Add(secretQueueKey)
	for key := range r.configs {
		r.queue.Add(key)
	}
}

// processNextItem reconciles one key. It returns false after the queue was shut down.
func (r *bundleReconciler) processNextItem(ctx context.Context, log logr.Logger) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)

	err := r.reconcileKey(ctx, log, key)
	switch {
	case err == nil:
		r.queue.Forget(key)
	case ctx.Err() != nil: // shutting down
	case apierrors.IsConflict(err):
		// The event of the other write schedules the key as well, unless it was processed already.
		log.V(1).Info("Update conflicted, retrying", "object", key)
		r.queue.AddRateLimited(key)
	default:
		log.Error(err, "Reconciling failed, retrying", "object", key, "failures", r.queue.NumRequeues(key)+1)
		r.queue.AddRateLimited(key)
	}
	return true
}

func (r *bundleReconciler) reconcileKey(ctx context.Context, log logr.Logger, key string) error {
	if key == secretQueueKey {
		return r.reconcileSecret(ctx, log, time.Now())
	}
	return r.reconcileBundle(ctx, log, r.configs[key])
}

// reconcileBundle records the state of one configuration, and writes its bundle if it differs from the
// desired bundle.
func (r *bundleReconciler) reconcileBundle(ctx context.Context, log logr.Logger, config *webhookConfig) error {
	now := time.Now()
	webhooks, resourceVersion, exists := config.cachedWebhooks()
	r.trust.recordConfig(config.queueKey, configState{exists: exists, webhooks: webhooks}, now)
	config.reportExistence(log, exists)
	secret := r.cachedSecret()
	if len(webhooks) == 0 || secret == nil {
		return nil
	}

	bundle, dropped := mergeBundles(secret.Data[corev1.TLSCertKey], joinBundles(webhooks), now)
	if len(bundle) == 0 {
		return nil // the authority has not written a valid CA to the Secret yet
	}
	var names []string
	changed := false
	for _, w := range webhooks {
		names = append(names, w.name)
		changed = changed || !bytes.Equal(w.caBundle, bundle)
	}
	if !changed {
		return nil
	}
	if err := config.applyBundle(ctx, resourceVersion, names, bundle); err != nil {
		return fmt.Errorf("applying the CA bundle to %s: %w", config.queueKey, err)
	}
	cas, _ := parseAuthorities(bundle, now)
	log.Info("Wrote the CA bundle", "configuration", config.queueKey, "webhooks", names,
		"authorityCount", len(cas), "droppedCertificates", dropped)
	return nil
}

// joinBundles returns the concatenated bundles of the webhooks of one configuration. It does not include
// other configurations. An administrator can therefore remove a former CA from a configuration, and the
// reconciler does not restore the CA from elsewhere.
func joinBundles(webhooks []configuredWebhook) []byte {
	var all []byte
	for _, w := range webhooks {
		all = append(all, w.caBundle...)
		all = append(all, '\n')
	}
	return all
}

// cachedSecret returns the Secret with the CA from the cache, nil if it does not exist.
func (r *bundleReconciler) cachedSecret() *corev1.Secret {
	object, exists, err := r.secretInformer.GetStore().GetByKey(r.namespace + "/" + r.secretName)
	if err != nil || !exists { // the store of an informer never returns an error
		return nil
	}
	return object.(*corev1.Secret)
}
