package certs

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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
	kind string
	// queueKey identifies the configuration in the queue and in messages: "<kind> <name>".
	queueKey string
	informer cache.SharedIndexInformer
	// readWebhooks returns the webhooks and the resource version of an object of the informer.
	readWebhooks func(object any) (webhooks []configuredWebhook, resourceVersion string)
	// applyBundle writes a bundle to the named webhooks. It returns a conflict if the resource version of
	// the object has changed. The caller must name all webhooks, because server-side apply removes fields
	// that their manager no longer includes.
	applyBundle func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error
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

// newApplyOptions returns options that take over the caBundle from other field managers, because a bundle
// without the CA of Rollcall does not work.
func newApplyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
}

// newMutatingConfig returns the view of the MutatingWebhookConfiguration with the given name.
func newMutatingConfig(client kubernetes.Interface, name string) *webhookConfig {
	return &webhookConfig{
		kind:     kindMutating,
		queueKey: kindMutating + " " + name,
		informer: admissioninformers.NewFilteredMutatingWebhookConfigurationInformer(
			client, resyncPeriod, cache.Indexers{}, selectByName(name)),
		readWebhooks: func(object any) ([]configuredWebhook, string) {
			configuration := object.(*admissionv1.MutatingWebhookConfiguration)
			var webhooks []configuredWebhook
			for _, w := range configuration.Webhooks {
				webhooks = append(webhooks, configuredWebhook{name: w.Name, caBundle: w.ClientConfig.CABundle})
			}
			return webhooks, configuration.ResourceVersion
		},
		applyBundle: func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error {
			configuration := admissionv1ac.MutatingWebhookConfiguration(name).WithResourceVersion(resourceVersion)
			for _, w := range webhooks {
				configuration.WithWebhooks(admissionv1ac.MutatingWebhook().WithName(w).
					WithClientConfig(admissionv1ac.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().
				Apply(ctx, configuration, newApplyOptions())
			return err
		},
	}
}

// newValidatingConfig returns the view of the ValidatingWebhookConfiguration with the given name.
func newValidatingConfig(client kubernetes.Interface, name string) *webhookConfig {
	return &webhookConfig{
		kind:     kindValidating,
		queueKey: kindValidating + " " + name,
		informer: admissioninformers.NewFilteredValidatingWebhookConfigurationInformer(
			client, resyncPeriod, cache.Indexers{}, selectByName(name)),
		readWebhooks: func(object any) ([]configuredWebhook, string) {
			configuration := object.(*admissionv1.ValidatingWebhookConfiguration)
			var webhooks []configuredWebhook
			for _, w := range configuration.Webhooks {
				webhooks = append(webhooks, configuredWebhook{name: w.Name, caBundle: w.ClientConfig.CABundle})
			}
			return webhooks, configuration.ResourceVersion
		},
		applyBundle: func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error {
			configuration := admissionv1ac.ValidatingWebhookConfiguration(name).WithResourceVersion(resourceVersion)
			for _, w := range webhooks {
				configuration.WithWebhooks(admissionv1ac.ValidatingWebhook().WithName(w).
					WithClientConfig(admissionv1ac.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
				Apply(ctx, configuration, newApplyOptions())
			return err
		},
	}
}
