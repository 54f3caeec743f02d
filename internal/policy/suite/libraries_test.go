package suite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// envLibraries is the directory with copies of other policy libraries: the folder library of
// open-policy-agent/gatekeeper-library as gatekeeper, and kyverno/policies as kyverno.
const envLibraries = "ROLLCALL_TEST_POLICY_LIBRARIES"

var engine = injectors.NewEngine(injectors.Builtin(), gang.Config{})

func readPolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	header := "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n"
	p, problems := policy.Read("policy.yaml", []byte(header+text), engine.Frameworks())
	if p == nil {
		t.Fatalf("%v in:\n%s", problems, text)
	}
	return p
}

// expectedDifferences are the cases with another outcome by their prefix, with the reason.
var expectedDifferences = map[string]string{
	"general/disallowedtags/container-image-must-not-have-latest-tag: single-disallowed-tag-ephemeral": "a pod template " +
		"has no ephemeral containers",
	"pod-security-policy/apparmor/psp-apparmor: example-allowed-override": "the standard forbids an unconfined pod, " +
		"even if its container has a profile",
	"pod-security/restricted/disallow-capabilities-strict: ": "the cases addcap judge only the capabilities that are " +
		"added, and the standard also requires to drop all",
	"best-practices/disallow-cri-sock-mount: ": "the case passes the rule for another runtime",
}

// requireExpected reports a outcome that differs from a case without a known reason.
func requireExpected(t *testing.T, name string, got bool) {
	t.Helper()
	for prefix, reason := range expectedDifferences {
		if strings.HasPrefix(name, prefix) {
			t.Logf("different: %s: %s", name, reason)
			return
		}
	}
	t.Errorf("%s: violation is %t, want %t", name, got, !got)
}

type gatekeeperSuite struct {
	Tests []struct {
		Name, Constraint string
		Cases            []struct {
			Name, Object string
			Assertions   []struct{ Violations any }
		}
	}
}

// TestGatekeeperLibrary compares our policies with the test cases of Gatekeeper's library, whose samples become
// the pod template of a gang.
func TestGatekeeperLibrary(t *testing.T) {
	root := os.Getenv(envLibraries)
	if root == "" {
		t.Skipf("%s is not set; it is a directory with copies of policy libraries", envLibraries)
	}
	suites, err := filepath.Glob(filepath.Join(root, "gatekeeper", "*", "*", "suite.yaml"))
	if err != nil || len(suites) == 0 {
		t.Fatalf("no suites in %s: %v", root, err)
	}
	ours := map[string]any{}
	readYAML(t, "testdata/gatekeeper.yaml", &ours)
	same, different, skipped, unsaid := 0, 0, 0, map[string]int{}
	for _, path := range suites {
		var suite gatekeeperSuite
		readYAML(t, path, &suite)
		directory := filepath.Dir(path)
		name := strings.TrimPrefix(directory, filepath.Join(root, "gatekeeper")+"/")
		for _, test := range suite.Tests {
			key := name + "/" + filepath.Base(filepath.Dir(test.Constraint))
			if base := filepath.Base(test.Constraint); base != "constraint.yaml" {
				key = name + "/" + base
			}
			text, ok := ours[key]
			for _, c := range test.Cases {
				if !ok {
					unsaid[key]++
					continue
				}
				w, isPod := readSample(t, filepath.Join(directory, c.Object))
				if !isPod {
					skipped++
					continue
				}
				want := slices.ContainsFunc(c.Assertions, func(a struct{ Violations any }) bool {
					return a.Violations != nil && a.Violations != false && a.Violations != "no" && a.Violations != 0.0
				})
				if got := violates(t, readPolicy(t, toYAML(t, text)), w); got != want {
					different++
					requireExpected(t, key+": "+c.Name, got)
					continue
				}
				same++
			}
		}
	}
	for key, n := range unsaid {
		t.Logf("not expressed: %s (%d cases)", key, n)
	}
	t.Logf("%d cases have the same outcome, %d another one, %d are no pods", same, different, skipped)
}

func toYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// readSample returns a gang with the pods of a sample. It returns false for an object without pods.
func readSample(t *testing.T, path string) (gang.Workload, bool) {
	t.Helper()
	var sample struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Spec     struct {
			corev1.PodSpec `json:",inline"`
			Replicas       *int32
			Template       *corev1.PodTemplateSpec
		}
	}
	readYAML(t, path, &sample)
	w, _ := gang.NewWorkload(gang.Job)
	w.Job.ObjectMeta = metav1.ObjectMeta{
		Name: "sample", Namespace: "default", Labels: sample.Metadata.Labels, Annotations: sample.Metadata.Annotations,
	}
	if w.Job.Labels == nil {
		w.Job.Labels = map[string]string{}
	}
	w.Job.Labels[gang.LabelFramework] = "generic"
	w.Job.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: sample.Metadata, Spec: sample.Spec.PodSpec}
	size := int32(1)
	if sample.Spec.Template != nil {
		w.Job.Spec.Template = *sample.Spec.Template
		size = ptr.Deref(sample.Spec.Replicas, 1)
	}
	if sample.Kind == "Namespace" {
		w.Job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a.io/b:1"}}
	}
	w.Job.Spec.Parallelism, w.Job.Spec.Completions = &size, &size
	return w, len(w.Job.Spec.Template.Spec.Containers) > 0
}

func violates(t *testing.T, p *policy.Policy, w gang.Workload) bool {
	t.Helper()
	result, err := engine.Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	findings := p.Judge(policy.Input{
		Members:   []policy.Member{{Gang: result.Gang, Workload: w}},
		Namespace: policy.Namespace{Name: "default"}, Now: time.Unix(0, 0),
	})[0].Findings
	return policy.Worst(findings) == policy.ModeEnforce
}
