package suite_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

// kyvernoPolicy is our policy for one of Kyverno's.
type kyvernoPolicy struct {
	// Policy is the policy without its header.
	Policy any
	// Controls are the only findings that count, if ours is a level of the Pod Security Standards and theirs is
	// one control of the level; empty for all findings.
	Controls []string
}

type kyvernoTest struct {
	Resources []string
	Results   []struct {
		Kind, Result string
		Resources    []string
	}
}

// TestKyvernoPolicies compares our policies with the test cases of Kyverno's library, whose resources become the
// pod template of a gang.
func TestKyvernoPolicies(t *testing.T) {
	root := os.Getenv(envLibraries)
	if root == "" {
		t.Skipf("%s is not set; it is a directory with copies of policy libraries", envLibraries)
	}
	policies := map[string]kyvernoPolicy{}
	readYAML(t, "testdata/kyverno.yaml", &policies)
	same, different, skipped := 0, 0, 0
	for name, ours := range policies {
		directory := filepath.Join(root, "kyverno", name, ".kyverno-test")
		var test kyvernoTest
		readYAML(t, filepath.Join(directory, "kyverno-test.yaml"), &test)
		p := readPolicy(t, toYAML(t, ours.Policy))
		samples := readResources(t, directory, test.Resources)
		for _, result := range test.Results {
			for _, resource := range result.Resources {
				w, ok := samples[result.Kind+"/"+resource]
				if !ok || result.Result == "skip" {
					skipped++
					continue
				}
				want := result.Result == "fail"
				if got := ours.violates(t, p, w); got != want {
					different++
					requireExpected(t, name+": "+result.Kind+" "+resource, got)
					continue
				}
				same++
			}
		}
	}
	t.Logf("%d cases have the same outcome, %d another one, %d have no pods or are skipped", same, different, skipped)
}

// readResources returns gangs with the pods of all objects, by kind and name.
func readResources(t *testing.T, directory string, files []string) map[string]gang.Workload {
	t.Helper()
	samples := map[string]gang.Workload{}
	for _, file := range files {
		f, err := os.Open(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		docs, unreadable := manifest.ReadAll(file, f)
		if len(unreadable) > 0 {
			t.Logf("%s: %v", directory, unreadable[0])
		}
		for _, d := range docs {
			for _, o := range d.Objects() {
				if template, ok := readTemplate(o); ok {
					samples[o.Kind+"/"+o.Name] = newGang(o, template)
				}
			}
		}
	}
	return samples
}

// readTemplate returns the pod template of an object; false for an object without pods.
func readTemplate(o manifest.Object) (corev1.PodTemplateSpec, bool) {
	var pod corev1.Pod
	var workload struct {
		Spec struct {
			Template    corev1.PodTemplateSpec
			JobTemplate batchv1.JobTemplateSpec
		}
	}
	if o.Kind == "Pod" {
		err := yaml.Unmarshal(o.JSON, &pod)
		return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, err == nil
	}
	if err := yaml.Unmarshal(o.JSON, &workload); err != nil {
		return corev1.PodTemplateSpec{}, false
	}
	template := workload.Spec.Template
	if o.Kind == "CronJob" {
		template = workload.Spec.JobTemplate.Spec.Template
	}
	return template, len(template.Spec.Containers) > 0
}

func newGang(o manifest.Object, template corev1.PodTemplateSpec) gang.Workload {
	w, _ := gang.NewWorkload(gang.Job)
	var object struct{ Metadata metav1.ObjectMeta }
	_ = yaml.Unmarshal(o.JSON, &object) // the labels of a template that is not valid do not count
	labels := map[string]string{gang.LabelFramework: "generic"}
	for key, value := range template.Labels {
		labels[key] = value
	}
	w.Job.ObjectMeta = metav1.ObjectMeta{
		Name: "sample", Namespace: "default", Labels: labels, OwnerReferences: object.Metadata.OwnerReferences,
	}
	w.Job.Spec.Template = template
	one := int32(1)
	w.Job.Spec.Parallelism, w.Job.Spec.Completions = &one, &one
	return w
}

func (k kyvernoPolicy) violates(t *testing.T, p *policy.Policy, w gang.Workload) bool {
	t.Helper()
	if len(k.Controls) == 0 {
		return violates(t, p, w)
	}
	result, err := engine.Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	findings := p.Judge(policy.Input{
		Members:   []policy.Member{{Gang: result.Gang, Workload: w}},
		Namespace: policy.Namespace{Name: "default"}, Now: time.Unix(0, 0),
	})[0].Findings
	return slices.ContainsFunc(findings, func(f policy.Finding) bool { return slices.Contains(k.Controls, f.Value) })
}
