package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

// samplePolicy has the limits that administrators ask for most, a rule, and three profiles.
const samplePolicy = `contact: "#gpu-admins"
cluster:
  limits:
    size: {max: 1024}
    gpus: {max: 2048}
    frameworks: {allow: [pytorch, jax, mpi, deepspeed]}
    runtime: {required: true, max: 336h}
    ttl: {required: true, max: 720h}
    restarts: {max: 10}
    labels: {require: {team: "[a-z][a-z0-9-]+"}}
    images: {allow: {"*": [registry.example.com/, nvcr.io/nvidia/], mpi: [registry.example.com/hpc/]}}
    hiddenGPUs: {}
  rules:
  - name: big-gangs-are-elastic-or-short
    when: gang.gpus > 512
    expression: gang.elastic || (has(gang.runtime) && gang.runtime <= duration('72h'))
    message: more than 512 accelerators for more than 72h need an elastic gang
profiles:
- name: interactive
  namespaces: {selector: {matchLabels: {workload: interactive}}}
  limits: {size: {max: 2}, runtime: {max: 8h}, restarts: {max: 0}}
- name: research
  namespaces: {names: ["research-*", default]}
  limits:
    gpus: {max: 256}
    wholeNodes: {gpusPerNode: 8}
    gpuHours: {max: 20000}
  rules:
  - name: high-priority-is-small
    when: gang.priorityClass == 'batch'
    expression: gang.gpus <= 64
- name: everyone-else
  namespaces: {names: ["*"]}
  mode: audit
  limits: {gpus: {max: 64}}
`

// newRules returns a policy with a number of rules in CEL.
func newRules(count int) string {
	var text strings.Builder
	text.WriteString("cluster:\n  rules:\n")
	for i := range count {
		fmt.Fprintf(&text, "  - {name: rule-%d, when: 'gang.gpus > %d', "+
			"expression: \"gang.size <= 1024 && gang.labels[?'team'].orValue('') != 'x'\"}\n", i, i%64)
	}
	return text.String()
}

// reportCPUTime reports the CPU time of each iteration, which depends less on the load of the machine.
func reportCPUTime(b *testing.B, start time.Duration) {
	b.Helper()
	b.ReportMetric(float64((readCPUTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkPolicy measures the validating endpoint without a policy and with policies, for a Job that
// satisfies them.
func BenchmarkPolicy(b *testing.B) {
	job := admit(b, gang.Job, gpuJob)
	for _, c := range []struct {
		name   string
		policy string
	}{
		{"none", ""}, {"empty", "\n"}, {"sample", samplePolicy}, {"200 rules", newRules(200)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var enforcer *webhook.PolicyEnforcer
			if c.policy != "" {
				enforcer = newEnforcer(&testPolicies{policy: readPolicy(b, c.policy)})
			}
			validator := webhook.NewValidator(newEngine(), enforcer)
			req := newRequest(admissionv1.Create, gang.Job, nil, job)
			b.ReportAllocs()
			start := readCPUTime(b)
			for b.Loop() {
				if r := validator.Handle(b.Context(), req); !r.Allowed {
					b.Fatal(r.Result.Message)
				}
			}
			reportCPUTime(b, start)
		})
	}
	b.Run("update of a Job, sample", func(b *testing.B) {
		validator := webhook.NewValidator(newEngine(), newEnforcer(&testPolicies{policy: readPolicy(b, samplePolicy)}))
		req := newRequest(admissionv1.Update, gang.Job, job, job)
		b.ReportAllocs()
		start := readCPUTime(b)
		for b.Loop() {
			validator.JudgeJobUpdate(b.Context(), req)
		}
		reportCPUTime(b, start)
	})
}

// BenchmarkReadPolicy measures the time and the memory to load a policy.
func BenchmarkReadPolicy(b *testing.B) {
	for _, c := range []struct{ name, policy string }{{"sample", samplePolicy}, {"200 rules", newRules(200)}} {
		b.Run(c.name, func(b *testing.B) {
			readPolicy(b, c.policy) // the CEL environment is created once per process
			b.ReportAllocs()
			start := readCPUTime(b)
			for b.Loop() {
				readPolicy(b, c.policy)
			}
			reportCPUTime(b, start)
		})
	}
}
