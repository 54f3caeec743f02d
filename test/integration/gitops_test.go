package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// argoCDVariable is the environment variable that includes the comparison of Argo CD. The first run
// compiles Argo CD, which takes 3 minutes on 2 cores.
const argoCDVariable = "ROLLCALL_TEST_ARGOCD"

// The manifests contain all fields that Rollcall changes while it manages a gang.
const (
	jobManifest = `
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {rollcall.training/framework: pytorch}
  annotations: {rollcall.training/max-restarts: "1"}
spec:
  suspend: false
  parallelism: 3
  completions: 3
  activeDeadlineSeconds: 100000
  template:
    spec: {restartPolicy: Never, containers: [{name: trainer, image: "example.com/train:1"}]}
`
	statefulSetManifest = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: train
  labels: {rollcall.training/framework: pytorch}
  annotations: {rollcall.training/max-restarts: "1"}
spec:
  replicas: 3
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec: {containers: [{name: trainer, image: "example.com/train:1"}]}
`
	memberManifest = `
apiVersion: batch/v1
kind: Job
metadata:
  name: train-ROLE
  labels: {rollcall.training/framework: pytorch, rollcall.training/role: ROLE}
  annotations: {rollcall.training/roles: "master=1,worker=2", rollcall.training/success-policy: worker}
spec:
  suspend: false
  parallelism: SIZE
  completions: SIZE
  template:
    spec: {restartPolicy: Never, containers: [{name: trainer, image: "example.com/train:1"}]}
`
	// A Job with a successPolicy cannot complete without its pods.
	successPolicy = "\n  successPolicy: {rules: [{succeededIndexes: \"0\"}]}"
)

func newMemberManifest(role, size, spec string) string {
	return strings.NewReplacer("ROLE", role, "SIZE", size).Replace(strings.TrimSpace(memberManifest)) + spec + "\n"
}

// gitOpsTool applies manifests again and again, and compares them with the live objects.
type gitOpsTool interface {
	// apply applies a manifest.
	apply(g *gitOpsGang, manifest string)
	// findDrift returns how the live object differs from the manifest; empty if it does not.
	findDrift(g *gitOpsGang, manifest string) string
}

// gitOpsGang is a gang that a GitOps tool applies.
type gitOpsGang struct {
	*testGang
	tool      gitOpsTool
	manifests []string
}

// testGitOps returns a test of gangs that a tool applies: in each phase, there is no drift, and applying the
// manifests again changes nothing.
func testGitOps(newTool func(t *testing.T) gitOpsTool) func(*testing.T, *manager, string) {
	return func(t *testing.T, m *manager, _ string) {
		tool := newTool(t)
		newGang := func(t *testing.T, manifests ...string) *gitOpsGang {
			t.Parallel()
			ns := m.createNamespace(t)
			m.runFakeKubelet(t, ns, nil)
			g := &gitOpsGang{testGang: &testGang{manager: m, t: t, ns: ns}, tool: tool, manifests: manifests}
			for _, manifest := range manifests {
				object := decodeManifest(t, manifest)
				if object.GetKind() == string(gang.Job) {
					g.jobs = append(g.jobs, object.GetName())
				} else {
					g.statefulSets = append(g.statefulSets, object.GetName())
				}
				tool.apply(g, manifest)
			}
			g.waitForPhase(lifecycle.Running, 0)
			return g
		}
		t.Run("Job", func(t *testing.T) { testGitOpsRestart(newGang(t, jobManifest)) })
		t.Run("StatefulSet", func(t *testing.T) { testGitOpsRestart(newGang(t, statefulSetManifest)) })
		t.Run("SeveralJobs", func(t *testing.T) {
			testGitOpsSuccess(newGang(t, newMemberManifest("master", "1", ""), newMemberManifest("worker", "2", "")))
		})
		t.Run("SuccessPolicy", func(t *testing.T) {
			testGitOpsSuccess(newGang(t, newMemberManifest("master", "1", successPolicy), newMemberManifest("worker", "2", "")))
		})
	}
}

// testGitOpsRestart checks a gang that runs, restarts, runs again and fails.
func testGitOpsRestart(g *gitOpsGang) {
	g.checkSync("while the gang runs")
	finish := g.beginRestart("worker-1", "worker-0")
	g.waitForPodsGone("worker")
	g.checkSync("while the gang restarts")
	finish()
	g.waitForPhase(lifecycle.Running, 1)
	g.checkSync("after the restart")
	g.failContainer(g.getActivePod("worker-1"), 3)
	g.waitForPhase(lifecycle.Failed, 1)
	if len(g.jobs) > 0 {
		g.waitForJobFailure("train")
	}
	g.waitForPodsGone("worker")
	g.checkSyncAfterEnd("after the failure")
}

// testGitOpsSuccess checks a gang with a member whose pods are not needed any more when the gang succeeds.
func testGitOpsSuccess(g *gitOpsGang) {
	g.succeedPod(g.getActivePod("worker-0"))
	g.succeedPod(g.getActivePod("worker-1"))
	g.waitForPhase(lifecycle.Succeeded, 0)
	g.waitForPodsGone("master")
	wait.For(g.t, "the end of the master", func(context.Context) error {
		master := g.getJob("train-master")
		if isSuspended := ptr.Deref(master.Spec.Suspend, false); !isSuspended && master.Status.CompletionTime == nil {
			return errors.New("it is neither suspended nor complete")
		}
		return nil
	})
	g.checkSyncAfterEnd("after the success")
}

// checkSyncAfterEnd is checkSync for a gang that has finished. A tool without ignoreDifferences may restore
// the manifest once, which has no effect on a finished Job.
func (g *gitOpsGang) checkSyncAfterEnd(when string) {
	g.t.Helper()
	if _, restoresOnce := g.tool.(flux); restoresOnce {
		before := g.observe()
		for _, manifest := range g.manifests {
			g.tool.apply(g, manifest)
		}
		g.checkUnchanged(before, when)
	}
	g.checkSync(when)
}

// checkSync checks that there is no drift, and that applying the manifests again changes nothing.
func (g *gitOpsGang) checkSync(when string) {
	g.t.Helper()
	before := g.observe()
	for range 2 { // the second time shows whether the first has caused a difference
		for _, manifest := range g.manifests {
			if drift := g.tool.findDrift(g, manifest); drift != "" {
				g.t.Errorf("%s, the live object differs from the manifest: %s", when, drift)
			}
			g.tool.apply(g, manifest)
		}
		g.checkUnchanged(before, when)
	}
}

// checkUnchanged fails the test if the gang changes within two seconds.
func (g *gitOpsGang) checkUnchanged(before map[string]string, when string) {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if diff := cmp.Diff(before, g.observe()); diff != "" {
			g.t.Fatalf("%s, applying the manifests again changed the gang (-before +after):\n%s", when, diff)
		}
	}
}

// observe returns what must not change: the phase and the pods.
func (g *gitOpsGang) observe() map[string]string {
	g.t.Helper()
	out := map[string]string{}
	for name, pod := range g.listActivePods() {
		out[name] = string(pod.UID)
	}
	workloads, err := g.getWorkloads(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	for _, w := range workloads {
		status := lifecycle.ReadStatus(w)
		observed := lifecycle.Observe(w)
		out[w.Meta().Name] = fmt.Sprintf("%s, %d restarts, suspended by Rollcall: %t, complete: %t, failed: %t",
			status.Phase, status.Restarts, status.SuspendedByRollcall && w.IsSuspended(), observed.Complete, observed.Failed)
	}
	return out
}

func decodeManifest(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// kubectlApply runs kubectl apply with a manifest and further arguments, and returns the object.
func (g *gitOpsGang) kubectlApply(manifest string, args ...string) *unstructured.Unstructured {
	g.t.Helper()
	out, err := g.Cluster.KubectlWithInput(g.t.Context(), manifest,
		slices.Concat([]string{"-n", g.ns, "apply", "-o", "json", "--show-managed-fields", "-f", "-"}, args)...)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.decodeJSON(out)
}

// decodeJSON decodes the object that kubectl prints, which may follow warnings.
func (g *gitOpsGang) decodeJSON(text string) *unstructured.Unstructured {
	g.t.Helper()
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text[max(0, strings.Index(text, "{")):]), &object.Object); err != nil {
		g.t.Fatalf("%v: %s", err, text)
	}
	return object
}

func (g *gitOpsGang) getLive(manifest string) *unstructured.Unstructured {
	g.t.Helper()
	object := decodeManifest(g.t, manifest)
	out, err := g.Cluster.Kubectl(g.t.Context(), "-n", g.ns, "get", object.GetKind(), object.GetName(),
		"-o", "json", "--show-managed-fields")
	if err != nil {
		g.t.Fatal(err)
	}
	return g.decodeJSON(out)
}

// flux applies as the kustomize-controller of Flux does (github.com/fluxcd/pkg/ssa): by server-side apply
// with force, if a dry run would change the live object.
type flux struct{}

var fluxArgs = []string{"--server-side", "--force-conflicts", "--field-manager=kustomize-controller"}

func (flux) apply(g *gitOpsGang, manifest string) { g.kubectlApply(manifest, fluxArgs...) }

func (flux) findDrift(g *gitOpsGang, manifest string) string {
	live := g.getLive(manifest)
	dryRun := g.kubectlApply(manifest, append([]string{"--dry-run=server"}, fluxArgs...)...)
	for _, object := range []*unstructured.Unstructured{live, dryRun} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
		unstructured.RemoveNestedField(object.Object, "status")
	}
	return cmp.Diff(live.Object, dryRun.Object)
}

// argoCD applies and compares with the code of Argo CD, and with the settings of docs/tasks/use-gitops.md:
// ignoreDifferences for the fields that Rollcall wrote, and RespectIgnoreDifferences=true.
type argoCD struct{ program string }

// newArgoCD builds the program that compares.
func newArgoCD(t *testing.T) gitOpsTool {
	t.Helper()
	if os.Getenv(argoCDVariable) == "" {
		t.Skipf("set %s=true to compile Argo CD, or run make gitops", argoCDVariable)
	}
	program := filepath.Join(t.TempDir(), "argocd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "gitops", "argocd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return argoCD{program}
}

func (a argoCD) apply(g *gitOpsGang, manifest string) {
	g.t.Helper()
	object := decodeManifest(g.t, manifest)
	exists, err := g.Cluster.Kubectl(g.t.Context(), "-n", g.ns, "get", object.GetKind(), object.GetName(),
		"-o", "name", "--ignore-not-found")
	if err != nil {
		g.t.Fatal(err)
	}
	if exists != "" {
		manifest = string(a.compare(g, manifest, rollcallManagers).Target)
	}
	g.kubectlApply(manifest)
}

// rollcallManagers are the managedFieldsManagers in docs/tasks/use-gitops.md.
var rollcallManagers = []string{"rollcall-controller"}

func (a argoCD) findDrift(g *gitOpsGang, manifest string) string {
	g.t.Logf("drift without ignoreDifferences: %s", a.compare(g, manifest, nil).Difference)
	return strings.TrimPrefix(string(a.compare(g, manifest, rollcallManagers).Difference), "null")
}

// argoCDResult is an element of the output of test/gitops/argocd.
type argoCDResult struct{ Difference, Target json.RawMessage }

func (a argoCD) compare(g *gitOpsGang, manifest string, managers []string) argoCDResult {
	g.t.Helper()
	input, err := json.Marshal([]any{map[string]any{
		"Live": g.getLive(manifest), "Manifest": decodeManifest(g.t, manifest), "Managers": managers,
	}})
	if err != nil {
		g.t.Fatal(err)
	}
	command := exec.CommandContext(g.t.Context(), a.program)
	command.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		g.t.Fatalf("comparing: %v: %s", err, stderr.String())
	}
	var results []argoCDResult
	if err := json.Unmarshal(out, &results); err != nil || len(results) != 1 {
		g.t.Fatalf("reading the results %s: %v", out, err)
	}
	return results[0]
}
