package injectors_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
)

// TestEarlierBuild updates a StatefulSet that an earlier build injected with more labels, and with fields of
// the pod instead of references.
func TestEarlierBuild(t *testing.T) {
	text, err := os.ReadFile("testdata/earlier-build-statefulset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var old appsv1.StatefulSet
	if err := yaml.UnmarshalStrict(text, &old); err != nil {
		t.Fatal(err)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	tests := map[string]struct {
		change       func(*appsv1.StatefulSet)
		keepTemplate bool
	}{
		"an update of another field keeps the template": {
			change:       func(s *appsv1.StatefulSet) { s.Labels["team"] = "research" },
			keepTemplate: true,
		},
		"suspending keeps the template": {
			change:       func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) },
			keepTemplate: true,
		},
		"another size injects the template again": {
			change: func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](4) },
		},
		"another variable injects the template again": {
			change: func(s *appsv1.StatefulSet) {
				c := &s.Spec.Template.Spec.Containers[0]
				c.Env = append(c.Env, corev1.EnvVar{Name: "DATA", Value: "/data"})
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			updated := old.DeepCopy()
			tt.change(updated)
			if _, err := engine.AdmitUpdate(old.DeepCopy(), updated); err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(old.Spec.Template, updated.Spec.Template)
			if tt.keepTemplate && diff != "" {
				t.Errorf("the template changed (-old +updated):\n%s", diff)
			}
			if !tt.keepTemplate && diff == "" {
				t.Error("the template did not change")
			}
			conformance.CheckReferences(t, gang.Workload{StatefulSet: updated})
		})
	}
}
