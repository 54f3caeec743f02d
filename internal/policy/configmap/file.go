package configmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

// FileKey is the key of the ConfigMap with the policy file.
const FileKey = "policy.yaml"

// FileReader reads policy files for this process.
type FileReader struct {
	// Frameworks are those that limits can name.
	Frameworks gang.Frameworks
	// ReadsNamespaces is true if the process may read the labels of namespaces. Otherwise a policy must
	// not select namespaces by their labels.
	ReadsNamespaces bool
}

// read returns the policy of a file, the mistakes, and the advice about parts without an effect. The policy is nil if
// there are mistakes.
func (r FileReader) read(text string) (p *policy.Policy, mistakes, advice []string) {
	p, problems := policy.Read(FileKey, []byte(text), r.Frameworks)
	if p.SelectsLabels() && !r.ReadsNamespaces {
		p, problems = nil, append(problems, policy.Problem{
			Severity: policy.Mistake, Source: FileKey, Path: "profiles",
			Message: "a profile selects namespaces by their labels, which Rollcall may not read; " +
				"set the value policy.readNamespaces of the chart, or select namespaces by their names",
		})
	}
	for _, problem := range problems {
		if problem.Severity == policy.Advice {
			advice = append(advice, problem.String())
		} else {
			mistakes = append(mistakes, problem.String())
		}
	}
	return p, mistakes, advice
}

// ReadConfigMap returns the policy in a ConfigMap with a name, and its text. The ConfigMap is nil if it does
// not exist. The error lists all mistakes.
func (r FileReader) ReadConfigMap(name string, m *corev1.ConfigMap) (*policy.Policy, string, error) {
	if m == nil {
		return nil, "", fmt.Errorf("the ConfigMap %s does not exist", name)
	}
	text, ok := m.Data[FileKey]
	if !ok {
		return nil, "", fmt.Errorf("the ConfigMap %s has no key %s", m.Name, FileKey)
	}
	p, mistakes, _ := r.read(text)
	if p == nil {
		return nil, "", errors.New(strings.Join(mistakes, "; "))
	}
	return p, text, nil
}

// FileHandler validates the ConfigMap with the policy when somebody writes it.
type FileHandler struct {
	// Name is the name of the ConfigMap. Every other ConfigMap is allowed.
	Name string
	// Reader reads the file.
	Reader FileReader
}

var _ admission.Handler = FileHandler{}

// Handle denies a ConfigMap with an invalid file. The causes of the denial contain line and column.
// Advice becomes warnings.
func (h FileHandler) Handle(_ context.Context, req admission.Request) admission.Response {
	if req.Name != h.Name || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	var m corev1.ConfigMap
	if err := json.Unmarshal(req.Object.Raw, &m); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	path := field.NewPath("data").Key(FileKey)
	text, ok := m.Data[FileKey]
	if !ok {
		return newDenial(h.Name, field.ErrorList{field.Required(path, "Rollcall reads the policy from this key")})
	}
	p, mistakes, advice := h.Reader.read(text)
	response := admission.Allowed("")
	if p == nil {
		var errs field.ErrorList
		for _, mistake := range mistakes {
			errs = append(errs, &field.Error{
				Type: field.ErrorTypeForbidden, Field: path.String(), BadValue: "", Detail: mistake,
			})
		}
		response = newDenial(h.Name, gang.LimitErrors(errs))
	}
	for _, a := range advice {
		response.Warnings = append(response.Warnings, gang.ShortenText(a))
	}
	return response
}

func newDenial(name string, errs field.ErrorList) admission.Response {
	status := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, name, errs).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
