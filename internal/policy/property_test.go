package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

// limitPool and rulePool are the parts of random policies. About half of them are violated by bigJob.
var (
	limitPool = []string{
		"size: {max: 64}", "gpus: {max: 256}", "wholeNodes: {gpusPerNode: 4}", "gpuHours: {max: 10}",
		"frameworks: {allow: [jax]}", "runtime: {required: true}", "ttl: {max: 1h}", "restarts: {max: 1}",
		"disruptions: {max: 1}",
		"labels: {require: {team: '.+'}}", "images: {allow: {'*': [nvcr.io/]}}", "queue: {required: true}",
		"priorityClass: {allow: [batch]}", "hiddenGPUs: {}",
	}
	rulePool = []string{
		"gang.gpus <= 8", "gang.size > 1", "gang.elastic", "!has(gang.runtime)", "gang.restarts < 3",
		"gang.labels[?'team'].orValue('') != ''", "object.spec.parallelism < 10", "gang.images.all(i, i.contains('/'))",
	}
	modePool = []string{"enforce", "warn", "audit", "off"}
)

// randomPolicy is a policy as lists of lines, so that a line can be added and moved.
type randomPolicy struct{ limits, rules []string }

func newRandomPolicy(r *rand.Rand) randomPolicy {
	var p randomPolicy
	for _, l := range limitPool {
		if r.IntN(2) == 0 {
			p.limits = append(p.limits, l)
		}
	}
	for i, expression := range rulePool {
		if r.IntN(2) == 0 {
			p.rules = append(p.rules, fmt.Sprintf("{name: rule-%d, mode: %s, expression: \"%s\"}",
				i, modePool[r.IntN(len(modePool))], expression))
		}
	}
	return p
}

func (p randomPolicy) String() string {
	return "cluster: {limits: {" + strings.Join(p.limits, ", ") + "}, rules: [" + strings.Join(p.rules, ", ") + "]}"
}

// shuffle returns the policy with its lines in another order.
func (p randomPolicy) shuffle(r *rand.Rand) randomPolicy {
	out := randomPolicy{limits: slices.Clone(p.limits), rules: slices.Clone(p.rules)}
	r.Shuffle(len(out.limits), func(i, j int) { out.limits[i], out.limits[j] = out.limits[j], out.limits[i] })
	r.Shuffle(len(out.rules), func(i, j int) { out.rules[i], out.rules[j] = out.rules[j], out.rules[i] })
	return out
}

// TestProperties checks with random policies and random gangs that the order of limits and rules does not
// matter, that a removed rule never denies more, and that an update without a change is not worse.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	opaque := cmp.Options{cmp.AllowUnexported(policy.Finding{}), cmpopts.EquateEmpty()}
	denied := 0
	for range 200 {
		p := newRandomPolicy(r)
		job := readJob(t, []string{bigJob, memberJob}[r.IntN(2)])
		if r.IntN(2) == 0 {
			job.Job.Labels["team"] = "llm"
		}
		if r.IntN(2) == 0 {
			metav1.SetMetaDataAnnotation(&job.Job.ObjectMeta, gang.AnnotationMaxRestarts, "1")
		}
		in := newInput(t, job)
		findings := readPolicy(t, p.String()).Judge(in)[0].Findings
		if diff := cmp.Diff(findings, readPolicy(t, p.shuffle(r).String()).Judge(in)[0].Findings, opaque); diff != "" {
			t.Fatalf("another order has other findings: %s\n%s", p, diff)
		}
		if worse := policy.Worsened(findings, findings); len(worse) > 0 {
			t.Fatalf("an update without a change is worse: %s\n%v", p, worse)
		}
		if len(p.rules) == 0 {
			continue
		}
		fewer := randomPolicy{limits: p.limits, rules: slices.Delete(slices.Clone(p.rules), 0, 1)}
		for _, f := range readPolicy(t, fewer.String()).Judge(in)[0].Findings {
			if !slices.Contains(findings, f) {
				t.Fatalf("the finding %s disappears with an additional rule: %s", f, p)
			}
		}
		if policy.Worst(findings) == policy.ModeEnforce {
			denied++
		}
	}
	if denied == 0 {
		t.Error("no random policy denied a gang")
	}
}
