package policy

import (
	"bytes"
	"cmp"
	_ "embed" // for the template
	"fmt"
	"slices"
	"strings"
	"text/template"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
)

//go:embed unlabeled.tmpl
var unlabeledText string

var unlabeledTemplate = template.Must(template.New("").
	Funcs(template.FuncMap{"isAccelerator": acceleratorExpression}).Parse(unlabeledText))

// unlabeledKind is a kind of workloads, with its resource and the field with the number of pods.
type unlabeledKind struct {
	Kind                  gang.Kind
	Group, Resource, Pods string
}

var unlabeledKinds = []unlabeledKind{
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
			if slices.Contains(kinds, k.Kind) {
				add("rollcall-multi-pod-gpu-"+k.Resource, m.Mode, renderUnlabeledSpec("multiPodGPU", k))
			}
		}
	}
	if u.OptOut != nil {
		add("rollcall-opt-out", u.OptOut.Mode, renderUnlabeledSpec("optOut", nil))
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

// renderUnlabeledSpec returns the specification of a name in the template.
func renderUnlabeledSpec(name string, kind any) admissionv1.ValidatingAdmissionPolicySpec {
	var text bytes.Buffer
	var spec admissionv1.ValidatingAdmissionPolicySpec
	err := unlabeledTemplate.ExecuteTemplate(&text, name, kind)
	if err == nil {
		err = yaml.UnmarshalStrict(text.Bytes(), &spec)
	}
	if err != nil {
		panic(err) // the template is part of the program
	}
	return spec
}

// acceleratorExpression returns the condition in CEL that r is the name of a resource of accelerators.
func acceleratorExpression() string {
	var names []string
	for _, pattern := range gang.AcceleratorResources() {
		if prefix, isPattern := strings.CutSuffix(pattern, "*"); isPattern {
			names = append(names, fmt.Sprintf("r.startsWith('%s')", prefix))
		} else {
			names = append(names, fmt.Sprintf("r == '%s'", pattern))
		}
	}
	return strings.Join(names, " || ")
}
