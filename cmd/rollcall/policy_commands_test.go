package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/vet"
)

const (
	examplePolicy = "../../examples/policy/policy.yaml"
	policyHeader  = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n"
)

// writePolicy writes a policy file and returns its path.
func writePolicy(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(policyHeader+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runPolicy runs a command below policy, and returns its output and its exit code.
func runPolicy(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	stdout, _, err := runCommand(t, stdin, append([]string{"policy"}, args...)...)
	if err != nil {
		return stdout + err.Error(), exitCode(err)
	}
	return stdout, 0
}

// TestExamplePolicy verifies that the shipped policy is valid, and that its cases pass and cover each rule.
func TestExamplePolicy(t *testing.T) {
	if out, code := runPolicy(t, "", "check", "-f", examplePolicy); code != 0 || strings.Contains(out, "error") {
		t.Errorf("check: exit code %d: %s", code, out)
	}
	out, code := runPolicy(t, "", "test", "../../examples/policy")
	if code != 0 || !strings.Contains(out, "18 of 18 rules") || !strings.Contains(out, "8 of 8 rules") {
		t.Errorf("test: exit code %d: %s", code, out)
	}
}

func TestPolicyTest(t *testing.T) {
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {rollcall.training/framework: pytorch}}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: a.io/b:1, command: [torchrun, x.py]}]}}
`
	for name, test := range map[string]struct {
		policy, suite string
		want          string
		code          int
	}{
		"a rule needs a passing case": {
			policy: "cluster: {limits: {size: {max: 2}}}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: false, findings: [{rule: cluster/size}]}}]",
			want:   "cluster/size has no case with the outcome pass", code: 1,
		},
		"a rule needs a failing case": {
			policy: "cluster: {limits: {size: {max: 4}}}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: true}}]",
			want:   "cluster/size has no case with the outcome fail", code: 1,
		},
		"a rule whose condition is false is not a passing case": {
			policy: "cluster: {rules: [{name: r, when: gang.size > 4, expression: 'false'}]}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: true}}]",
			want:   "cluster/r has no case with the outcome pass or fail", code: 1,
		},
		"another outcome than expected": {
			policy: "cluster: {limits: {size: {max: 2}}}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: true}}]",
			want:   "admitted is false, want true (job/train: enforce cluster/size)", code: 1,
		},
		"a finding that is not expected": {
			policy: "cluster: {limits: {size: {max: 2, mode: warn}}}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: true, findings: []}}]",
			want:   "unexpected finding: warn cluster/size", code: 1,
		},
		"an expected finding that is missing": {
			policy: "cluster: {limits: {size: {max: 2, mode: warn}}}",
			suite: "cases: [{name: a, files: [job.yaml], want: {admitted: true, findings: [{rule: cluster/size, mode: " +
				"audit}]}}]",
			want: `no finding for {"rule":"cluster/size","mode":"audit"}`, code: 1,
		},
		"another value than expected": {
			policy: "cluster: {defaults: {runtime: 1h}}",
			suite:  "cases: [{name: a, files: [job.yaml], want: {admitted: true, set: {spec.activeDeadlineSeconds: 60}}}]",
			want:   "spec.activeDeadlineSeconds is 3600, want 60", code: 1,
		},
		"an expired exemption at the date of the suite": {
			policy: "cluster: {limits: {size: {max: 2}}}\nexemptions: [{rule: cluster/size, namespace: default, gangs: ['*'], " +
				"until: '2020-01-01', reason: r}]",
			suite: "date: '2020-01-01'\ncases: [{name: a, files: [job.yaml], want: {admitted: true, findings: []}}]",
			want:  "has no case", code: 1,
		},
		"an unknown field":     {suite: "cases: [{name: a, file: job.yaml}]", want: "cases[0].file: unknown field", code: 2},
		"a case without files": {suite: "cases: [{name: a}]", want: "cases[0].files: is required", code: 2},
		"a case without an expected outcome": {
			suite: "cases: [{name: a, files: [job.yaml]}]", want: "want.admitted: is required", code: 2,
		},
		"a file that does not exist": {
			suite: "cases: [{name: a, files: [b.yaml], want: {admitted: true}}]", want: "b.yaml", code: 2,
		},
		"a CronJob is judged by its Jobs": {
			policy: "cluster: {limits: {size: {max: 2}}}",
			suite: "cases: [{name: a, files: [cronjob.yaml], want: {admitted: false, findings: [{rule: cluster/size}]}}," +
				" {name: b, files: [cronjob.yaml], want: {admitted: true}}]",
			want: "admitted is false, want true (job/nightly-00000000: enforce cluster/size)", code: 1,
		},
		"a Job template with an unknown field": {
			suite: "cases: [{name: a, files: [misspelled.yaml], want: {admitted: true}}]",
			want:  "spec.jobTemplate.spec.paralellism: unknown field", code: 1,
		},
		"a file that is not YAML": {suite: "cases: [{name: a, files: [job.yaml]", want: "suite.yaml", code: 2},
		"a policy that is not valid": {
			policy: "mode: deny", suite: "cases: [{name: a, files: [job.yaml], want: {admitted: true}}]",
			want: "the policy is invalid", code: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := writePolicy(t, test.policy)
			directory := filepath.Dir(path)
			suite := "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicyTest\npolicy: policy.yaml\n" + test.suite
			for file, text := range map[string]string{
				"job.yaml": job, "suite.yaml": suite, "cronjob.yaml": cronJobManifest, "chart.yaml": "{{ .Values.job }",
				"misspelled.yaml": strings.Replace(cronJobManifest, "parallelism", "paralellism", 1),
			} {
				if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, code := runPolicy(t, "", "test", directory)
			if code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want %d; output does not contain %q:\n%s", code, test.code, test.want, out)
			}
		})
	}
}

// TestPolicyTestOfDirectory verifies that a suite that cannot be read fails all suites of its directory.
func TestPolicyTestOfDirectory(t *testing.T) {
	path := writePolicy(t, "mode: enforce")
	directory := filepath.Dir(path)
	suite := "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicyTest\npolicy: policy.yaml\n" +
		"cases: [{name: a, files: [job.yaml], want: {admitted: true}}]\n"
	for file, text := range map[string]string{
		"job.yaml": cleanJob, "valid.yaml": suite, "invalid.yaml": suite + "  indented: [", "chart.yaml": "{{ .Values.job }",
	} {
		if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, code := runPolicy(t, "", "test", directory)
	if code != exitUsage || !strings.Contains(out, "invalid.yaml") {
		t.Errorf("exit code %d, want %d; output does not contain invalid.yaml:\n%s", code, exitUsage, out)
	}
	if err := os.Remove(filepath.Join(directory, "invalid.yaml")); err != nil {
		t.Fatal(err)
	}
	if out, code := runPolicy(t, "", "test", directory); code != 0 {
		t.Errorf("with a suite and a template: exit code %d, want 0:\n%s", code, out)
	}
}

func TestPolicyExplain(t *testing.T) {
	out, code := runPolicy(t, "", "explain", "-f", examplePolicy, "-n", "research-llm", "-o", "json")
	var got struct {
		Profile string
		Entries []struct {
			Name  string
			Mode  string
			Line  int
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatal(err, out)
	}
	lines := strings.Split(mustReadFile(t, examplePolicy), "\n")
	for _, e := range got.Entries {
		_, key, _ := strings.Cut(e.Name, "/")
		key = strings.TrimPrefix(key, "defaults.")
		key = key[strings.LastIndex(key, ".")+1:]
		key, _, _ = strings.Cut(key, "[")
		if !strings.Contains(lines[e.Line-1], key) {
			t.Errorf("%s is on line %d, which is %q", e.Name, e.Line, lines[e.Line-1])
		}
	}
	if got.Profile != "research" || len(got.Entries) != 18 {
		t.Errorf("profile %q with %d entries", got.Profile, len(got.Entries))
	}
	for name, test := range map[string]struct {
		args []string
		want string
		code int
	}{
		"labels of the namespace select the profile": {
			args: []string{"-n", "play", "--namespace-labels", "workload=interactive"},
			want: "Namespace play: profile interactive",
		},
		"a selected profile holds in addition": {
			args: []string{"-n", "research-a", "--profile", "infiniband"}, want: "infiniband/defaults.env.NCCL_IB_HCA",
		},
		"an exemption": {
			args: []string{"-n", "research-llm"}, want: "Exempt from research/gpus until 2027-03-31",
		},
		"a profile that is not selectable": {
			args: []string{"-n", "a", "--profile", "research"}, want: "they can select: infiniband", code: 1,
		},
		"no namespace": {want: "--namespace: required", code: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runPolicy(t, "", append([]string{"explain", "-f", examplePolicy}, test.args...)...)
			if code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want %d; output does not contain %q:\n%s", code, test.code, test.want, out)
			}
		})
	}
}

func mustReadFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPolicyDiff(t *testing.T) {
	oldPath := writePolicy(t, "cluster: {limits: {size: {max: 8}}}")
	for name, test := range map[string]struct {
		policy string
		want   string
		code   int
	}{
		"the same policy": {policy: "cluster: {limits: {size: {max: 8}}}", want: "0 treated differently"},
		"a stricter policy": {
			policy: "cluster: {limits: {size: {max: 1}}}", want: "is denied by the new policy only", code: 1,
		},
		"another mode": {policy: "cluster: {limits: {size: {max: 1, mode: warn}}}", want: "has other findings", code: 1},
		"another default": {
			policy: "cluster: {defaults: {runtime: 1h}}", want: "fields: /spec/activeDeadlineSeconds", code: 1,
		},
		"an invalid policy": {policy: "mode: deny", want: "the policy is invalid", code: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runPolicy(t, cleanJob, "diff", oldPath, writePolicy(t, test.policy), "-f", "-")
			if code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want %d; output does not contain %q:\n%s", code, test.code, test.want, out)
			}
		})
	}
	strict := writePolicy(t, "cluster: {limits: {size: {max: 1}}}")
	out, _ := runPolicy(t, cleanJob, "diff", strict, oldPath, "-f", "-", "-o", "json")
	if !strings.Contains(out, `"effect": "admitted"`) {
		t.Errorf("a looser policy does not admit: %s", out)
	}
}

func TestPolicyAudit(t *testing.T) {
	strict := writePolicy(t, "cluster: {limits: {size: {max: 1}}}")
	out, code := runPolicy(t, cleanJob, "audit", "--policy", strict, "-f", "-", "-o", "sarif")
	if code != 1 || !strings.Contains(out, `"policyRule": "cluster/size"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = runPolicy(t, cleanJob, "audit", "--policy", writePolicy(t, "mode: warn"), "-f", "-")
	if code != 0 || !strings.Contains(out, "no findings") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = runPolicy(t, cleanJob, "audit", "-f", "-")
	if code != exitUsage || !strings.Contains(out, "--policy: required") {
		t.Errorf("without a policy, exit code %d: %s", code, out)
	}
	out, code = runPolicy(t, "", "audit", "--cluster", "--kubeconfig=testdata/kubeconfig.yaml")
	if code != exitUsage || !strings.Contains(out, "reading the policy in force") {
		t.Errorf("with a cluster that does not answer, exit code %d: %s", code, out)
	}
	if out, code := runPolicy(t, "", "audit", "--policy", strict); code != exitUsage {
		t.Errorf("without workloads, exit code %d: %s", code, out)
	}
}

// TestPolicyAuditOfCluster verifies that the workloads of a cluster are judged as they are, with the labels of
// their namespace.
func TestPolicyAuditOfCluster(t *testing.T) {
	var job batchv1.Job
	if err := yaml.Unmarshal([]byte(cleanJob), &job); err != nil {
		t.Fatal(err)
	}
	job.Namespace = "team"
	w := gang.Workload{Job: &job}
	if _, err := newSuiteOptions(nil).Engine.Admit(w); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"tier": "free"}}}
	docs, err := readCluster(t.Context(), fake.NewClientset(&job, namespace), "team")
	if err != nil {
		t.Fatal(err)
	}
	p, err := requirePolicy("--policy", writePolicy(t, "profiles: [{name: free, namespaces: {selector: {matchLabels: "+
		"{tier: free}}}, defaults: {runtime: 1h}, limits: {runtime: {required: true}, size: {max: 1}}}]"), nil)
	if err != nil {
		t.Fatal(err)
	}
	report := vet.Run(docs, nil, vet.Options{
		Engine: newSuiteOptions(nil).Engine, Policy: p, Admitted: true, Only: []vet.Code{vet.CodePolicyViolated},
	})
	var rules []string
	for _, f := range report.Findings {
		rules = append(rules, f.Rule)
	}
	if diff := cmp.Diff([]string{"free/runtime", "free/size"}, rules); diff != "" {
		t.Error("rules (-want +got):\n" + diff)
	}
}

func TestPolicyVAP(t *testing.T) {
	out, code := runPolicy(t, "", "vap", "-f", examplePolicy)
	if code != 0 || strings.Count(out, "kind: ValidatingAdmissionPolicy\n") != 2 ||
		strings.Count(out, "kind: ValidatingAdmissionPolicyBinding") != 2 {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, _ = runPolicy(t, "", "vap", "-f", examplePolicy, "--static")
	if strings.Count(out, ".static.k8s.io") != 6 {
		t.Errorf("names of files: %s", out)
	}
	out, code = runPolicy(t, policyHeader, "vap", "-f", "-")
	if out != "" || code != 0 {
		t.Errorf("a policy without the section: exit code %d: %s", code, out)
	}
}

func TestInjectPolicy(t *testing.T) {
	path := writePolicy(t, "profiles: [{name: ib, selectable: true, defaults: {runtime: 1h}}]")
	selecting := func(profile string) string {
		return strings.Replace(cleanJob, "annotations: {", "annotations: {rollcall.training/profile: "+profile+", ", 1)
	}
	stdout, _, err := runCommand(t, selecting("ib"), "inject", "-f", "-", "--policy", path)
	if err != nil || !strings.Contains(stdout, "activeDeadlineSeconds: 3600") {
		t.Errorf("error %v, output:\n%s", err, stdout)
	}
	_, stderr, err := runCommand(t, selecting("roce"), "inject", "-f", "-", "--policy", path)
	const want = `metadata.annotations[rollcall.training/profile]: Unsupported value: "roce": supported values: "ib"`
	if exitCode(err) != 1 || !strings.Contains(stderr, want) {
		t.Errorf("error %v, standard error:\n%s", err, stderr)
	}
}
