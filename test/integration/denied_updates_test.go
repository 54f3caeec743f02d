package integration

import (
	"context"
	"errors"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/test/wait"
)

// deniedUpdate is an update that an administrator denies in one namespace.
type deniedUpdate struct {
	group, resource string
	// allowed is an expression in CEL that is false for the update.
	allowed, message string
	// reason is the reason of the error. The zero value is Invalid.
	reason metav1.StatusReason
}

// denyUpdates creates a ValidatingAdmissionPolicy, and waits until try returns an error. The returned function deletes
// it; so does the end of the test.
func (m *manager) denyUpdates(t *testing.T, ns string, d deniedUpdate, try func(context.Context) error) (allow func()) {
	t.Helper()
	name := d.resource + "-" + ns
	validation := admissionv1.Validation{Expression: d.allowed, Message: d.message}
	if d.reason != "" {
		validation.Reason = &d.reason
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{d.group}, APIVersions: []string{"v1"}, Resources: []string{d.resource},
					},
				},
			}}},
			Validations: []admissionv1.Validation{validation},
		},
	}
	policies := m.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: ns},
			}},
		},
	}
	bindings := m.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	allow = func() {
		ctx := context.WithoutCancel(t.Context())
		_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
	}
	t.Cleanup(allow)
	wait.For(t, "the policy", func(ctx context.Context) error {
		if err := try(ctx); err == nil {
			return errors.New("it is not effective yet")
		}
		return nil
	})
	return allow
}
