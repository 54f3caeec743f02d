package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// The users of the containers of a gang with a launcher. ssh is more sensitive to its user than
// other programs are.
var (
	rootUserPatches []string // rootUserPatches keep the user of the image

	// fsGroupUserPatches set a user that the image does not name, with volumes owned by its group.
	fsGroupUserPatches = securityContextPatches(
		`{runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}`,
	)

	// openShiftUserPatches set the user that OpenShift assigns to a namespace: a large number
	// without its own group.
	openShiftUserPatches = securityContextPatches(
		`{runAsNonRoot: true, runAsUser: 1000680000, runAsGroup: 0, seccompProfile: {type: RuntimeDefault}}`,
	)
)

func securityContextPatches(pod string) []string {
	return []string{
		`{op: add, path: /spec/template/spec/securityContext, value: ` + pod + `}`,
		`{op: add, path: /spec/template/spec/containers/0/securityContext, ` +
			`value: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`,
	}
}

// runLauncherExample applies an example with a launcher and two workers, waits until its gang
// succeeds, and returns the namespace and the log of the launcher.
func runLauncherExample(
	t *testing.T, example, name string, source cluster.ImageSource, patches ...string,
) (ns, text string) {
	t.Helper()
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	ns = s.createNamespace(t)
	s.applyExample(t, ns, example, image, patches...)
	s.waitForTerminalPhase(t, ns, name+"-launcher", lifecycle.Succeeded)
	// Each member has the status of the gang.
	s.waitForTerminalPhase(t, ns, name+"-worker", lifecycle.Succeeded)
	return ns, s.readLauncherLog(t, ns, name)
}

// readLauncherLog returns the log of the launcher. It fails the test if the launcher was restarted.
func (s *testCluster) readLauncherLog(t *testing.T, ns, name string) string {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s=%s,%s=%s", gang.LabelGang, name, gang.LabelRole, gang.RoleLauncher)})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("the launcher had %d pods, want 1: it starts when its workers are reachable", len(pods.Items))
	}
	text, err := s.client.CoreV1().Pods(ns).GetLogs(
		pods.Items[0].Name, &corev1.PodLogOptions{Container: "trainer"},
	).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(pods.Items[0].Status.InitContainerStatuses, pods.Items[0].Status.ContainerStatuses) {
		if c.RestartCount != 0 {
			t.Errorf("%s restarted %d times", c.Name, c.RestartCount)
		}
	}
	return string(text)
}

// TestMPI checks for each MPI implementation that the processes run on both workers and on no other
// host.
func TestMPI(t *testing.T) {
	checkMPIExamples(t, []mpiExample{
		{cluster.OpenMPI5, gang.OpenMPI, "root", rootUserPatches, false},
		{cluster.OpenMPI5, gang.OpenMPI, "member", fsGroupUserPatches, true},
		{cluster.OpenMPI5, gang.OpenMPI, "anybody", openShiftUserPatches, false},
		{cluster.OpenMPI4, gang.OpenMPI, "root", rootUserPatches, true},
		{cluster.OpenMPI4, gang.OpenMPI, "member", fsGroupUserPatches, true},
		{cluster.MPICH, gang.MPICH, "anybody", openShiftUserPatches, true},
		{cluster.IntelMPI, gang.IntelMPI, "member", fsGroupUserPatches, true},
	}, func(t *testing.T, recipe cluster.Recipe, patches ...string) string {
		_, text := runLauncherExample(t, "mpi", "hosts", recipe, patches...)
		return text
	})
}

// mpiExample is a run of the example of MPI.
type mpiExample struct {
	recipe cluster.Recipe
	mpi    gang.MPIImplementation
	user   string
	as     []string // patches that set the user
	slow   bool
}

// checkMPIExamples checks that the processes of each example run on both workers and on no other host. run applies
// the example with patches and returns the log of its launcher.
func checkMPIExamples(
	t *testing.T, examples []mpiExample, run func(t *testing.T, recipe cluster.Recipe, patches ...string) string,
) {
	for _, e := range examples {
		t.Run(e.recipe.Name+" as "+e.user, func(t *testing.T) {
			if e.slow {
				skipUnlessFullRun(t)
			}
			text := run(t, e.recipe, append([]string{
				`{op: add, path: /metadata/annotations/rollcall.training~1mpi-implementation, value: ` +
					string(e.mpi) + `}`}, e.as...)...)
			if want := "processes 4 sum 6 hosts hosts-worker-0 hosts-worker-1"; !strings.Contains(text, want) {
				t.Errorf("the launcher did not print %q:\n%s", want, text)
			}
		})
	}
}

// createMPIGang creates a gang of MPI whose launcher runs a command with one slot on each worker.
func (s *testCluster) createMPIGang(
	t *testing.T, ns, name, image string, workers int32, annotations map[string]string, command ...string,
) {
	t.Helper()
	annotations = maps.Clone(annotations)
	annotations[gang.AnnotationRoles] = fmt.Sprintf("launcher=1,worker=%d", workers)
	annotations[gang.AnnotationSlotsPerWorker] = "1"
	for role, size := range map[string]int32{gang.RoleLauncher: 1, "worker": workers} {
		spec := corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "trainer", Image: image}},
		}
		if role == gang.RoleLauncher {
			spec.Containers[0].Command = command
		}
		labels := map[string]string{gang.LabelFramework: "mpi", gang.LabelRole: role}
		s.createLabeledJob(t, ns, name+"-"+role, labels, size, annotations, spec)
	}
}

// TestMPITreeLaunch makes the workers of Open MPI start other workers. Open MPI does so by default
// in gangs of more than 64 hosts. The workers need the ssh keys, and resolve host names that are
// cut to the first label.
func TestMPITreeLaunch(t *testing.T) {
	skipUnlessFullRun(t)
	for _, recipe := range []cluster.Recipe{cluster.OpenMPI4, cluster.OpenMPI5} {
		t.Run(recipe.Name, func(t *testing.T) {
			s := requireCluster(t)
			image, err := s.LoadImage(t.Context(), recipe)
			if err != nil {
				t.Fatal(err)
			}
			ns := s.createNamespace(t)
			s.createMPIGang(t, ns, "tree", image, 5, map[string]string{},
				"env", "PRTE_MCA_rml_base_radix=2", "OMPI_MCA_routed_radix=2", "mpirun", "-np", "5", "hostname")
			s.waitForTerminalPhase(t, ns, "tree-launcher", lifecycle.Succeeded)
			text := s.readLauncherLog(t, ns, "tree")
			for i := range 5 {
				if want := fmt.Sprintf("tree-worker-%d\n", i); !strings.Contains(text, want) {
					t.Errorf("no process on tree-worker-%d:\n%s", i, text)
				}
			}
		})
	}
}

// TestMPILauncherAsWorker makes the launcher a host: some processes run in its own pod.
func TestMPILauncherAsWorker(t *testing.T) {
	skipUnlessFullRun(t)
	for _, c := range []struct {
		recipe cluster.Recipe
		mpi    gang.MPIImplementation
	}{
		{cluster.OpenMPI4, gang.OpenMPI},
		{cluster.OpenMPI5, gang.OpenMPI},
		{cluster.MPICH, gang.MPICH},
		{cluster.IntelMPI, gang.IntelMPI},
	} {
		t.Run(c.recipe.Name, func(t *testing.T) {
			_, text := runLauncherExample(t, "mpi", "hosts", c.recipe,
				`{op: add, path: /metadata/annotations/rollcall.training~1mpi-implementation, value: `+string(c.mpi)+`}`,
				`{op: add, path: /metadata/annotations/rollcall.training~1run-launcher-as-worker, value: "true"}`)
			if want := "hosts hosts-launcher-0 hosts-worker-0"; !strings.Contains(text, want) {
				t.Errorf("the launcher did not print %q:\n%s", want, text)
			}
		})
	}
}

// TestTorchOverMPI checks that PyTorch's mpi backend gets its ranks from mpirun.
func TestTorchOverMPI(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.Horovod) // the image contains PyTorch and Open MPI
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	program := `import socket, torch, torch.distributed as dist; dist.init_process_group("mpi"); ` +
		`t = torch.ones(1); dist.all_reduce(t); ` +
		`print("rank", dist.get_rank(), "sum", int(t.item()), "on", socket.gethostname(), flush=True)`
	s.applyExampleWithPatches(
		t, ns, "mpi", image, "hosts-launcher", formatCommandPatch("mpirun", "-np", "4", "python3", "-c", program),
	)
	s.waitForTerminalPhase(t, ns, "hosts-launcher", lifecycle.Succeeded)
	text := s.readLauncherLog(t, ns, "hosts")
	for rank := range 4 {
		if want := fmt.Sprintf("rank %d sum 4 on hosts-worker-%d", rank, rank/2); !strings.Contains(text, want) {
			t.Errorf("the launcher did not print %q:\n%s", want, text)
		}
	}
}

// TestMPIWorkersNotReached removes the hostfile from Open MPI, which then runs all ranks on the
// launcher and succeeds. The gang must report it.
func TestMPIWorkersNotReached(t *testing.T) {
	s := requireCluster(t)
	command := formatCommandPatch("env",
		"-u", "PRTE_MCA_prte_default_hostfile", "mpirun", "-np", "2", "--oversubscribe", "python3", "/program/hosts.py")
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI5)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.applyExampleWithPatches(t, ns, "mpi", image, "hosts-launcher", command)
	s.waitForTerminalPhase(t, ns, "hosts-launcher", lifecycle.Succeeded)
	if text := s.readLauncherLog(t, ns, "hosts"); !strings.Contains(text, "processes 2 sum 1 hosts hosts-launcher-0") {
		t.Fatalf("the ranks are not on the launcher, so there is nothing to report:\n%s", text)
	}
	wait.For(t, "the Event", func(ctx context.Context) error {
		events, err := s.Kubectl(ctx, "--namespace", ns, "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {end}")
		if err == nil && !strings.Contains(events, string(gang.ReasonWorkersNotReached)) {
			err = fmt.Errorf("no Event %s among %q", gang.ReasonWorkersNotReached, events)
		}
		return err
	})
}

// launcherResultPattern matches the result line of a rank in the log of a launcher, which adds a
// prefix.
var launcherResultPattern = regexp.MustCompile(`rank (\d+) world_size (\d+) loss (\S+) -> (\S+) model (\w+)`)

// runLauncherTraining runs an example whose launcher prints the output of its ranks.
func runLauncherTraining(
	t *testing.T, example, name string, source cluster.ImageSource, ranks int, patches ...string,
) {
	t.Helper()
	_, text := runLauncherExample(t, example, name, source, patches...)
	checkTrainingResults(t, text, ranks)
}

// checkTrainingResults checks that a text contains the result of each rank, and that all ranks have
// the same model and a lower loss than at the beginning.
func checkTrainingResults(t *testing.T, text string, ranks int) {
	t.Helper()
	seen, models := map[string]bool{}, map[string]bool{}
	for _, line := range launcherResultPattern.FindAllStringSubmatch(text, -1) {
		t.Log(line[0])
		if first, last := parseFloat(t, line[3]), parseFloat(t, line[4]); !(last < first) || line[2] != strconv.Itoa(ranks) {
			t.Errorf("rank %s of %s: the loss did not decrease: %v -> %v", line[1], line[2], first, last)
		}
		seen[line[1]], models[line[5]] = true, true
	}
	if len(seen) != ranks || len(models) != 1 {
		t.Errorf("%d ranks ended with the models %v, want %d with one:\n%s", len(seen), models, ranks, text)
	}
}

// formatCommandPatch returns a JSON patch that replaces the command of the launcher.
func formatCommandPatch(command ...string) string {
	text, err := json.Marshal(command)
	if err != nil {
		panic(err) // a slice of strings always marshals
	}
	return `{op: replace, path: /spec/template/spec/containers/0/command, value: ` + string(text) + `}`
}

// TestHorovod runs horovodrun over Gloo with a user without a name, and mpirun.
func TestHorovod(t *testing.T) {
	skipUnlessFullRun(t)
	t.Run("horovodrun", func(t *testing.T) {
		// horovodrun stores data about its hosts in the home directory, which a user without a name
		// does not have.
		home := `{op: add, path: /spec/template/spec/containers/0/env, value: [{name: HOME, value: /tmp}]}`
		runLauncherTraining(
			t, "horovod", "train-horovod", cluster.Horovod, 4, append([]string{home}, openShiftUserPatches...)...,
		)
	})
	t.Run("mpirun", func(t *testing.T) {
		s := requireCluster(t)
		image, err := s.LoadImage(t.Context(), cluster.Horovod)
		if err != nil {
			t.Fatal(err)
		}
		ns := s.createNamespace(t)
		s.applyExampleWithPatches(
			t, ns, "horovod", image, "train-horovod-launcher", formatCommandPatch("mpirun",
				"-np", "4", "python3", "/program/train.py"),
		)
		s.waitForTerminalPhase(t, ns, "train-horovod-launcher", lifecycle.Succeeded)
		if lines := launcherResultPattern.FindAllString(s.readLauncherLog(t, ns, "train-horovod"), -1); len(lines) != 4 {
			t.Errorf("%d ranks ended: %q", len(lines), lines)
		}
	})
}

// TestDeepSpeedLauncher checks that the deepspeed command finds its hostfile.
func TestDeepSpeedLauncher(t *testing.T) {
	skipUnlessFullRun(t)
	runLauncherTraining(t, "deepspeed/launcher", "deepspeed", cluster.DeepSpeed, 4)
}
