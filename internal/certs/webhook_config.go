package certs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// FieldManager is the field manager of the server-side apply that writes the bundles. In the
// managedFields of the configurations, it owns only the caBundle of each webhook.
const FieldManager = "rollcall-certs"

const (
	kindMutating   = "MutatingWebhookConfiguration"
	kindValidating = "ValidatingWebhookConfiguration"
)

// resyncPeriod is the interval at which unchanged objects are reconciled to remove expired CAs from the
// bundles. The removal is not urgent, because an expired CA validates no certificate.
const resyncPeriod = 10 * time.Minute

// configuredWebhook contains the relevant fields of a webhook in a configuration.
type configuredWebhook struct {
	name     string
	caBundle []byte
}

// missingConfigurations reports deleted configurations. Its label has two values.
var missingConfigurations = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "rollcall_webhook_configuration_missing",
	Help: "1 if the webhook configuration of this kind does not exist, so that API servers do not call its webhooks; " +
		"otherwise 0.",
}, []string{"kind"})

// webhookConfig is the common view of mutating and validating webhook configurations.
type webhookConfig struct {
	client kubernetes.Interface
	// kind is [kindMutating] or [kindValidating].
	kind, name string
	// queueKey identifies the configuration in the queue and in messages: "<kind> <name>".
	queueKey string
	informer cache.SharedIndexInformer
}

// newWebhookConfig returns the view of the configuration with the given kind and name.
func newWebhookConfig(client kubernetes.Interface, kind, name string) *webhookConfig {
	newInformer := admissioninformers.NewFilteredMutatingWebhookConfigurationInformer
	if kind == kindValidating {
		newInformer = admissioninformers.NewFilteredValidatingWebhookConfigurationInformer
	}
	return &webhookConfig{
		client: client, kind: kind, name: name, queueKey: kind + " " + name,
		informer: newInformer(client, resyncPeriod, cache.Indexers{}, selectByName(name)),
	}
}

// cachedWebhooks returns the webhooks of a configuration from the cache.
func (c *webhookConfig) cachedWebhooks() (webhooks []configuredWebhook, resourceVersion string, exists bool) {
	for _, object := range c.informer.GetStore().List() { // at most one, because the informer selects by name
		switch object := object.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for _, w := range object.Webhooks {
				webhooks = append(webhooks, configuredWebhook{name: w.Name, caBundle: w.ClientConfig.CABundle})
			}
			return webhooks, object.ResourceVersion, true
		case *admissionv1.ValidatingWebhookConfiguration:
			for _, w := range object.Webhooks {
				webhooks = append(webhooks, configuredWebhook{name: w.Name, caBundle: w.ClientConfig.CABundle})
			}
			return webhooks, object.ResourceVersion, true
		}
	}
	return nil, "", false
}

// applyBundle writes a bundle to the named webhooks by server-side apply. It takes over the caBundle from other field
// managers, because a bundle without the CA of Rollcall does not work. It returns a conflict if the resource version of
// the object has changed. The caller must name all webhooks, because server-side apply removes fields that their
// manager no longer includes.
func (c *webhookConfig) applyBundle(ctx context.Context, resourceVersion string, names []string, bundle []byte) error {
	var webhooks []map[string]any
	for _, name := range names {
		webhooks = append(webhooks, map[string]any{"name": name, "clientConfig": map[string]any{"caBundle": bundle}})
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": admissionv1.SchemeGroupVersion.String(), "kind": c.kind, "webhooks": webhooks,
		"metadata": map[string]any{"name": c.name, "resourceVersion": resourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encoding the bundle: %w", err)
	}
	api := c.client.AdmissionregistrationV1()
	options := metav1.PatchOptions{FieldManager: FieldManager, Force: ptr.To(true)}
	if c.kind == kindMutating {
		_, err = api.MutatingWebhookConfigurations().Patch(ctx, c.name, types.ApplyPatchType, patch, options)
	} else {
		_, err = api.ValidatingWebhookConfigurations().Patch(ctx, c.name, types.ApplyPatchType, patch, options)
	}
	return err
}

// reportExistence records in a metric whether the configuration exists, and logs that it does not exist.
// Nothing recreates it: its absence is permanent after an uninstallation, and the tool that installed
// Rollcall is the only one that has the complete object.
func (c *webhookConfig) reportExistence(log logr.Logger, exists bool) {
	if exists {
		missingConfigurations.WithLabelValues(c.kind).Set(0)
		return
	}
	missingConfigurations.WithLabelValues(c.kind).Set(1)
	log.Info("Found no webhook configuration, so API servers do not call its webhooks", "configuration", c.queueKey)
}

// selectByName restricts a list and a watch to one object. RBAC can then grant both by resourceNames.
func selectByName(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}
