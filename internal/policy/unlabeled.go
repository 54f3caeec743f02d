package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// unlabeledKinds are the kinds of workloads, with their resources and the field with the number of pods.
var unlabeledKinds = []struct {
	kind                  gang.Kind
	group, resource, pods string
}{
	{gang.Job, "batch", "jobs", "parallelism"},
	{gang.StatefulSet, "apps", "statefulsets", "replicas"},
}

func (r *reader) validateUnlabeled(u Unlabeled) {
	const path = "unlabeled"
	if u.MultiPodGPU != nil {
		r.checkMode(path+".multiPodGPU.mode", u.MultiPodGPU.Mode)
		for i, kind := range u.MultiPodGPU.Kinds {
			if kind != gang.Job && kind != gang.StatefulSet {
				r.add(fmt.Sprintf("%s.multiPodGPU.kinds[%d]", path, i), "%q is not a kind; use Job or StatefulSet", kind)
			}
		}
	}
	if u.OptOut != nil {
		r.checkMode(path+".optOut.mode", u.OptOut.Mode)
	}
	for i, name := range u.ExceptNamespaces {
		for _, message := range validation.IsDNS1123Label(name) {
			r.add(fmt.Sprintf("%s.exceptNamespaces[%d]", path, i), "%q: %s", name, message)
		}
	}
}

// AdmissionPolicy is a ValidatingAdmissionPolicy together with its binding.
type AdmissionPolicy struct {
	Policy  admissionv1.ValidatingAdmissionPolicy
	Binding admissionv1.ValidatingAdmissionPolicyBinding
}

// staticSuffix ends the names of policies that the API server reads from files (KEP-5793).
const staticSuffix = ".static.k8s.io"

// RenderUnlabeled returns the ValidatingAdmissionPolicies for the workloads that the webhook of Rollcall
// never receives. Their names end with .static.k8s.io if static is true.
func (p *Policy) RenderUnlabeled(static bool) []AdmissionPolicy {
	u := p.file.Unlabeled
	var policies []AdmissionPolicy
	add := func(name string, own Mode, spec admissionv1.ValidatingAdmissionPolicySpec) {
		mode := cmp.Or(own, p.file.Mode, ModeEnforce)
		if mode == ModeOff {
			return
		}
		if static {
			name += staticSuffix
		}
		if p.file.Contact != "" {
			spec.Validations[0].Message += ", or ask " + p.file.Contact
		}
		spec.MatchConstraints.NamespaceSelector = u.newNamespaceSelector()
		policies = append(policies, newAdmissionPolicy(name, mode, spec))
	}
	if m := u.MultiPodGPU; m != nil {
		kinds := m.Kinds
		if len(kinds) == 0 {
			kinds = []gang.Kind{gang.Job}
		}
		for _, k := range unlabeledKinds {
			if slices.Contains(kinds, k.kind) {
				add("rollcall-multi-pod-gpu-"+k.resource, m.Mode, newMultiPodGPUSpec(k.kind, k.group, k.resource, k.pods))
			}
		}
	}
	if u.OptOut != nil {
		add("rollcall-opt-out", u.OptOut.Mode, newOptOutSpec())
	}
	return policies
}

// newNamespaceSelector returns the selector of all namespaces except those of the file; nil for all.
func (u Unlabeled) newNamespaceSelector() *metav1.LabelSelector {
	if len(u.ExceptNamespaces) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: u.ExceptNamespaces,
	}}}
}

// actions are the actions of a binding by mode.
var actions = map[Mode]admissionv1.ValidationAction{
	ModeEnforce: admissionv1.Deny, ModeWarn: admissionv1.Warn, ModeAudit: admissionv1.Audit,
}

func newAdmissionPolicy(name string, mode Mode, spec admissionv1.ValidatingAdmissionPolicySpec) AdmissionPolicy {
	spec.FailurePolicy = ptr.To(admissionv1.Ignore)
	if mode == ModeEnforce {
		spec.FailurePolicy = ptr.To(admissionv1.Fail)
	}
	const apiVersion = "admissionregistration.k8s.io/v1"
	return AdmissionPolicy{
		Policy: admissionv1.ValidatingAdmissionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "ValidatingAdmissionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       spec,
		},
		Binding: admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "ValidatingAdmissionPolicyBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{actions[mode]},
			},
		},
	}
}

// newMultiPodGPUSpec returns the policy for a kind of workload. It does not concern workloads of other
// controllers, such as the launcher of another operator, because these are not meant to be gangs. The Jobs of a
// CronJob are. An update is allowed if the policy concerned the workload before, so that controllers can finish
// workloads that are older than the policy.
func newMultiPodGPUSpec(kind gang.Kind, group, resource, pods string) admissionv1.ValidatingAdmissionPolicySpec {
	hasSeveralPods := func(object string) string {
		return fmt.Sprintf("has(%[1]s.spec.%[2]s) && %[1]s.spec.%[2]s > 1", object, pods)
	}
	isUnlabeled := fmt.Sprintf("!(has(oldObject.metadata.labels) && '%s' in oldObject.metadata.labels)",
		gang.LabelFramework)
	return admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: gang.LabelFramework, Operator: metav1.LabelSelectorOpDoesNotExist,
			}}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{
				newResourceRule(group, resource, admissionv1.Create, admissionv1.Update),
			},
		},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "no-other-controller",
			Expression: "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, " +
				"!has(o.controller) || !o.controller || o.kind == 'CronJob')",
		}, {
			Name:       "several-pods",
			Expression: hasSeveralPods("object"),
		}},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("!(%s) || (oldObject != null && %s && %s && (%s))", acceleratorExpression("object"),
				isUnlabeled, hasSeveralPods("oldObject"), acceleratorExpression("oldObject")),
			Message: fmt.Sprintf("a %s with several pods and accelerators must be a gang; add the label %s",
				kind, gang.LabelFramework),
			Reason: ptr.To(metav1.StatusReasonInvalid),
		}},
	}
}

// acceleratorExpression returns the condition in CEL that a container or init container of the object has
// accelerators.
func acceleratorExpression(object string) string {
	var names []string
	for _, pattern := range gang.AcceleratorResources() {
		if prefix, isPattern := strings.CutSuffix(pattern, "*"); isPattern {
			names = append(names, fmt.Sprintf("r.startsWith('%s')", prefix))
		} else {
			names = append(names, fmt.Sprintf("r == '%s'", pattern))
		}
	}
	var lists []string
	for _, list := range []string{"limits", "requests"} {
		lists = append(lists, fmt.Sprintf(
			"(has(c.resources.%[1]s) && c.resources.%[1]s.exists(r, (%[2]s) && string(c.resources.%[1]s[r]) != '0'))",
			list, strings.Join(names, " || ")))
	}
	// The type check of API servers does not know the fields of resources, because they have a default.
	return fmt.Sprintf("[dyn(%[1]s.containers), has(%[1]s.initContainers) ? dyn(%[1]s.initContainers) : dyn([])]"+
		".exists(list, list.exists(c, has(c.resources) && (%[2]s)))",
		object+".spec.template.spec", strings.Join(lists, " || "))
}

// newOptOutSpec returns the policy for workloads that opt out. An update is allowed if the workload opted
// out before, so that controllers can finish the workload.
func newOptOutSpec() admissionv1.ValidatingAdmissionPolicySpec {
	var rules []admissionv1.NamedRuleWithOperations
	for _, k := range unlabeledKinds {
		rules = append(rules, newResourceRule(k.group, k.resource, admissionv1.Create, admissionv1.Update))
	}
	optedOut := func(object string) string {
		return fmt.Sprintf("has(%[1]s.metadata.labels) && '%[2]s' in %[1]s.metadata.labels && "+
			"'%[3]s' in %[1]s.metadata.labels && %[1]s.metadata.labels['%[3]s'] == 'false'",
			object, gang.LabelFramework, gang.LabelInject)
	}
	return admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{gang.LabelInject: "false"},
			},
			ResourceRules: rules,
		},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("!(%s) || (oldObject != null && %s)", optedOut("object"), optedOut("oldObject")),
			Message:    fmt.Sprintf("a gang must not opt out; remove the label %s", gang.LabelInject),
			Reason:     ptr.To(metav1.StatusReasonInvalid),
		}},
	}
}

func newResourceRule(
	group, resource string, operations ...admissionv1.OperationType,
) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}}
}
