package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

const defaultsPolicy = `
cluster:
  defaults:
    ttl: 168h
    restarts: 5
    labels: {cost-center: "0000"}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
    env: {NCCL_IB_TIMEOUT: "22", NCCL_DEBUG: WARN}
profiles:
- name: research
  namespaces: {names: ["research-*"]}
  defaults: {runtime: 24h, queue: research, priorityClass: {value: batch, locked: true}, env: {NCCL_DEBUG: INFO}}
- name: infiniband
  selectable: true
  defaults:
    env: {NCCL_IB_HCA: mlx5}
    resources: {rdma/hca: "1"}
    nodeSelector: {fabric: infiniband}
    podAnnotations: {k8s.v1.cni.cncf.io/networks: ib}
    annotations: {rollcall.training/start-timeout: 30m}
- name: private
  selectable: true
  namespaces: {names: [private]}
`

// applyDefaults returns the workload with the defaults of the policy.
func applyDefaults(t *testing.T, p *policy.Policy, w gang.Workload) gang.Workload {
	t.Helper()
	changed := w.DeepCopy()
	if _, err := p.ApplyDefaults(changed, policy.Namespace{Name: w.Meta().Namespace}); err != nil {
		t.Fatal(err)
	}
	return changed
}

// formatFields returns the fields that defaults can set, one in each line.
func formatFields(w gang.Workload) string {
	spec := w.Job.Spec.Template.Spec
	out := map[string]any{
		"runtime": w.Job.Spec.ActiveDeadlineSeconds, "ttl": w.Job.Spec.TTLSecondsAfterFinished,
		"suspend": w.Job.Spec.Suspend, "labels": w.Job.Labels, "annotations": w.Job.Annotations,
		"podAnnotations": w.Job.Spec.Template.Annotations, "priorityClass": spec.PriorityClassName,
		"nodeSelector": spec.NodeSelector, "tolerations": spec.Tolerations,
		"env": spec.Containers[0].Env, "resources": spec.Containers[0].Resources,
	}
	var lines strings.Builder
	for _, key := range []string{
		"runtime", "ttl", "suspend", "labels", "annotations", "podAnnotations", "priorityClass", "nodeSelector",
		"tolerations", "env", "resources",
	} {
		text, err := yaml.Marshal(out[key])
		if err != nil {
			panic(err)
		}
		if trimmed := strings.TrimSpace(string(text)); trimmed != "null" && trimmed != `""` && trimmed != "{}" {
			fmt.Fprintf(&lines, "%s:\n%s\n", key, trimmed)
		}
	}
	return lines.String()
}

func TestApplyDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		job  string
		want string
	}{
		"a silent user gets the defaults of the profile, then those of the cluster": {
			job: bigJob,
			want: `runtime:
86400
ttl:
604800
suspend:
true
labels:
cost-center: "0000"
kueue.x-k8s.io/queue-name: research
rollcall.training/framework: pytorch
annotations:
rollcall.training/injected: '{"injector":"","defaults":{"env/trainer/NCCL_DEBUG":"policy:research",` +
				`"env/trainer/NCCL_IB_TIMEOUT":"policy:cluster","label/cost-center":"policy:cluster",` +
				`"priorityClass/":"policy:research","queue/":"policy:research","restarts/":"policy:cluster",` +
				`"runtime/":"policy:research","toleration/nvidia.com/gpu:NoSchedule":"policy:cluster","ttl/":"policy:cluster"}}'
rollcall.training/max-restarts: "5"
priorityClass:
batch
tolerations:
- effect: NoSchedule
  key: nvidia.com/gpu
  operator: Exists
env:
- name: NCCL_DEBUG
  value: INFO
- name: NCCL_IB_TIMEOUT
  value: "22"
resources:
limits:
  nvidia.com/gpu: "8"
`,
		},
		"what the user sets is never replaced": {
			job: strings.NewReplacer("  labels: {", "  labels: {cost-center: '1', kueue.x-k8s.io/queue-name: own, ",
				"  completionMode", "  activeDeadlineSeconds: 60\n  ttlSecondsAfterFinished: 0\n"+
					"  backoffLimit: 2\n  completionMode",
				"      restartPolicy: Never", "      restartPolicy: Never\n      priorityClassName: own\n"+
					"      tolerations: [{key: nvidia.com/gpu}]",
				"        resources", "        env:\n        - {name: NCCL_DEBUG, value: ''}\n"+
					"        - {name: NCCL_IB_TIMEOUT, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"+
					"        resources").Replace(bigJob),
			want: `runtime:
60
ttl:
0
labels:
cost-center: "1"
kueue.x-k8s.io/queue-name: own
rollcall.training/framework: pytorch
priorityClass:
own
tolerations:
- key: nvidia.com/gpu
env:
- name: NCCL_DEBUG
- name: NCCL_IB_TIMEOUT
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
resources:
limits:
  nvidia.com/gpu: "8"
`,
		},
		"a workload that Rollcall does not manage is not changed": {
			job: strings.Replace(bigJob, "framework: pytorch", "framework: pytorch, rollcall.training/inject: 'false'", 1),
			want: `labels:
rollcall.training/framework: pytorch
rollcall.training/inject: "false"
resources:
limits:
  nvidia.com/gpu: "8"
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := readPolicy(t, defaultsPolicy)
			got := applyDefaults(t, p, readJob(t, test.job))
			if diff := cmp.Diff(test.want, formatFields(got)); diff != "" {
				t.Error("workload (-want +got):\n" + diff)
			}
		})
	}
}

func TestSelectedProfile(t *testing.T) {
	p := readPolicy(t, defaultsPolicy)
	selecting := func(profile, namespace string) gang.Workload {
		return readJob(t, strings.NewReplacer("namespace: research-llm",
			"namespace: "+namespace+"\n  annotations: {rollcall.training/profile: "+profile+"}").Replace(bigJob))
	}
	got := applyDefaults(t, p, selecting("infiniband", "team")).Job
	c := got.Spec.Template.Spec.Containers[0]
	hca, requested := c.Resources.Limits["rdma/hca"], c.Resources.Requests["rdma/hca"]
	values := []string{hca.String(), requested.String(), got.Spec.Template.Spec.NodeSelector["fabric"],
		got.Spec.Template.Annotations["k8s.v1.cni.cncf.io/networks"], got.Annotations[gang.AnnotationStartTimeout]}
	if diff := cmp.Diff([]string{"1", "1", "infiniband", "ib", "30m"}, values); diff != "" {
		t.Error("defaults of the selected profile (-want +got):\n" + diff)
	}
	const notFound = `Job.batch "pretrain" is invalid: metadata.annotations[rollcall.training/profile]: `
	for name, test := range map[string]struct {
		policy    *policy.Policy
		workload  gang.Workload
		namespace string
		want      string
	}{
		"a profile that does not exist": {
			policy: p, workload: selecting("ib", "team"), namespace: "team",
			want: notFound + `Unsupported value: "ib": supported values: "infiniband"`,
		},
		"a profile of other namespaces": {
			policy: p, workload: selecting("private", "team"), namespace: "team",
			want: notFound + `Unsupported value: "private": supported values: "infiniband"`,
		},
		"a profile of this namespace": {policy: p, workload: selecting("private", "private"), namespace: "private"},
		"a profile that is not selectable": {
			policy: p, workload: selecting("research", "private"), namespace: "private",
			want: notFound + `Unsupported value: "research": supported values: "infiniband", "private"`,
		},
		"a cluster without a policy": {
			workload: selecting("ib", "team"), namespace: "team",
			want: notFound + `Invalid value: "ib": the policy has no profile that a workload of this namespace can select; ` +
				"remove the annotation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.policy.ApplyDefaults(test.workload, policy.Namespace{Name: test.namespace})
			if got := fmt.Sprint(err); err != nil && got != test.want || err == nil && test.want != "" {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// TestDefaultTTLOfGitOps verifies that a default TTL never lets a GitOps tool repeat a training.
func TestDefaultTTLOfGitOps(t *testing.T) {
	p := readPolicy(t, "cluster: {defaults: {ttl: {value: 1h, locked: true}, runtime: 1h}}")
	for name, test := range map[string]struct {
		labels, annotations string
		ttl                 bool
	}{
		"kubectl":                    {ttl: true},
		"Helm":                       {labels: "app.kubernetes.io/instance: train, ", ttl: true},
		"Argo CD with a label":       {labels: "argocd.argoproj.io/instance: train, "},
		"Argo CD with an annotation": {annotations: "argocd.argoproj.io/tracking-id: 'train:batch/Job:team/train'"},
		"Flux":                       {labels: "kustomize.toolkit.fluxcd.io/name: train, "},
		"Flux with a HelmRelease":    {labels: "helm.toolkit.fluxcd.io/name: train, "},
	} {
		t.Run(name, func(t *testing.T) {
			w := applyDefaults(t, p, readJob(t, strings.NewReplacer("  labels: {", "  annotations: {"+test.annotations+
				"}\n  labels: {"+test.labels).Replace(bigJob)))
			if got := w.Job.Spec.TTLSecondsAfterFinished; (got != nil) != test.ttl {
				t.Errorf("TTL %v, want one: %t", got, test.ttl)
			}
			if w.Job.Spec.ActiveDeadlineSeconds == nil {
				t.Error("the other defaults are not set")
			}
			if findings := p.Judge(newInput(t, w))[0].Findings; len(findings) > 0 {
				t.Errorf("the locked default denies the workload: %v", findings)
			}
		})
	}
}

// TestModesOfDefaults verifies that a default has the mode of its scope or an own mode, and that the mode warn names
// what it would set.
func TestModesOfDefaults(t *testing.T) {
	const deadline, ttl = "spec.activeDeadlineSeconds: ", "spec.ttlSecondsAfterFinished: "
	const would = "is not set; in the mode enforce, the policy would set "
	for name, test := range map[string]struct {
		policy   string
		ceiling  policy.Mode
		runtime  bool // is set
		warnings []string
	}{
		"the mode of the file": {
			policy:   "mode: warn\ncluster: {defaults: {runtime: 1h, ttl: 2h}}",
			warnings: []string{deadline + would + `"3600" (policy:cluster)`, ttl + would + `"7200" (policy:cluster)`},
		},
		"the mode of the profile": {
			policy:  "mode: warn\nprofiles: [{name: a, mode: enforce, namespaces: {names: ['*']}, defaults: {runtime: 1h}}]",
			runtime: true,
		},
		"an own mode, while the limits are in the mode audit": {
			policy: "mode: audit\ncluster: {defaults: {mode: enforce, runtime: 1h}}", runtime: true,
		},
		"a ceiling limits an own mode": {
			policy: "cluster: {defaults: {mode: enforce, runtime: 1h}}", ceiling: policy.ModeAudit,
		},
		"a default that is enforced precedes one that warns": {
			policy: "cluster: {defaults: {runtime: 1h}}\n" +
				"profiles: [{name: a, mode: warn, namespaces: {names: ['*']}, defaults: {runtime: 2h}}]",
			runtime: true, warnings: []string{deadline + would + `"7200" (policy:a)`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := readJob(t, bigJob)
			warnings, err := readPolicy(t, test.policy).WithCeiling(test.ceiling).ApplyDefaults(w, policy.Namespace{Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Job.Spec.ActiveDeadlineSeconds; (got != nil) != test.runtime || got != nil && *got != 3600 {
				t.Errorf("runtime %v, set: %t", got, test.runtime)
			}
			if diff := cmp.Diff(test.warnings, warnings.Strings(), cmpopts.EquateEmpty()); diff != "" {
				t.Error("warnings (-want +got):\n" + diff)
			}
		})
	}
}

// TestDefaultTopology checks that a Job whose nodes another controller chooses gets no topology, with which admission
// would deny it, but all other defaults.
func TestDefaultTopology(t *testing.T) {
	p := readPolicy(t, `cluster: {defaults: {annotations: {rollcall.training/topology: example.com/rack,
		rollcall.training/start-timeout: 30m}}}`)
	for name, test := range map[string]struct{ managedBy, want string }{
		"a Job of the Job controller has the topology": {managedBy: "null", want: "example.com/rack"},
		"a Job that names its controller has it, too":  {managedBy: "kubernetes.io/job-controller", want: "example.com/rack"},
		"a Job of MultiKueue has none":                 {managedBy: "kueue.x-k8s.io/multikueue"},
		"a Job of another controller has none":         {managedBy: "example.com/controller"},
	} {
		t.Run(name, func(t *testing.T) {
			w := readJob(t, strings.Replace(bigJob, "spec:", "spec:\n  managedBy: "+test.managedBy, 1))
			got := applyDefaults(t, p, w).Meta().Annotations
			if got[gang.AnnotationTopology] != test.want || got[gang.AnnotationStartTimeout] != "30m" {
				t.Errorf("the annotations are %v", got)
			}
		})
	}
}

func TestDefaultsBesideEnvFrom(t *testing.T) {
	p := readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: INFO, OTHER: x}}}")
	w := readJob(t, strings.Replace(bigJob, "        resources",
		"        envFrom: [{prefix: NCCL_, configMapRef: {name: nccl}}]\n        resources", 1))
	warnings, err := p.ApplyDefaults(w, policy.Namespace{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"spec.template.spec.containers[0].envFrom[0]: may contain NCCL_DEBUG, so the default " +
		"\"INFO\" of the policy is not set; set the variable in env"}
	if diff := cmp.Diff(want, warnings.Strings()); diff != "" {
		t.Error("warnings (-want +got):\n" + diff)
	}
	if env := w.Job.Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "OTHER" {
		t.Errorf("variables %v, want only OTHER", env)
	}
}

func TestLockedDefaults(t *testing.T) {
	p := readPolicy(t, "cluster: {defaults: {priorityClass: {value: batch, locked: true}, "+
		"env: {NCCL_DEBUG: {value: WARN, locked: true}}, ttl: {value: 1h, locked: true}}}")
	evaluate := func(w gang.Workload) []string {
		var got []string
		for _, f := range p.Judge(newInput(t, w))[0].Findings {
			got = append(got, f.Rule+" "+f.String())
		}
		return got
	}
	if got := evaluate(applyDefaults(t, p, readJob(t, bigJob))); len(got) > 0 {
		t.Errorf("findings for a gang with the defaults: %v", got)
	}
	other := strings.NewReplacer("      restartPolicy: Never", "      restartPolicy: Never\n      priorityClassName: high",
		"        resources", "        env: [{name: NCCL_DEBUG, value: INFO}]\n        resources").Replace(bigJob)
	want := []string{
		"cluster/defaults.env.NCCL_DEBUG spec.template.spec.containers[0].env[NCCL_DEBUG]: is not allowed, because the " +
			`policy locks the value; use "WARN", or remove the field (policy cluster/defaults.env.NCCL_DEBUG)`,
		"cluster/defaults.priorityClass spec.template.spec.priorityClassName: is not allowed, because the policy locks the " +
			`value; use "batch", or remove the field (policy cluster/defaults.priorityClass)`,
	}
	if diff := cmp.Diff(want, evaluate(applyDefaults(t, p, readJob(t, other)))); diff != "" {
		t.Error("findings for other values (-want +got):\n" + diff)
	}
	removed := evaluate(readJob(t, bigJob))
	if len(removed) != 3 || !strings.Contains(removed[2], `is required, because the policy locks the value; use "3600"`) {
		t.Errorf("findings for a gang without the locked values: %v", removed)
	}
}

// TestDefaultsAreIdempotent verifies for random policies and Jobs that defaults never replace a value, that a
// second application changes nothing, and that the injection keeps the record.
func TestDefaultsAreIdempotent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	defaults := []string{
		"runtime: 1h", "ttl: 2h", "restarts: 4", "disruptions: 4", "queue: q", "priorityClass: p", "labels: {a: b}",
		"annotations: {rollcall.training/start-timeout: 1m}", "podAnnotations: {x.io/y: z}", "nodeSelector: {n: s}",
		"tolerations: [{key: k, effect: NoSchedule}, {key: k, effect: NoExecute}]", "env: {A: b, NCCL_DEBUG: INFO}",
		"resources: {rdma/hca: '2'}",
	}
	userValues := []string{
		"  completionMode", "  activeDeadlineSeconds: 60\n  completionMode",
		"  labels: {", "  labels: {a: c, ",
		"      restartPolicy", "      nodeSelector: {n: own}\n      restartPolicy",
		"        image", "        env: [{name: A, value: own}]\n        image",
		"  completions", "  backoffLimit: 1\n  completions",
	}
	for range 300 {
		var chosen, replace []string
		for _, d := range defaults {
			if random.IntN(2) == 0 {
				chosen = append(chosen, d)
			}
		}
		for i := 0; i < len(userValues); i += 2 {
			if random.IntN(2) == 0 {
				replace = append(replace, userValues[i], userValues[i+1])
			}
		}
		p := readPolicy(t, "cluster: {defaults: {"+strings.Join(chosen, ", ")+"}}")
		w := readJob(t, strings.NewReplacer(replace...).Replace(bigJob))
		once := applyDefaults(t, p, w)
		twice := applyDefaults(t, p, once)
		if diff := cmp.Diff(once.Object(), twice.Object()); diff != "" {
			t.Fatalf("a second application of %v changes:\n%s", chosen, diff)
		}
		admitted := once.DeepCopy()
		if _, err := engine.Admit(admitted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(admitted.Object(), applyDefaults(t, p, admitted).Object()); diff != "" {
			t.Fatalf("an application of %v after the injection changes:\n%s", chosen, diff)
		}
		if len(chosen) > 0 && strings.Count(admitted.Job.Annotations[gang.AnnotationInjected], "policy:cluster") !=
			strings.Count(once.Job.Annotations[gang.AnnotationInjected], "policy:cluster") {
			t.Fatalf("the injection loses the record of %v", chosen)
		}
	}
}

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train, namespace: a, labels: {rollcall.training/framework: pytorch}}
spec:
  replicas: 2
  serviceName: train
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
      - name: trainer
        image: registry.example.com/train:1
`

// TestStatefulSetKeepsDefaults verifies that neither a changed policy nor a manifest without the defaults
// changes the pods of a StatefulSet.
func TestStatefulSetKeepsDefaults(t *testing.T) {
	read := func() *appsv1.StatefulSet {
		var set appsv1.StatefulSet
		if err := yaml.UnmarshalStrict([]byte(statefulSet), &set); err != nil {
			t.Fatal(err)
		}
		return &set
	}
	p := readPolicy(t, `
cluster:
  defaults:
    env: {NCCL_DEBUG: INFO, EMPTY: ""}
    nodeSelector: {a: b}
    podAnnotations: {example.com/empty: ""}
    resources: {rdma/hca: '1'}
    tolerations:
    - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
    - {key: nvidia.com/gpu, operator: Exists, effect: NoExecute}
    - {key: dedicated, operator: Exists}
profiles:
- {name: fabric, namespaces: {names: [a]}, defaults: {env: {ZONE: z}}}
`)
	live := applyDefaults(t, p, gang.Workload{StatefulSet: read()})
	if _, err := engine.Admit(live); err != nil {
		t.Fatal(err)
	}
	applied := read()
	applied.Annotations = map[string]string{"example.com/note": "new"}
	result, err := engine.AdmitUpdate(live.StatefulSet, applied)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(live.StatefulSet.Spec, applied.Spec); diff != "" || result.Reason == gang.ReasonInvalid {
		t.Error("an update without the defaults changes the StatefulSet (-before +after):\n" + diff)
	}
	changed := read()
	changed.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NCCL_DEBUG", Value: "WARN"}}
	if _, err := engine.AdmitUpdate(live.StatefulSet, changed); err != nil {
		t.Fatal(err)
	}
	env := changed.Spec.Template.Spec.Containers[0].Env
	if env[0].Name != "NCCL_DEBUG" || env[0].Value != "WARN" {
		t.Errorf("the value of the user was replaced: %v", env)
	}
}
