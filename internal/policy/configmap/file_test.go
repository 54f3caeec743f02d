package configmap

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestFileHandler(t *testing.T) {
	for name, test := range map[string]struct {
		configMap *corev1.ConfigMap
		causes    []string
		warnings  []string
	}{
		"a valid file is allowed": {configMap: newConfigMap("rollcall-policy", validFile)},
		"an unknown field is denied with its line": {
			configMap: newConfigMap("rollcall-policy", invalidFile),
			causes: []string{"data[policy.yaml]: Forbidden: policy.yaml:3:20: cluster.limits.sizes: unknown field; " +
				"did you mean size?"},
		},
		"text that is not YAML is denied": {
			configMap: newConfigMap("rollcall-policy", "a: [\n"),
			causes:    []string{"data[policy.yaml]: Forbidden: policy.yaml:1: did not find expected node content"},
		},
		"a ConfigMap without the key is denied": {
			configMap: newConfigMap("rollcall-policy", ""),
			causes:    []string{"data[policy.yaml]: Required value: Rollcall reads the policy from this key"},
		},
		"a selector is denied without the permission to read namespaces": {
			configMap: newConfigMap("rollcall-policy", labelFile),
			causes: []string{"data[policy.yaml]: Forbidden: policy.yaml: profiles: a profile selects namespaces by their " +
				"labels, which Rollcall may not read; set the value policy.readNamespaces of the chart, or select " +
				"namespaces by their names"},
		},
		"advice is a warning": {
			configMap: newConfigMap("rollcall-policy", validFile+
				"profiles: [{name: a, namespaces: {names: ['*']}, limits: {size: {max: 8}}}]\n"),
			warnings: []string{"policy.yaml:4:66: profiles[0].limits.size.max: has no effect above 4, the limit of the cluster"},
		},
		"another ConfigMap is allowed": {configMap: newConfigMap("other", invalidFile)},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(test.configMap)
			if err != nil {
				t.Fatal(err)
			}
			r := FileHandler{Name: "rollcall-policy", Reader: testReader}.Handle(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{
					Operation: admissionv1.Update, Name: test.configMap.Name, Object: runtime.RawExtension{Raw: raw},
				},
			})
			if r.Allowed != (test.causes == nil) {
				t.Fatalf("allowed: %t, %+v", r.Allowed, r.Result)
			}
			var causes []string
			if !r.Allowed {
				for _, c := range r.Result.Details.Causes {
					causes = append(causes, c.Field+": "+c.Message)
				}
			}
			if diff := cmp.Diff(test.causes, causes); diff != "" {
				t.Error("causes (-want +got):\n" + diff)
			}
			if diff := cmp.Diff(test.warnings, r.Warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Error("warnings (-want +got):\n" + diff)
			}
		})
	}
}
