package certs

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// FieldManager is the name under which the bundle is written by server-side apply. It owns the caBundle of each
// webhook, and nothing else, in the configurations' managedFields.
const FieldManager = "rollcall-certs"

// resync is how often unchanged objects are looked at again, to take expired CAs out of the bundle. Nothing waits for
// it: an expired CA vouches for nothing.
const resync = 10 * time.Minute

// webhook is the part of a configured webhook that concerns us.
type webhook struct {
	name   string
	bundle []byte
}

// target is a webhook configuration whose bundle we keep: the two kinds, made alike.
type target struct {
	// key names it in messages and in the queue.
	key      string
	informer cache.SharedIndexInformer
	// read returns the object's webhooks and its resource version.
	read func(object any) (webhooks []webhook, resourceVersion string)
	// apply writes bundle to each of the named webhooks, if the object is still at resourceVersion. All webhooks have
	// to be named every time: server-side apply takes a field away that its owner no longer mentions.
	apply func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error
}

// byName restricts a list and watch to one object, which is also what lets RBAC grant them by resourceNames.
func byName(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// applyOptions take the bundle over from whoever else has set it: a bundle that does not hold our CA is of no use.
func applyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
}

func newMutatingTarget(client kubernetes.Interface, name string) *target {
	return &target{
		key: "MutatingWebhookConfiguration " + name,
		informer: admissioninformers.NewFilteredMutatingWebhookConfigurationInformer(
			client, resync, cache.Indexers{}, byName(name)),
		read: func(object any) ([]webhook, string) {
			configuration := object.(*admissionv1.MutatingWebhookConfiguration)
			var webhooks []webhook
			for _, w := range configuration.Webhooks {
				webhooks = append(webhooks, webhook{name: w.Name, bundle: w.ClientConfig.CABundle})
			}
			return webhooks, configuration.ResourceVersion
		},
		apply: func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error {
			configuration := admissionv1ac.MutatingWebhookConfiguration(name).WithResourceVersion(resourceVersion)
			for _, w := range webhooks {
				configuration.WithWebhooks(admissionv1ac.MutatingWebhook().WithName(w).
					WithClientConfig(admissionv1ac.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().
				Apply(ctx, configuration, applyOptions())
			return err
		},
	}
}

func newValidatingTarget(client kubernetes.Interface, name string) *target {
	return &target{
		key: "ValidatingWebhookConfiguration " + name,
		informer: admissioninformers.NewFilteredValidatingWebhookConfigurationInformer(
			client, resync, cache.Indexers{}, byName(name)),
		read: func(object any) ([]webhook, string) {
			configuration := object.(*admissionv1.ValidatingWebhookConfiguration)
			var webhooks []webhook
			for _, w := range configuration.Webhooks {
				webhooks = append(webhooks, webhook{name: w.Name, bundle: w.ClientConfig.CABundle})
			}
			return webhooks, configuration.ResourceVersion
		},
		apply: func(ctx context.Context, resourceVersion string, webhooks []string, bundle []byte) error {
			configuration := admissionv1ac.ValidatingWebhookConfiguration(name).WithResourceVersion(resourceVersion)
			for _, w := range webhooks {
				configuration.WithWebhooks(admissionv1ac.ValidatingWebhook().WithName(w).
					WithClientConfig(admissionv1ac.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
				Apply(ctx, configuration, applyOptions())
			return err
		},
	}
}
