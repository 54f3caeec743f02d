package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

// userValue is a value that no injector would choose.
const userValue = "chosen-by-the-user"

// Suite holds one injector to the rules for all injectors.
func Suite(t *testing.T, inj injectors.Injector) {
	f := inj.Framework()
	if _, ok := f.Find(f.Role); !ok || f.Port == 0 || f.PortName == "" {
		t.Fatalf("the framework %+v lacks its default role or its port", f)
	}
	if len(glob(t, f.Name+"/testdata/*.yaml")) == 0 {
		t.Errorf("no golden cases in injectors/%s/testdata", f.Name)
	}
	s := suite{engine: injectors.New(injectors.Registry{inj}, gang.Config{}), injector: inj}
	for name, w := range s.workloads() {
		t.Run(name, func(t *testing.T) {
			t.Run("adds and nothing else", func(t *testing.T) { s.additive(t, w) })
			t.Run("the second time changes nothing", func(t *testing.T) { s.idempotent(t, w) })
			t.Run("the same text gives the same object", func(t *testing.T) { s.deterministic(t, w) })
			t.Run("serves every training and init container", func(t *testing.T) { s.complete(t, w) })
			t.Run("a user's value is kept or refused", func(t *testing.T) { s.userWins(t, w) })
			t.Run("the members agree", func(t *testing.T) { s.agree(t, w) })
			t.Run("a refused workload is left as it was", func(t *testing.T) { s.refusedUnchanged(t, w) })
		})
	}
}

type suite struct {
	engine   *injectors.Engine
	injector injectors.Injector
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "train"}},
		Spec: corev1.PodSpec{
			EnableServiceLinks: ptr.To(true),
			InitContainers:     []corev1.Container{{Name: "prepare", Env: []corev1.EnvVar{{Name: "STAGE", Value: "prepare"}}}},
			Containers: []corev1.Container{
				{
					Name: "trainer",
					Env:  []corev1.EnvVar{{Name: "DATA", Value: "/data"}, {Name: "RUN", Value: "$(DATA)/run"}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"),
					}},
				},
				{Name: "logger"},
			},
		},
	}
}

// inject injects a copy.
func (s suite) inject(t *testing.T, w gang.Workload) gang.Workload {
	t.Helper()
	w = w.DeepCopy()
	if _, err := s.engine.Inject(w); err != nil {
		t.Fatalf("injecting: %v", err)
	}
	return w
}

func (s suite) additive(t *testing.T, w gang.Workload) {
	got := s.inject(t, w)
	if err := Additive(tree(t, w.Object()), tree(t, got.Object())); err != nil {
		t.Error(err)
	}
	if w.Equal(got) {
		t.Error("nothing was injected")
	}
}

func (s suite) idempotent(t *testing.T, w gang.Workload) {
	once := s.inject(t, w)
	twice := once.DeepCopy()
	result, err := s.engine.Inject(twice)
	if err != nil {
		t.Fatalf("injecting again: %v", err)
	}
	if diff := cmp.Diff(once.Object(), twice.Object()); diff != "" {
		t.Errorf("the second injection changed (-once +twice):\n%s", diff)
	}
	if result.Reason != gang.ReasonUnchanged {
		t.Errorf("reason of the second injection is %s", result.Reason)
	}
	if len(result.Warnings) > 0 {
		t.Errorf("our own values are warned about: %q", result.Warnings)
	}
}

func (s suite) deterministic(t *testing.T, w gang.Workload) {
	first, err := json.Marshal(s.inject(t, w).Object())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		again, err := json.Marshal(s.inject(t, w).Object())
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(first) {
			t.Fatalf("two injections of one object differ:\n%s\n%s", first, again)
		}
	}
}

func (s suite) complete(t *testing.T, w gang.Workload) {
	got := s.inject(t, w).Template().Spec
	for _, e := range s.plan(t, w).Env {
		if !hasEnv(got.InitContainers[0], e.Name) || !hasEnv(got.Containers[0], e.Name) {
			t.Errorf("%s is missing in a container", e.Name)
		}
		if hasEnv(got.Containers[1], e.Name) {
			t.Errorf("%s reached a container that does not train", e.Name)
		}
	}
}

func (s suite) plan(t *testing.T, w gang.Workload) plan.Plan {
	t.Helper()
	g, _, errs := gang.Parse(w, s.engine.Frameworks(), gang.Config{})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return s.injector.Plan(g)
}

func hasEnv(c corev1.Container, name string) bool {
	for _, e := range c.Env {
		if e.Name == name {
			return true
		}
	}
	return false
}

// userWins sets each variable by hand, one after the other.
func (s suite) userWins(t *testing.T, w gang.Workload) {
	for _, e := range s.plan(t, w).Env {
		mine := w.DeepCopy()
		c := &mine.Template().Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: userValue})
		path := fmt.Sprintf("spec.template.spec.containers[0].env[%d]", len(c.Env)-1)
		result, err := s.engine.Inject(mine)
		if e.Policy == plan.Own {
			if !injectors.IsDenied(err) || !strings.Contains(err.Error(), path+".value") || !strings.Contains(err.Error(), userValue) {
				t.Errorf("%s: want a denial that names %s and the value, got %v", e.Name, path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: a tunable of the user's was refused: %v", e.Name, err)
			continue
		}
		if warned := strings.Contains(strings.Join(result.Warnings, "\n"), path); warned != (e.Policy == plan.Default) {
			t.Errorf("%s: warned is %v: %q", e.Name, warned, result.Warnings)
		}
		n := 0
		for _, have := range mine.Template().Spec.Containers[0].Env {
			if have.Name == e.Name {
				n++
				if have.Value != userValue {
					t.Errorf("%s: the user's value became %q", e.Name, have.Value)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s stands %d times", e.Name, n)
		}
	}
}

func (s suite) refusedUnchanged(t *testing.T, w gang.Workload) {
	bad := w.DeepCopy()
	metav1.SetMetaDataAnnotation(bad.Meta(), gang.AnnotationPort, "0")
	before := bad.DeepCopy()
	if _, err := s.engine.Inject(bad); !injectors.IsDenied(err) {
		t.Fatalf("want a denial, got %v", err)
	}
	if diff := cmp.Diff(before.Object(), bad.Object()); diff != "" {
		t.Errorf("the denial changed the workload (-before +after):\n%s", diff)
	}
}

// tree is an object as decoded JSON.
func tree(t testing.TB, obj any) any {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
