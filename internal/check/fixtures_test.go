package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

var testTime = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

// testAuthority is a certificate authority that is valid for 80 days from the test time on, of 100.
var testAuthority = newAuthority(testTime.AddDate(0, 0, 80))

// newAuthority returns a certificate authority that is valid for 100 days until an end.
func newAuthority(end time.Time) *x509.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: end.AddDate(0, 0, -100), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return certificate
}

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// errForbidden is the error of an API server that denies a request by RBAC.
var errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "a",
	errors.New(`user "jane" cannot create resource "jobs" in API group "batch" in the namespace "team"`))

// errWebhook returns the error of an API server for an answer of a webhook, or for a failed call.
func errWebhook(text string) error { return apierrors.NewInternalError(errors.New(text)) }

func chartMeta(component, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "rollcall-system", Name: name, Labels: map[string]string{
		labelChart: "rollcall-0.2.0", labelInstance: "rollcall", labelComponent: component, labelAppVersion: "0.2.0",
	}}
}

func newDeployment(component string, args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: chartMeta(component, "rollcall-"+component),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelComponent: component}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName: "rollcall-" + component,
				Containers: []corev1.Container{{
					Name: component, Image: "registry.example.com/manager:v0.2.0", Args: append([]string{component}, args...),
				}},
			}},
		},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 2, UpdatedReplicas: 2},
	}
}

// managedNamespaces is the selector of the chart.
var managedNamespaces = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
	Key: "kubernetes.io/metadata.name", Operator: "NotIn", Values: []string{"kube-system", "rollcall-system"},
}}}

const managedNamespacesJSON = `{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn",` +
	`"values":["kube-system","rollcall-system"]}]}`

var jobRules = []admissionv1.RuleWithOperations{{
	Operations: []admissionv1.OperationType{admissionv1.Create},
	Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
}}

func newClientConfig() admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{
		Service:  &admissionv1.ServiceReference{Namespace: "rollcall-system", Name: "rollcall"},
		CABundle: encodeCertificate(testAuthority),
	}
}

func newMutating() *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: chartMeta("", "rollcall")}
	for _, name := range ownWebhooks[:3] {
		w := admissionv1.MutatingWebhook{Name: name, NamespaceSelector: managedNamespaces, ClientConfig: newClientConfig()}
		if name != rankWebhook {
			w.Rules = jobRules
		}
		c.Webhooks = append(c.Webhooks, w)
	}
	return c
}

func newValidating() *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: chartMeta("", "rollcall")}
	for _, name := range ownWebhooks[3:] {
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
			Name: name, NamespaceSelector: managedNamespaces, ClientConfig: newClientConfig(), Rules: jobRules,
		})
	}
	return c
}

// newFacts returns the facts of an installation without problems.
func newFacts(t *testing.T) *Facts {
	t.Helper()
	f := &Facts{
		Time: testTime, CommandVersion: "v0.2.1",
		ServerVersion:  Observed[string]{Value: "v1.37.0"},
		ServesPolicies: Observed[bool]{Value: true},
		Releases:       Observed[[]Release]{Value: []Release{{Name: "rollcall", Namespace: "rollcall-system"}}},
		ChartObjects: map[string]Observed[[]ChartObject]{
			kindMutatingPolicy:  {Value: []ChartObject{{Name: "rollcall-rank", Release: "rollcall"}}},
			kindMutatingBinding: {Value: []ChartObject{{Name: "rollcall-rank", Release: "rollcall"}}},
		},
	}
	injected := newSampleJob("rollcall-check", 2)
	injected.Annotations = map[string]string{gang.AnnotationInjected: "{}"}
	i := &Installation{
		Release: f.Releases.Value[0],
		Webhook: Component{Name: "webhook", Observed: Observed[*appsv1.Deployment]{
			Value: newDeployment("webhook", "--secret-name=rollcall-ca"),
		}},
		Controller: Component{Name: "controller", Observed: Observed[*appsv1.Deployment]{
			Value: newDeployment("controller", "--leader-elect", "--lease-name=rollcall",
				"--namespace-selector="+managedNamespacesJSON),
		}},
		Mutating:   Observed[*admissionv1.MutatingWebhookConfiguration]{Value: newMutating()},
		Validating: Observed[*admissionv1.ValidatingWebhookConfiguration]{Value: newValidating()},
		Service: Observed[*corev1.Service]{Value: &corev1.Service{
			Spec: corev1.ServiceSpec{Selector: map[string]string{labelComponent: "webhook"}},
		}},
		ReadyEndpoints: Observed[int]{Value: 2},
		Secret:         Observed[[]*x509.Certificate]{Value: []*x509.Certificate{testAuthority}},
		Admission: Admission{
			Namespace: "team", Selected: Observed[bool]{Value: true},
			Job: Observed[*batchv1.Job]{Value: injected},
			Denial: Observed[bool]{Err: errWebhook(`admission webhook "inject.rollcall.training" denied the request: ` +
				`spec.completions: Invalid value: 3: must equal parallelism (2)`)},
		},
		Lease: Observed[*coordinationv1.Lease]{Value: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("rollcall-controller-a"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: testTime.Add(-time.Second)},
		}}},
	}
	i.Permissions.Value = &Permissions{}
	f.Installation = i
	return f
}

// setBundles replaces the CA bundles of all webhooks.
func (i *Installation) setBundles(authority *x509.Certificate) {
	for j := range i.Mutating.Value.Webhooks {
		i.Mutating.Value.Webhooks[j].ClientConfig.CABundle = encodeCertificate(authority)
	}
	for j := range i.Validating.Value.Webhooks {
		i.Validating.Value.Webhooks[j].ClientConfig.CABundle = encodeCertificate(authority)
	}
}
