package injectors_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy/defaults"
	"rollcall.training/internal/testing/golden"
)

// TestExplainKnowsEverything verifies for the sample workloads of all frameworks that each added value has a purpose.
func TestExplainKnowsEverything(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for _, name := range injectors.Builtin().Frameworks().Names() {
		workloads, err := injectors.Builtin().SampleWorkloads(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range workloads {
			before := w.DeepCopy()
			_, additions, err := engine.Explain(w)
			if err != nil || len(additions) == 0 {
				t.Errorf("%s %s: %d additions, error %v", name, w.Meta().Name, len(additions), err)
			}
			if !before.Equal(w) {
				t.Errorf("%s: Explain changed the workload", name)
			}
			for _, a := range additions {
				if a.Edited {
					t.Errorf("%s: %+v is not as admission wrote it", name, a)
				}
				if a.Reason == "" || a.Reason == "added by Rollcall" || a.Source == "" {
					t.Errorf("%s: %+v has no reason or no source", name, a)
				}
				if hasValue := a.Kind == "variable" || a.Kind == "field"; hasValue && a.Value == "" && a.Name != "TF_CONFIG" {
					t.Errorf("%s: %+v has no value", name, a)
				}
			}
		}
	}
}

func TestExplain(t *testing.T) {
	w := golden.ParseWorkload(t, []byte(`
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team
  labels: {rollcall.training/framework: pytorch}
  annotations: {rollcall.training/port: "3000"}
spec:
  parallelism: 2
  template:
    spec:
      containers:
        - {name: trainer, image: a, env: [{name: OMP_NUM_THREADS, value: "3"}], resources: {limits: {memory: 2Gi}}}
        - {name: sidecar, image: b}
`))
	_, additions, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Explain(w)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, a := range additions {
		lines = append(lines, strings.Join([]string{a.Kind, a.Name, a.Value, a.Source, a.OtherValue, a.ChangedBy}, "|"))
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		"variable|MASTER_PORT|3000|pytorch|becomes the port of the gang|rollcall.training/port",
		"variable|WORLD_SIZE|2|pytorch|rejected, unless it counts the processes|the size of the workload",
		"variable|ROLLCALL_RANK|$(JOB_COMPLETION_INDEX)|every gang|rejected|",
		"volume|rollcall-shm|emptyDir of 1Gi at /dev/shm|every gang||rollcall.training/shm-size",
		"field|completionMode|Indexed|every gang||",
		"Service|train||every gang||rollcall.training/gang",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "OMP_NUM_THREADS") {
		t.Errorf("a value of the user is explained as added:\n%s", got)
	}
}

// TestExplainAdmitted verifies that the values are those of the object, whatever the configuration of the engine is.
func TestExplainAdmitted(t *testing.T) {
	w := gang.Workload{Job: newJob(nil, 2)}
	research := []defaults.Default{
		{Kind: defaults.PriorityClass, Value: "low", Source: "policy:research"},
		{Kind: defaults.Env, Name: "NCCL_DEBUG", Value: "INFO", Source: "policy:cluster"},
	}
	if _, err := defaults.Apply(w, research, injectors.Builtin().Frameworks()); err != nil {
		t.Fatal(err)
	}
	webhook := injectors.NewEngine(injectors.Builtin(), gang.Config{ClusterDomain: "corp.example"})
	if _, err := webhook.Admit(w); err != nil {
		t.Fatal(err)
	}
	w.Job.Spec.BackoffLimit = ptr.To(int32(7))
	w.Template().Labels["sidecar.istio.io/inject"] = "true"
	w.Template().Spec.Tolerations = nil
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	g, additions, err := engine.ExplainAdmitted(w)
	if err != nil || g.Size != 2 {
		t.Fatalf("size %d, error %v", g.Size, err)
	}
	var lines []string
	for _, a := range additions {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%t", a.Kind, a.Name, a.Value, a.Source, a.Edited))
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		"variable|MASTER_ADDR|train-0.train.team.svc.corp.example|pytorch|false",
		"field|completionMode|Indexed|every gang|false",
		"field|backoffLimit|7|every gang|true",
		"pod label|sidecar.istio.io/inject|true|every gang|true",
		"pod label|rollcall.training/gang|train|every gang|false",
		"toleration|node.kubernetes.io/not-ready:NoExecute||every gang|true",
		"default|spec.template.spec.containers[0].env[NCCL_DEBUG]|INFO|policy:cluster|false\n" +
			"default|spec.template.spec.priorityClassName|low|policy:research|false",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
