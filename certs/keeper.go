package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"rollcall.training/certs/owner"
)

// Failed writes are tried again at once and then ever more slowly: the first wait is of the order of a lost race for
// the object, the last bounds how long a repaired API server or permission goes unnoticed.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// secretKey is the queue's name for the Secret; those of the configurations contain a space and so differ.
const secretKey = "Secret"

// keeper holds the bundle in the webhook configurations equal to the merge of the CA in the Secret with the bundles
// that the configurations have.
type keeper struct {
	client  kubernetes.Interface
	secrets cache.SharedIndexInformer
	targets map[string]*target
	trust   *trust
	queue   workqueue.TypedRateLimitingInterface[string]

	// namespace and secretName say where the CA is.
	namespace, secretName string
}

func newKeeper(client kubernetes.Interface, o Options) *keeper {
	k := &keeper{
		client:     client,
		namespace:  o.Namespace,
		secretName: o.SecretName,
		targets:    map[string]*target{},
		secrets: coreinformers.NewFilteredSecretInformer(
			client, o.Namespace, resync, cache.Indexers{}, byName(o.SecretName)),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	var targets []*target
	if o.MutatingConfiguration != "" {
		targets = append(targets, newMutatingTarget(client, o.MutatingConfiguration))
	}
	if o.ValidatingConfiguration != "" {
		targets = append(targets, newValidatingTarget(client, o.ValidatingConfiguration))
	}
	var keys []string
	for _, t := range targets {
		k.targets[t.key] = t
		keys = append(keys, t.key)
	}
	k.trust = newTrust(keys...)
	return k
}

// run keeps the bundles until ctx is done.
func (k *keeper) run(ctx context.Context, log logr.Logger) error {
	defer k.queue.ShutDown()
	if _, err := k.secrets.AddEventHandler(onEvent(k.enqueueAll)); err != nil {
		return fmt.Errorf("watching Secret %s: %w", k.secretName, err)
	}
	synced := []cache.InformerSynced{k.secrets.HasSynced}
	go k.secrets.RunWithContext(ctx)
	for _, t := range k.targets {
		if _, err := t.informer.AddEventHandler(onEvent(func() { k.queue.Add(t.key) })); err != nil {
			return fmt.Errorf("watching %s: %w", t.key, err)
		}
		synced = append(synced, t.informer.HasSynced)
		go t.informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // Only when ctx is done.
	}

	k.enqueueAll() // An object that does not exist causes no event.
	go func() {
		<-ctx.Done()
		k.queue.ShutDown()
	}()
	for k.next(ctx, log) {
	}
	return nil
}

// onEvent returns a handler that calls enqueue for each event.
func onEvent(enqueue func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { enqueue() },
		UpdateFunc: func(any, any) { enqueue() },
		DeleteFunc: func(any) { enqueue() },
	}
}

// enqueueAll has everything looked at: a new CA concerns all configurations.
func (k *keeper) enqueueAll() {
	k.queue.Add(secretKey)
	for key := range k.targets {
		k.queue.Add(key)
	}
}

// next handles one key and says whether there can be more.
func (k *keeper) next(ctx context.Context, log logr.Logger) bool {
	key, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(key)

	err := k.reconcile(ctx, log, key)
	switch {
	case err == nil:
		k.queue.Forget(key)
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		// Someone else wrote, and their event brings us back; the retry is for an event that came before this line.
		log.V(1).Info("lost a race for an object, trying again", "object", key)
		k.queue.AddRateLimited(key)
	default:
		log.Error(err, "trying again", "object", key, "failures", k.queue.NumRequeues(key)+1)
		k.queue.AddRateLimited(key)
	}
	return true
}

func (k *keeper) reconcile(ctx context.Context, log logr.Logger, key string) error {
	if key == secretKey {
		return k.reconcileOwner(ctx, log)
	}
	return k.reconcileBundle(ctx, log, k.targets[key])
}

// reconcileBundle looks at one configuration, and writes its bundle if that is not what it should be.
func (k *keeper) reconcileBundle(ctx context.Context, log logr.Logger, t *target) error {
	now := time.Now()
	webhooks, resourceVersion, exists := t.live()
	k.trust.observe(t.key, observation{exists: exists, webhooks: webhooks}, now)
	secret := k.secret()
	if len(webhooks) == 0 || secret == nil {
		return nil
	}

	bundle, dropped := merge(secret.Data[corev1.TLSCertKey], remembered(webhooks), now)
	if len(bundle) == 0 {
		return nil // The Secret is being filled or repaired by the authority.
	}
	var names []string
	changed := false
	for _, w := range webhooks {
		names = append(names, w.name)
		changed = changed || !bytes.Equal(w.bundle, bundle)
	}
	if !changed {
		return nil
	}
	if err := t.apply(ctx, resourceVersion, names, bundle); err != nil {
		return fmt.Errorf("applying the CA bundle: %w", err)
	}
	cas, _ := authorities(bundle, now)
	log.Info("wrote the CA bundle", "object", t.key, "webhooks", names, "authorities", len(cas), "dropped", dropped)
	return nil
}

// remembered is all that the bundles of a configuration's webhooks hold. Not those of the other configuration: who takes
// a former CA out of all webhooks of one wants it gone, and must not see it come back from elsewhere.
func remembered(webhooks []webhook) []byte {
	var all []byte
	for _, w := range webhooks {
		all = append(all, w.bundle...)
		all = append(all, '\n')
	}
	return all
}

// reconcileOwner makes our ServiceAccount the owner of the Secret.
func (k *keeper) reconcileOwner(ctx context.Context, log logr.Logger) error {
	secret := k.secret()
	if secret == nil {
		return nil
	}
	changed, err := owner.AdoptSecret(ctx, k.client, secret)
	if errors.Is(err, owner.ErrNotServiceAccount) {
		log.V(1).Info("the Secret stays without an owner", "reason", err.Error())
		return nil
	}
	if err == nil && changed {
		log.Info("became the owner of the CA", "secret", k.secretName)
	}
	return err
}

// secret returns the Secret with the CA, nil if there is none.
func (k *keeper) secret() *corev1.Secret {
	object, exists, err := k.secrets.GetStore().GetByKey(k.namespace + "/" + k.secretName)
	if err != nil || !exists { // This store has no errors.
		return nil
	}
	return object.(*corev1.Secret)
}

// live returns the webhooks of a configuration as last seen.
func (t *target) live() (webhooks []webhook, resourceVersion string, exists bool) {
	for _, object := range t.informer.GetStore().List() { // At most one: the informer selects by name.
		webhooks, resourceVersion = t.read(object)
		return webhooks, resourceVersion, true
	}
	return nil, "", false
}
