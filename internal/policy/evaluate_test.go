package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

var engine = injectors.NewEngine(injectors.Builtin(), gang.Config{})

var today = time.Date(2027, time.March, 31, 12, 0, 0, 0, time.UTC)

// readPolicy returns the policy with the given content after apiVersion and kind.
func readPolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, problems := policy.Read("policy.yaml", []byte(withHeader(text)), engine.Frameworks())
	for _, problem := range problems {
		if problem.Severity == policy.Mistake {
			t.Fatal(problem)
		}
	}
	return p
}

func withHeader(text string) string {
	return "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n" + text
}

// newInput returns the input for an admitted workload.
func newInput(t *testing.T, w gang.Workload) policy.Input {
	t.Helper()
	result, err := engine.Admit(w)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Input{
		Members:   []policy.Member{{Gang: result.Gang, Workload: w}},
		Namespace: policy.Namespace{Name: w.Meta().Namespace},
		Now:       today,
	}
}

// readJob returns a Job from YAML.
func readJob(t *testing.T, text string) gang.Workload {
	t.Helper()
	w, _ := gang.NewWorkload(gang.Job)
	if err := yaml.UnmarshalStrict([]byte(text), w.Job); err != nil {
		t.Fatal(err)
	}
	return w
}

const bigJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
  namespace: research-llm
  labels: {rollcall.training/framework: pytorch}
spec:
  completionMode: Indexed
  completions: 96
  parallelism: 96
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/pytorch/train:1
        resources: {limits: {nvidia.com/gpu: 8}}
`

const memberJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: train-worker
  namespace: research-llm
  labels: {rollcall.training/framework: pytorch, rollcall.training/role: worker}
  annotations: {rollcall.training/roles: "master=1,worker=4"}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/pytorch/train:1
        resources: {limits: {nvidia.com/gpu: 8}}
`

func TestEvaluate(t *testing.T) {
	for name, test := range map[string]struct {
		policy   string
		job      string // bigJob by default
		replace  []string
		findings []string
	}{
		"an empty policy has no findings": {},
		"the accelerators of all pods count, and the finding names the largest size that fits": {
			policy: "contact: '#gpu-admins'\ncluster: {limits: {gpus: {max: 256}}}",
			findings: []string{"enforce cluster/gpus spec.parallelism: makes a gang of 768 accelerators (96 pods x 8), " +
				"at most 256 are allowed; use at most 32 pods, or ask #gpu-admins (policy cluster/gpus)"},
		},
		"a gang within the limit has no findings": {
			policy: "cluster: {limits: {gpus: {max: 768, multipleOf: 8}, size: {max: 96}, wholeNodes: {gpusPerNode: 8}}}",
		},
		"a mode of a limit replaces the mode of the file": {
			policy: "mode: audit\ncluster: {limits: {size: {max: 64, mode: warn}}}",
			findings: []string{"warn cluster/size spec.parallelism: makes a gang of 96 pods, at most 64 are allowed " +
				"(policy cluster/size)"},
		},
		"a limit that is off has no findings": {policy: "cluster: {limits: {size: {max: 64, mode: off}}}"},
		"the cluster and the profile hold together": {
			policy: "cluster: {limits: {size: {max: 64}}}\n" +
				"profiles: [{name: research, namespaces: {names: ['research-*']}, limits: {size: {max: 32}}}]",
			findings: []string{
				"enforce cluster/size spec.parallelism: makes a gang of 96 pods, at most 64 are allowed (policy cluster/size)",
				"enforce research/size spec.parallelism: makes a gang of 96 pods, at most 32 are allowed (policy research/size)",
			},
		},
		"only the first matching profile holds": {
			policy: "profiles: [{name: research, namespaces: {names: ['research-*']}}, " +
				"{name: others, namespaces: {names: ['*']}, limits: {size: {max: 1}}}]",
		},
		"a gang without a maximum runtime violates a required runtime": {
			policy: "cluster: {limits: {runtime: {required: true, max: 72h}}}",
			findings: []string{"enforce cluster/runtime spec.activeDeadlineSeconds: is required: the maximum runtime in " +
				"seconds, " +
				"at most 259200 (72h) (policy cluster/runtime)"},
		},
		"GPU-hours are accelerators multiplied by the runtime and the attempts": {
			policy:  "cluster: {limits: {gpuHours: {max: 20000}}}",
			replace: []string{"  parallelism: 96", "  parallelism: 96\n  activeDeadlineSeconds: 172800"},
			findings: []string{"enforce cluster/gpuHours spec.activeDeadlineSeconds: allows 147456 GPU-hours " +
				"(768 accelerators for 48h in each of 4 attempts), at most 20000 are allowed; set at most 23437 " +
				"(policy cluster/gpuHours)"},
		},
		"a gang that never restarts has one attempt": {
			policy:  "cluster: {limits: {gpuHours: {max: 20000}}}",
			replace: []string{"  parallelism: 96", "  parallelism: 96\n  backoffLimit: 0\n  activeDeadlineSeconds: 172800"},
			findings: []string{"enforce cluster/gpuHours spec.activeDeadlineSeconds: allows 36864 GPU-hours " +
				"(768 accelerators for 48h), at most 20000 are allowed; set at most 93750 (policy cluster/gpuHours)"},
		},
		"the default number of restarts counts": {
			policy: "cluster: {limits: {restarts: {max: 1}}}",
			findings: []string{"enforce cluster/restarts metadata.annotations[rollcall.training/max-restarts]: allows 3 " +
				"restarts of the gang, " +
				`at most 1 are allowed; set rollcall.training/max-restarts: "1" (policy cluster/restarts)`},
		},
		"an image matches entire components of a path": {
			policy: "cluster: {limits: {images: {allow: {'*': [registry.example.com/py]}}}}",
			findings: []string{"enforce cluster/images spec.template.spec.containers[0].image: is " +
				"registry.example.com/pytorch/train, " +
				"which is not allowed; allowed are registry.example.com/py (policy cluster/images)"},
		},
		"a short image name stands for Docker Hub": {
			policy:  "cluster: {limits: {images: {allow: {'*': [docker.io/library/]}}}}",
			replace: []string{"registry.example.com/pytorch/train:1", "python:3"},
		},
		"a required label must match as a whole": {
			policy: "cluster: {limits: {labels: {require: {team: '[a-z]+'}}}}",
			findings: []string{"enforce cluster/labels metadata.labels[team]: is required; the value must match [a-z]+ " +
				"(policy cluster/labels)"},
		},
		"the accelerators of other members are not known": {
			job:    memberJob,
			policy: "cluster: {limits: {gpus: {max: 64}}}",
			findings: []string{"unknown enforce cluster/gpus spec.template.spec.containers[0].resources.limits: " +
				"the accelerators of the other members or of the resource claims are not known yet (policy cluster/gpus)"},
		},
		"one member alone can violate the limit of the gang": {
			job:    memberJob,
			policy: "cluster: {limits: {gpus: {max: 16}}}",
			findings: []string{"enforce cluster/gpus metadata.annotations[rollcall.training/roles]: makes a gang of at " +
				"least 32 accelerators " +
				"(4 pods x 8), at most 16 are allowed; use at most 2 pods (policy cluster/gpus)"},
		},
		"a variable that exposes accelerators is found in a container without accelerators": {
			policy: "cluster: {limits: {hiddenGPUs: {}}}",
			replace: []string{"        resources: {limits: {nvidia.com/gpu: 8}}",
				"        env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"},
			findings: []string{"enforce cluster/hiddenGPUs spec.template.spec.containers[0].env[0].value: " +
				"NVIDIA_VISIBLE_DEVICES exposes " +
				"accelerators that the container does not request; remove it, and request them in resources.limits (policy " +
				"cluster/hiddenGPUs)"},
		},
		"a rule reads the gang, the object and the namespace": {
			policy: "cluster: {rules: [{name: short, when: gang.gpus > 512, message: large gangs need a runtime of at most " +
				"72h, " +
				"expression: \"gang.elastic || (has(gang.runtime) && gang.runtime <= duration('72h'))\", field: " +
				"spec.activeDeadlineSeconds}, " +
				"{name: object, expression: 'object.spec.parallelism == gang.size && namespaceObject.metadata.name == " +
				"gang.namespace'}]}",
			findings: []string{"enforce cluster/short spec.activeDeadlineSeconds: large gangs need a runtime of at most " +
				"72h (policy cluster/short)"},
		},
		"a rule about accelerators that are not known is unknown only if it depends on them": {
			job: memberJob,
			policy: "cluster: {rules: [{name: a, when: gang.size > 8, expression: gang.gpus <= 1}, " +
				"{name: b, expression: gang.gpus <= 1000, message: too large}]}",
			findings: []string{"unknown enforce cluster/b metadata: too large: not known until all members exist (policy " +
				"cluster/b)"},
		},
		"an exemption holds until the end of its last day": {
			policy: "cluster: {limits: {size: {max: 64}, gpus: {max: 8, mode: audit}}}\nexemptions: [{rule: cluster/size, " +
				"namespace: research-llm, gangs: ['pre*'], until: 2027-03-31, reason: OPS-1}, {rule: cluster/gpus, " +
				"namespace: research-llm, gangs: ['pre*'], until: 2027-03-30, reason: OPS-1}]",
			findings: []string{"audit cluster/gpus spec.parallelism: makes a gang of 768 accelerators (96 pods x 8), " +
				"at most 8 are allowed; use at most 1 pod (policy cluster/gpus)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == "" {
				job = bigJob
			}
			in := newInput(t, readJob(t, strings.NewReplacer(test.replace...).Replace(job)))
			var got []string
			for _, f := range readPolicy(t, test.policy).Judge(in)[0].Findings {
				prefix := ""
				if f.Unknown {
					prefix = "unknown "
				}
				got = append(got, prefix+string(f.Mode)+" "+f.Rule+" "+f.String())
			}
			if diff := cmp.Diff(test.findings, got); diff != "" {
				t.Error("findings (-want +got):\n" + diff)
			}
		})
	}
}

func TestWorsened(t *testing.T) {
	p := readPolicy(t, "cluster: {limits: {size: {max: 64}, labels: {require: {team: '.+'}}}}")
	evaluate := func(replacements ...string) []policy.Finding {
		return p.Judge(newInput(t, readJob(t, strings.NewReplacer(replacements...).Replace(bigJob))))[0].Findings
	}
	before := evaluate()
	for name, test := range map[string]struct {
		after []policy.Finding
		rules []string
	}{
		"an update that changes nothing is not worse":               {after: before},
		"a smaller gang that still violates the limit is not worse": {after: evaluate(": 96", ": 80")},
		"a larger gang is worse": {after: evaluate(": 96", ": "+
			"97"), rules: []string{"cluster/size"}},
		"an update that satisfies one of two rules is not worse": {
			after: evaluate("{rollcall.training/framework: pytorch}", "{rollcall.training/framework: pytorch, team: x}"),
		},
		"a gang that satisfies the policy after the update is better": {after: evaluate(": 96", ": 64")},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []string
			for _, f := range policy.Worsened(before, test.after) {
				rules = append(rules, f.Rule)
			}
			if diff := cmp.Diff(test.rules, rules, cmpopts.EquateEmpty()); diff != "" {
				t.Error("rules (-want +got):\n" + diff)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	for name, test := range map[string]struct {
		findings []policy.Finding
		want     policy.Mode
	}{
		"no findings": {want: policy.ModeOff},
		"the strictest mode decides": {
			findings: []policy.Finding{{Mode: policy.ModeAudit}, {Mode: policy.ModeEnforce}}, want: policy.ModeEnforce,
		},
		"what is not known does not count": {
			findings: []policy.Finding{{Mode: policy.ModeEnforce, Unknown: true}, {Mode: policy.ModeWarn}},
			want:     policy.ModeWarn,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.Worst(test.findings); got != test.want {
				t.Errorf("Worst() = %s, want %s", got, test.want)
			}
		})
	}
}
