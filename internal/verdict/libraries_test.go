package verdict_test

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

// containers is a rule about all containers, of which c is one.
func containers(condition string) string {
	return rule("(object.spec.template.spec.containers + object.spec.template.spec.?initContainers.orValue([])).all(c, " +
		condition + ")")
}

func rule(expression string) string {
	return "cluster: {rules: [{name: r, expression: " + quote(expression) + "}]}"
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// unless exempts containers by their images.
func unless(images, condition string) string { return "(" + images + ") || (" + condition + ")" }

func limits(text string) string { return "cluster: {limits: {" + text + "}}" }

// atMost compares a quantity of a container with a maximum.
func atMost(list, name, maximum string) string {
	field := "c.?resources[?'" + list + "'][?'" + name + "']"
	return field + ".hasValue() && quantity(string(" + field + ".value())).compareTo(quantity('" + maximum + "')) <= 0"
}

func exists(list, name string) string {
	return "c.?resources[?'" + list + "'][?'" + name + "'].hasValue()"
}

// ratio compares limit and request of a container.
func ratio(name, maximum string) string {
	amount := func(list string) string {
		return "quantity(string(c.resources." + list + "." + name + ")).asApproximateFloat()"
	}
	return exists("limits", name) + " && " + exists("requests", name) + " && " +
		amount("limits") + " <= " + maximum + " * " + amount("requests")
}

// sysctls is a rule about all sysctls of a pod, of which s is one.
func sysctls(condition string) string {
	return rule("object.spec.template.spec.?securityContext.sysctls.orValue([]).all(s, " + condition + ")")
}

const (
	safeImages = "c.image.startsWith('safeimages.com/')"
	baseline   = "podSecurity: {level: baseline}"
)

// gatekeeperPolicies are our policies by the folder of the sample constraint.
var gatekeeperPolicies = map[string]string{
	"general/allowedrepos/repo-must-be-openpolicyagent": limits("images: {allow: {'*': [docker.io/openpolicyagent/]}}"),
	"general/allowedreposv2/repo-must-be-openpolicyagent": containers("c.image == 'ubuntu:20.14' || " +
		"['openpolicyagent/', 'myregistry.azurecr.io/', 'mydockerhub/'].exists(p, c.image.startsWith(p)) || " +
		"c.image == '123456789123.dkr.ecr.eu-west-1.amazonaws.com/postgres'"),
	"general/disallowedrepos/repo-must-not-be-k8s-gcr-io":                       limits("images: {deny: [k8s.gcr.io/]}"),
	"general/imagedigests/container-image-must-have-digest":                     limits("images: {digests: true}"),
	"general/requiredlabels/all-must-have-owner":                                limits("labels: {require: {owner: '[a-zA-Z]+.agilebank.demo'}}"),
	"general/requiredlabels/verify-label-key-only":                              limits("labels: {require: {pizza: '.*'}}"),
	"general/replicalimits/replicalimits":                                       limits("size: {min: 3, max: 50}"),
	"general/disallowinteractive/no-interactive-containers":                     containers("!c.?stdin.orValue(false) && !c.?tty.orValue(false)"),
	"general/containerlimits/container-must-have-limits":                        containers(atMost("limits", "cpu", "200m") + " && " + atMost("limits", "memory", "1Gi")),
	"general/containerlimits/container-ignore-cpu-limits":                       containers(atMost("limits", "memory", "1Gi")),
	"general/containerrequests/container-must-have-requests":                    containers(atMost("requests", "cpu", "200m") + " && " + atMost("requests", "memory", "1Gi")),
	"general/ephemeralstoragelimit/container-must-have-ephemeral-storage-limit": containers(atMost("limits", "ephemeral-storage", "500Mi")),
	"general/containerresources/container-must-have-limits-and-requests": containers(strings.Join([]string{
		exists("limits", "cpu"), exists("limits", "memory"), exists("requests", "cpu"), exists("requests", "memory")}, " && ")),
	"general/containerresources/container-must-have-cpu-requests-memory-limits-and-requests": containers(strings.Join([]string{
		exists("limits", "memory"), exists("requests", "cpu"), exists("requests", "memory")}, " && ")),
	"general/containerresources/no-enforcements":                               "mode: enforce",
	"general/containerresourceratios/container-must-meet-ratio":                containers(ratio("memory", "2.0") + " && " + ratio("cpu", "2.0")),
	"general/containerresourceratios/container-must-meet-memory-and-cpu-ratio": containers(ratio("memory", "1.0") + " && " + ratio("cpu", "10.0")),
	"general/automount-serviceaccount-token/automount-serviceaccount-token": containers(
		"!object.spec.template.spec.?automountServiceAccountToken.orValue(c.?volumeMounts.orValue([]).exists(m, " +
			"m.mountPath == '/var/run/secrets/kubernetes.io/serviceaccount'))"),
	"general/disallowedtags/container-image-must-not-have-latest-tag": containers(unless(
		"c.image in ['openpolicyagent/opa-exp:latest', 'openpolicyagent/opa-exp2:latest']",
		"c.image.matches('.*:[^/]+$') && !c.image.endsWith(':latest')")),
	"general/requiredprobes/must-have-probes": rule("object.spec.template.spec.containers.all(c, " +
		"['readinessProbe', 'livenessProbe'].all(p, p in c && ['tcpSocket', 'httpGet', 'exec'].exists(k, k in c[p])))"),
	"pod-security-policy/privileged-containers/psp-privileged-container": containers(
		unless(safeImages, "!c.?securityContext.privileged.orValue(false)")),
	"pod-security-policy/allow-privilege-escalation/psp-allow-privilege-escalation-container": containers(
		unless(safeImages, "!c.?securityContext.allowPrivilegeEscalation.orValue(true)")),
	"pod-security-policy/capabilities/psp-capabilities-baseline": limits(
		"podSecurity: {level: baseline, allow: {capabilities: [NET_RAW]}}"),
	"pod-security-policy/capabilities/psp-capabilities-restricted": containers(
		"c.?securityContext.capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE') && " +
			"'ALL' in c.?securityContext.capabilities.?drop.orValue([])"),
	"pod-security-policy/host-filesystem/no-host-paths": limits(baseline),
	"pod-security-policy/host-filesystem/psp-host-filesystem": rule("object.spec.template.spec.?volumes.orValue([]).all(v, " +
		"!has(v.hostPath) || v.hostPath.path == '/foo' || v.hostPath.path.startsWith('/foo/')) && " +
		"object.spec.template.spec.containers.all(c, c.?volumeMounts.orValue([]).all(m, m.?readOnly.orValue(false)))"),
	"pod-security-policy/host-namespaces/psp-host-namespace":              limits(baseline),
	"pod-security-policy/host-process/psp-host-process":                   limits(baseline),
	"pod-security-policy/proc-mount/psp-proc-mount":                       containers(unless(safeImages, "c.?securityContext.procMount.orValue('Default') == 'Default'")),
	"pod-security-policy/selinux/psp-selinux-v2":                          limits(baseline),
	"pod-security-policy/seccompv2/psp-seccomp-baseline":                  containers(unless("c.image == 'nginx-exempt'", "c.?securityContext.seccompProfile.?type.orValue('') != 'Unconfined' && object.spec.template.spec.?securityContext.seccompProfile.?type.orValue('') != 'Unconfined'")),
	"pod-security-policy/apparmor/psp-apparmor":                           limits(baseline),
	"pod-security-policy/host-probes-lifecycle/psp-host-probes-lifecycle": limits(baseline),
	"pod-security-policy/forbidden-sysctls/psp-forbidden-sysctls":         limits(baseline),
	"pod-security-policy/forbidden-sysctls/constraint2.yaml":              sysctls("false"),
	"pod-security-policy/forbidden-sysctls/constraint3.yaml":              sysctls("s.name.startsWith('net.')"),
	"pod-security-policy/forbidden-sysctls/constraint4.yaml":              sysctls("false"),
	"pod-security-policy/forbidden-sysctls/constraint5.yaml":              sysctls("!s.name.startsWith('kernel.')"),
	"pod-security-policy/host-network-ports/psp-host-network-ports": containers(unless(safeImages,
		"c.?ports.orValue([]).all(p, !has(p.hostPort) || p.hostPort >= 80 && p.hostPort <= 9000)")),
	"pod-security-policy/host-network-ports/block_host_network": rule("!object.spec.template.spec.?hostNetwork.orValue(false)"),
	"pod-security-policy/host-network-ports/port_range_block_host_network": containers(
		"!object.spec.template.spec.?hostNetwork.orValue(false) && (" + unless(safeImages,
			"c.?ports.orValue([]).all(p, !has(p.hostPort) || p.hostPort >= 80 && p.hostPort <= 9000)") + ")"),
	"pod-security-policy/volumes/psp-volume-types": rule("object.spec.template.spec.?volumes.orValue([]).all(v, " +
		"!has(v.hostPath) && !has(v.nfs) && !has(v.flexVolume))"),
	"pod-security-policy/fsgroup/psp-fsgroup": rule("!object.spec.template.spec.?securityContext.fsGroup.hasValue() || " +
		"object.spec.template.spec.securityContext.fsGroup <= 1000"),
	"pod-security-policy/users/psp-pods-allowed-user-ranges": containers("c.?securityContext.runAsNonRoot.orValue(" +
		"object.spec.template.spec.?securityContext.runAsNonRoot.orValue(false)) || " +
		"c.?securityContext.runAsUser.orValue(object.spec.template.spec.?securityContext.runAsUser.orValue(0)) > 0"),
	"pod-security-policy/read-only-root-filesystem/psp-readonlyrootfilesystem": containers(
		unless("c.image == 'specialprogram'", "c.?securityContext.readOnlyRootFilesystem.orValue(false)")),
	"pod-security-policy/read-only-root-filesystem/wildcard-prefix": containers(
		unless("c.image.startsWith('safe-images.com/')", "c.?securityContext.readOnlyRootFilesystem.orValue(false)")),
	"pod-security-policy/read-only-root-filesystem/full_wildcard": "mode: enforce",
}

// expectedDifferences are the cases with another verdict by their prefix, with the reason.
var expectedDifferences = map[string]string{
	"general/disallowedtags/container-image-must-not-have-latest-tag: single-disallowed-tag-ephemeral": "a pod template " +
		"has no ephemeral containers",
	"pod-security-policy/apparmor/psp-apparmor: example-allowed-override": "the standard forbids an unconfined pod, even " +
		"if its container has a profile",
	"pod-security/restricted/disallow-capabilities-strict: ": "the cases addcap judge only the capabilities that are " +
		"added, and the standard also requires to drop all",
	"best-practices/disallow-cri-sock-mount: ": "the case passes the rule for another runtime",
}

// requireExpected reports a verdict that differs from a case without a known reason.
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
			text, ok := gatekeeperPolicies[key]
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
				if got := violates(t, readPolicy(t, text), w); got != want {
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
	t.Logf("%d cases have the same verdict, %d another one, %d are no pods", same, different, skipped)
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
	findings := p.Evaluate(policy.Input{
		Facts: policy.NewFacts(result.Gang, w), Namespace: policy.Namespace{Name: "default"}, Workload: w, Now: time.Unix(0, 0),
	})
	return policy.Worst(findings) == policy.ModeEnforce
}
