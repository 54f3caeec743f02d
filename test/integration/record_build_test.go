package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/builds"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// recordBuildEnv is the environment variable with the commit whose objects TestRecordBuild records.
const recordBuildEnv = "ROLLCALL_RECORD_BUILD"

// TestRecordBuild runs gangs with an earlier build on a real API server, and writes their workloads to
// internal/testing/recorded. The tests of this build read the workloads. internal/testing/recorded/README.md lists
// the builds.
func TestRecordBuild(t *testing.T) {
	commit := os.Getenv(recordBuildEnv)
	if commit == "" {
		t.Skip("set " + recordBuildEnv + " to a commit to record the objects of that build")
	}
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewFromSource(t, c, builds.Require(t, commit))}
	var out bytes.Buffer
	m.startRecordedGangs(t, func(r *testGang) {
		all, err := r.getWorkloads(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			out.WriteString("---\n")
			out.Write(encodeRecordedWorkload(t, w))
		}
	})
	path := filepath.Join("..", "..", "internal", "testing", "recorded", "objects", commit+".yaml")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil { // a file of the repository
		t.Fatal(err)
	}
}

// startRecordedGangs starts gangs of all kinds and phases, and calls record for each of them in its phase.
func (m *manager) startRecordedGangs(t *testing.T, record func(*testGang)) {
	t.Helper()
	start := func(prefix string, workloads ...gang.Workload) *testGang {
		for _, w := range workloads {
			w.Meta().Name = strings.Replace(w.Meta().Name, "train", prefix, 1)
		}
		return m.startGang(t, m.createNamespace(t), workloads...)
	}
	newSet := func() gang.Workload { return gang.Workload{StatefulSet: newStatefulSet("train", 2)} }
	record(start("job", newTrainingWorkload(2)))
	record(start("set", newSet()))
	record(start("mpi", newLauncherAndWorkers(2)...))

	for _, name := range []string{"suspended", "queued"} {
		w := newTrainingWorkload(2)
		w.Job.Name, w.Job.Spec.Suspend = name, ptr.To(true)
		if name == "queued" {
			w.Job.Labels[queueLabel] = "team"
		}
		r := m.createGang(t, m.createNamespace(t), w)
		r.waitForPhase(lifecycle.Suspended, 0)
		record(r)
	}

	succeeded := start("succeeded", newTrainingWorkload(2))
	for name := range succeeded.listActivePods() {
		succeeded.succeedPod(succeeded.getActivePod(name))
	}
	succeeded.waitForPhase(lifecycle.Succeeded, 0)
	record(succeeded)

	failed := start("failed", newTrainingWorkload(2, gang.AnnotationMaxRestarts, "0"))
	failed.failContainer(failed.getActivePod("worker-1"), 3)
	failed.waitForPhase(lifecycle.Failed, 0)
	failed.waitForJobFailure("failed")
	record(failed)

	for _, c := range []struct {
		prefix    string
		workloads []gang.Workload
	}{
		{prefix: "restarting", workloads: []gang.Workload{newTrainingWorkload(2)}},
		{prefix: "restarting-set", workloads: []gang.Workload{newSet()}},
		{prefix: "restarting-pair", workloads: newMasterAndWorkers()},
	} {
		r := start(c.prefix, c.workloads...)
		r.failContainer(r.getActivePod("worker-1"), 3)
		r.waitForPhase(lifecycle.Running, 1)
		r.failContainer(r.getActivePod("worker-1"), 3)
		r.waitForPhase(lifecycle.Restarting, 2)
		record(r) // in its back-off
	}
}

// encodeRecordedWorkload returns the YAML of a workload without the fields that neither Rollcall nor its tests
// read.
func encodeRecordedWorkload(t *testing.T, w gang.Workload) []byte {
	t.Helper()
	w.Object().GetObjectKind().SetGroupVersionKind(w.GroupKind().WithVersion("v1"))
	meta := w.Meta()
	meta.ManagedFields, meta.ResourceVersion = nil, ""
	text, err := yaml.Marshal(w.Object())
	if err != nil {
		t.Fatalf("encoding %s: %v", meta.Name, err)
	}
	return text
}
