package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
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

// userValue is a value that no injector sets.
const userValue = "chosen-by-the-user"

// RunSuite tests the rules for all injectors with one injector.
func RunSuite(t *testing.T, inj injectors.Injector) {
	f := inj.Framework()
	if _, ok := f.FindRole(f.DefaultRole); !ok || f.Port == 0 || f.PortName == "" {
		t.Fatalf("the framework %+v has no valid default role, port or port name", f)
	}
	s := suite{engine: injectors.NewEngine(injectors.Registry{inj}, gang.Config{}), injector: inj}
	for name, w := range s.newWorkloads() {
		t.Run(name, func(t *testing.T) {
			t.Run("injection only adds values", func(t *testing.T) { s.testAdditive(t, w) })
			t.Run("second injection changes nothing", func(t *testing.T) { s.testIdempotent(t, w) })
			t.Run("a copy of MultiKueue has the same pod template", func(t *testing.T) { s.testMultiKueueCopy(t, w) })
			t.Run("injection is deterministic", func(t *testing.T) { s.testDeterministic(t, w) })
			t.Run("training and init containers get variables", func(t *testing.T) { s.testEnvInContainers(t, w) })
			t.Run("references are to earlier variables", func(t *testing.T) { s.testReferences(t, w) })
			t.Run("user values are preserved or denied", func(t *testing.T) { s.testUserValues(t, w) })
			t.Run("variables contain published names", func(t *testing.T) { s.testPublishedNames(t, w) })
			t.Run("members are consistent", func(t *testing.T) { s.testMemberConsistency(t, w) })
			t.Run("denied workload is unchanged", func(t *testing.T) { s.testDenialHasNoEffect(t, w) })
		})
	}
}

type suite struct {
	engine   *injectors.Engine
	injector injectors.Injector
}

// newPodTemplate returns a template with an init container, a training container, a sidecar, limits and
// variables of the user.
func newPodTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "train"}},
		Spec: corev1.PodSpec{
			EnableServiceLinks: ptr.To(true),
			InitContainers: []corev1.Container{
				{Name: "prepare", Env: []corev1.EnvVar{{Name: "STAGE", Value: "prepare"}}},
			},
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

// injectCopy returns an injected copy of a workload.
func (s suite) injectCopy(t *testing.T, w gang.Workload) gang.Workload {
	t.Helper()
	w = w.DeepCopy()
	if _, err := s.engine.Inject(w); err != nil {
		t.Fatalf("injecting: %v", err)
	}
	return w
}

func (s suite) testAdditive(t *testing.T, w gang.Workload) {
	got := s.injectCopy(t, w)
	if err := CheckAdditive(toJSONTree(t, w.Object()), toJSONTree(t, got.Object())); err != nil {
		t.Error(err)
	}
	if w.Equal(got) {
		t.Error("nothing was injected")
	}
}

func (s suite) testIdempotent(t *testing.T, w gang.Workload) {
	once := s.injectCopy(t, w)
	twice := once.DeepCopy()
	result, err := s.engine.Inject(twice)
	if err != nil {
		t.Fatalf("injecting again: %v", err)
	}
	if diff := cmp.Diff(once.Object(), twice.Object()); diff != "" {
		t.Errorf("the second injection changed the workload (-once +twice):\n%s", diff)
	}
	if result.Reason != gang.ReasonUnchanged {
		t.Errorf("the second injection has the reason %s, want %s", result.Reason, gang.ReasonUnchanged)
	}
	if len(result.Warnings) > 0 {
		t.Errorf("the second injection warns about injected values: %q", result.Warnings)
	}
}

// testMultiKueueCopy injects a Job whose copy Kueue runs in another cluster, and then the copy. Kueue rejects a copy
// whose containers differ from those of the Job.
func (s suite) testMultiKueueCopy(t *testing.T, w gang.Workload) {
	if w.Job == nil {
		t.Skip("Kueue copies only Jobs")
	}
	w = w.DeepCopy()
	w.Job.Spec.ManagedBy = ptr.To("kueue.x-k8s.io/multikueue")
	local := s.injectCopy(t, w)
	remote := local.DeepCopy()
	remote.Job.Spec.ManagedBy = nil
	remote = s.injectCopy(t, remote)
	if diff := cmp.Diff(local.Template(), remote.Template()); diff != "" {
		t.Errorf("the pod template of the copy differs (-Job +copy):\n%s", diff)
	}
}

func (s suite) testDeterministic(t *testing.T, w gang.Workload) {
	first, err := json.Marshal(s.injectCopy(t, w).Object())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		again, err := json.Marshal(s.injectCopy(t, w).Object())
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(first) {
			t.Fatalf("two injections of the same workload differ:\n%s\n%s", first, again)
		}
	}
}

func (s suite) testEnvInContainers(t *testing.T, w gang.Workload) {
	got := s.injectCopy(t, w).Template().Spec
	for _, e := range s.buildPlan(t, w).Env {
		if !hasEnv(got.InitContainers[0], e.Name) || !hasEnv(got.Containers[0], e.Name) {
			t.Errorf("the init container or the training container does not have %s", e.Name)
		}
		if hasEnv(got.Containers[1], e.Name) {
			t.Errorf("the sidecar has %s", e.Name)
		}
	}
}

// buildPlan returns the plan of the injector for a workload.
func (s suite) buildPlan(t *testing.T, w gang.Workload) plan.Plan {
	t.Helper()
	g, _, errs := gang.Parse(w, s.engine.Frameworks(), gang.Config{})
	if len(errs) > 0 {
		t.Fatal(errs.ErrorList().ToAggregate())
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

// testUserValues sets each variable of the plan to a value of the user. A variable with the policy Required
// must be denied. Any other variable must keep the value, with advice for the policy Suggest, unless any
// text means the same.
func (s suite) testUserValues(t *testing.T, w gang.Workload) {
	for _, e := range s.buildPlan(t, w).Env {
		edited := w.DeepCopy()
		c := &edited.Template().Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: userValue})
		path := fmt.Sprintf("spec.template.spec.containers[0].env[%d]", len(c.Env)-1)
		result, err := s.engine.Inject(edited)
		if e.Policy == plan.Required {
			if !injectors.IsDenied(err) || !strings.Contains(err.Error(), path+".value") ||
				!strings.Contains(err.Error(), userValue) {
				t.Errorf("%s: the error is %v, want a denial with the path %s and the value", e.Name, err, path)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: the value of the user was denied: %v", e.Name, err)
			continue
		}
		isAdvised := slices.ContainsFunc(result.Warnings, func(w gang.Warning) bool { return w.Path == path && w.Advice })
		if want := e.Policy == plan.Suggest && e.Meaning != plan.Switch; isAdvised != want {
			t.Errorf("%s: advice exists: %t, want %t: %q", e.Name, isAdvised, want, result.Warnings)
		}
		checkUserValue(t, edited.Template().Spec.Containers[0], e.Name)
	}
}

// checkUserValue requires that a container has a variable exactly once, with the value of the user.
func checkUserValue(t *testing.T, c corev1.Container, name string) {
	t.Helper()
	count := 0
	for _, e := range c.Env {
		if e.Name != name {
			continue
		}
		count++
		if e.Value != userValue {
			t.Errorf("%s: the value of the user changed to %q", name, e.Value)
		}
	}
	if count != 1 {
		t.Errorf("%s: the container has the variable %d times, want 1", name, count)
	}
}

func (s suite) testDenialHasNoEffect(t *testing.T, w gang.Workload) {
	invalid := w.DeepCopy()
	metav1.SetMetaDataAnnotation(invalid.Meta(), gang.AnnotationPort, "0")
	before := invalid.DeepCopy()
	if _, err := s.engine.Inject(invalid); !injectors.IsDenied(err) {
		t.Fatalf("the error is %v, want a denial", err)
	}
	if diff := cmp.Diff(before.Object(), invalid.Object()); diff != "" {
		t.Errorf("the denied workload changed (-before +after):\n%s", diff)
	}
}

// testPublishedNames checks that no injected value contains the name of a rank that the Service does not
// publish.
func (s suite) testPublishedNames(t *testing.T, w gang.Workload) {
	g, _, denials := gang.Parse(w, s.engine.Frameworks(), gang.Config{})
	if len(denials) > 0 {
		t.Fatal(denials.ErrorList().ToAggregate())
	}
	if g.PublishedRanks == gang.PublishAll {
		return
	}
	got, err := json.Marshal(s.injectCopy(t, w).Template().Spec)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range g.Size {
		name, isPublished := g.RankFQDN(rank), rank == 0
		if strings.Contains(string(got), name) && !isPublished {
			t.Errorf("the pods contain %s, which has no DNS name", name)
		}
	}
}

// toJSONTree returns an object as decoded JSON.
func toJSONTree(t testing.TB, obj any) any {
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
