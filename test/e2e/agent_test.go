package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// agentPatch makes the agent start the processes of a gang.
const agentPatch = `{op: add, path: /metadata/annotations/rollcall.training~1launch, value: agent}`

// sshPrograms are the programs of OpenSSH that gangs use.
var sshPrograms = []string{"/usr/bin/ssh", "/usr/bin/ssh-keyscan", "/usr/bin/ssh-keygen", "/usr/sbin/sshd"}

// readOnlyRootPatches make the root file system read-only. Programs of MPI need a directory for temporary files.
var readOnlyRootPatches = []string{
	`{op: add, path: /spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem, value: true}`,
	`{op: add, path: /spec/template/spec/volumes/-, value: {name: tmp, emptyDir: {}}}`,
	`{op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: tmp, mountPath: /tmp}}`,
}

// withoutSSH returns the image of a recipe from which OpenSSH was removed.
func withoutSSH(recipe cluster.Recipe) cluster.Overlay {
	files := map[string]string{}
	for _, path := range sshPrograms {
		i := strings.LastIndexByte(path, '/') + 1
		files[path[:i]+".wh."+path[i:]] = "" // a whiteout of the OCI image specification
	}
	return cluster.Overlay{Name: recipe.Name + "-without-ssh", Base: recipe, Files: files}
}

// runAgentExample runs an example with the agent in an image without OpenSSH, and returns the log of the launcher.
func runAgentExample(t *testing.T, example, name string, recipe cluster.Recipe, patches ...string) string {
	t.Helper()
	ns, text := runLauncherExample(t, example, name, withoutSSH(recipe), append([]string{agentPatch}, patches...)...)
	s := requireCluster(t)
	s.checkAgentVolume(t, ns)
	image, err := withoutSSH(recipe).Reference()
	if err != nil {
		t.Fatal(err)
	}
	list := "for p in " + strings.Join(sshPrograms, " ") + "; do test ! -e $p || echo found $p; done; echo searched"
	_, err = s.Kubectl(t.Context(), "--namespace", ns, "run", "search", "--image="+image, "--restart=Never",
		"--command", "--", "sh", "-c", list)
	if err != nil {
		t.Fatal(err)
	}
	var out string
	wait.For(t, "the search of OpenSSH in the image", func(ctx context.Context) error {
		if out, err = s.Kubectl(ctx, "--namespace", ns, "logs", "search"); err == nil && !strings.Contains(out, "searched") {
			err = errors.New("the search has not finished")
		}
		return err
	})
	if strings.Contains(out, "found") {
		t.Errorf("the image contains OpenSSH:\n%s", out)
	}
	return text
}

// checkAgentVolume checks that the workers mount the image of the agent if the container runtime can.
func (s *testCluster) checkAgentVolume(t *testing.T, ns string) {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: gang.LabelRole + "=worker",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		hasVolume := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil })
		if hasVolume != cluster.UsesNewContainerd() {
			t.Errorf("pod %s mounts the image of the agent: %t, want %t", p.Name, hasVolume, cluster.UsesNewContainerd())
		}
	}
	if len(pods.Items) == 0 {
		t.Error("the gang has no workers")
	}
}

// TestAgentMPI checks for each MPI implementation that the agent starts the processes on both workers, in images
// without OpenSSH, as any user, and with a read-only root file system.
func TestAgentMPI(t *testing.T) {
	checkMPIExamples(t, []mpiExample{
		{cluster.OpenMPI5, gang.OpenMPI, "root", rootUserPatches, false},
		{cluster.MPICH, gang.MPICH, "anybody", slices.Concat(openShiftUserPatches, readOnlyRootPatches), true},
		{cluster.OpenMPI5, gang.OpenMPI, "anybody", slices.Concat(openShiftUserPatches, readOnlyRootPatches), true},
		{cluster.OpenMPI4, gang.OpenMPI, "member", slices.Concat(fsGroupUserPatches, readOnlyRootPatches), true},
		{cluster.IntelMPI, gang.IntelMPI, "member", slices.Concat(fsGroupUserPatches, readOnlyRootPatches), true},
	}, func(t *testing.T, recipe cluster.Recipe, patches ...string) string {
		return runAgentExample(t, "mpi", "hosts", recipe, patches...)
	})
}

// TestAgentHorovod runs horovodrun, which starts mpirun, with a user without a name.
func TestAgentHorovod(t *testing.T) {
	skipUnlessFullRun(t)
	home := `{op: add, path: /spec/template/spec/containers/0/env, value: [{name: HOME, value: /tmp}]}`
	text := runAgentExample(
		t, "horovod", "train-horovod", cluster.Horovod, append([]string{home}, openShiftUserPatches...)...,
	)
	checkTrainingResults(t, text, 4)
}

// TestAgentDeepSpeed runs the deepspeed command, whose pdsh finds the agent under the name ssh.
func TestAgentDeepSpeed(t *testing.T) {
	skipUnlessFullRun(t)
	checkTrainingResults(t, runAgentExample(t, "deepspeed/launcher", "deepspeed", cluster.DeepSpeed), 4)
}

// TestAgentRestart deletes a worker while its ranks run, and then stops all processes of a worker, whose agent is
// silent for a minute. The gang restarts once for each failure, as with ssh, and the status names the silent worker.
func TestAgentRestart(t *testing.T) {
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), withoutSSH(cluster.OpenMPI5))
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.createMPIGang(t, ns, "agent", image, 2, map[string]string{gang.AnnotationLaunch: string(gang.LaunchAgent)},
		"mpirun", "-np", "2", "sh", "-c",
		`echo "attempt $ROLLCALL_ATTEMPT on $(hostname)"; test "$ROLLCALL_ATTEMPT" = 2 || exec sleep 600`)
	s.waitForLogText(t, ns, "agent", "attempt 0 on agent-worker-1", 1)
	s.killPod(t, ns, "agent", "worker", 1)
	s.waitForLogText(t, ns, "agent", "attempt 1 on agent-worker-1", 1)
	isFrozen := false
	for _, p := range s.listPods(t, ns, "agent") {
		if strings.HasPrefix(p.Name, "agent-worker-1-") && p.DeletionTimestamp == nil {
			if err := s.FreezePod(t.Context(), ns, p.Name); err != nil {
				t.Fatal(err)
			}
			isFrozen = true
		}
	}
	if !isFrozen {
		t.Fatal("no pod runs worker 1")
	}
	s.waitForLogText(t, ns, "agent", "attempt 2 on agent-worker-1", 1)
	status := s.waitForGangStatus(t, ns, "agent-launcher", lifecycle.Succeeded, 2)
	if f := status.FirstFailure; f == nil || f.Rank != 0 || !strings.Contains(f.Message, "to host agent-worker-1") {
		t.Errorf("the first failure is %+v, want that of the launcher, which names the host", f)
	}
}
