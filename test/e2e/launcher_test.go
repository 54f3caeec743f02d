package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// Users as whom the containers of a launched gang run. ssh cares about it in more
// ways than any other program.
var (
	asRoot []string // as the image has it

	// asMember is a user of no name in the image, whose volumes belong to its group.
	asMember = securityContext(`{runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}`)

	// asAnybody is what OpenShift gives a namespace: a large number, and no group of its own.
	asAnybody = securityContext(`{runAsNonRoot: true, runAsUser: 1000680000, runAsGroup: 0, seccompProfile: {type: RuntimeDefault}}`)
)

func securityContext(pod string) []string {
	return []string{
		`{op: add, path: /spec/template/spec/securityContext, value: ` + pod + `}`,
		`{op: add, path: /spec/template/spec/containers/0/securityContext, value: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`,
	}
}

// launched applies an example with a launcher and two workers, waits until its gang
// has succeeded, and returns what the launcher printed.
func launched(t *testing.T, example, name string, recipe cluster.Recipe, patches ...string) (ns, text string) {
	t.Helper()
	s := here(t)
	image, err := s.LoadImage(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	ns = s.namespace(t)
	s.apply(t, ns, example, image, patches...)
	s.phase(t, ns, name+"-launcher", gang.Succeeded)
	// The members speak for the gang, each of them.
	s.phase(t, ns, name+"-worker", gang.Succeeded)
	return ns, s.launcherLog(t, ns, name)
}

// launcherLog is what the launcher printed; it started once.
func (s *site) launcherLog(t *testing.T, ns, name string) string {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s=%s,%s=%s", gang.LabelGang, name, gang.LabelRole, gang.RoleLauncher)})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("the launcher had %d pods; it starts when its workers answer, so one is enough", len(pods.Items))
	}
	text, err := s.client.CoreV1().Pods(ns).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "trainer"}).DoRaw(t.Context())
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

// TestMPI: each implementation sees both workers, and no other host.
func TestMPI(t *testing.T) {
	for _, c := range []struct {
		recipe cluster.Recipe
		mpi    gang.MPI
		user   string
		as     []string
		slow   bool
	}{
		{cluster.OpenMPI5, gang.OpenMPI, "root", asRoot, false},
		{cluster.OpenMPI5, gang.OpenMPI, "member", asMember, true},
		{cluster.OpenMPI5, gang.OpenMPI, "anybody", asAnybody, false},
		{cluster.OpenMPI4, gang.OpenMPI, "root", asRoot, true},
		{cluster.OpenMPI4, gang.OpenMPI, "member", asMember, true},
		{cluster.MPICH, gang.MPICH, "anybody", asAnybody, true},
		{cluster.IntelMPI, gang.IntelMPI, "member", asMember, true},
	} {
		t.Run(c.recipe.Name+" as "+c.user, func(t *testing.T) {
			if c.slow {
				slow(t)
			}
			patches := append([]string{
				`{op: add, path: /metadata/annotations/rollcall.training~1mpi-implementation, value: ` + string(c.mpi) + `}`}, c.as...)
			_, text := launched(t, "mpi", "hosts", c.recipe, patches...)
			if want := "processes 4 sum 6 hosts hosts-worker-0 hosts-worker-1"; !strings.Contains(text, want) {
				t.Errorf("the launcher did not print %q:\n%s", want, text)
			}
		})
	}
}

// TestMPITree has Open MPI's workers start workers, as it does by itself in gangs of
// more than 64 hosts: they need the keys, and names that they cut to the first label.
func TestMPITree(t *testing.T) {
	slow(t)
	for _, recipe := range []cluster.Recipe{cluster.OpenMPI4, cluster.OpenMPI5} {
		t.Run(recipe.Name, func(t *testing.T) {
			s := here(t)
			image, err := s.LoadImage(t.Context(), recipe)
			if err != nil {
				t.Fatal(err)
			}
			ns := s.namespace(t)
			for role, size := range map[string]int32{gang.RoleLauncher: 1, "worker": 5} {
				spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "trainer", Image: image}}}
				if role == gang.RoleLauncher {
					spec.Containers[0].Command = []string{"env", "PRTE_MCA_rml_base_radix=2", "OMPI_MCA_routed_radix=2", "mpirun", "-np", "5", "hostname"}
				}
				s.labelled(t, ns, "tree-"+role, map[string]string{gang.LabelFramework: "mpi", gang.LabelRole: role}, size,
					map[string]string{gang.AnnotationRoles: "launcher=1,worker=5", gang.AnnotationSlots: "1"}, spec)
			}
			s.phase(t, ns, "tree-launcher", gang.Succeeded)
			text := s.launcherLog(t, ns, "tree")
			for i := range 5 {
				if want := fmt.Sprintf("tree-worker-%d\n", i); !strings.Contains(text, want) {
					t.Errorf("no process on tree-worker-%d:\n%s", i, text)
				}
			}
		})
	}
}

// TestMPISelf lets the launcher be a host: its processes run in its own pod, beside
// those of the workers.
func TestMPISelf(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		recipe cluster.Recipe
		mpi    gang.MPI
	}{{cluster.OpenMPI4, gang.OpenMPI}, {cluster.OpenMPI5, gang.OpenMPI}, {cluster.MPICH, gang.MPICH}, {cluster.IntelMPI, gang.IntelMPI}} {
		t.Run(c.recipe.Name, func(t *testing.T) {
			_, text := launched(t, "mpi", "hosts", c.recipe,
				`{op: add, path: /metadata/annotations/rollcall.training~1mpi-implementation, value: `+string(c.mpi)+`}`,
				`{op: add, path: /metadata/annotations/rollcall.training~1launcher-runs-worker, value: "true"}`)
			if want := "hosts hosts-launcher-0 hosts-worker-0"; !strings.Contains(text, want) {
				t.Errorf("the launcher did not print %q:\n%s", want, text)
			}
		})
	}
}

// TestTorchOverMPI: PyTorch's mpi backend has its ranks from mpirun.
func TestTorchOverMPI(t *testing.T) {
	slow(t)
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.Horovod) // it has PyTorch and Open MPI
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	program := `import socket, torch, torch.distributed as dist; dist.init_process_group("mpi"); t = torch.ones(1); dist.all_reduce(t); ` +
		`print("rank", dist.get_rank(), "sum", int(t.item()), "on", socket.gethostname(), flush=True)`
	s.applyTo(t, ns, "mpi", image, "hosts-launcher", commandOf("mpirun", "-np", "4", "python3", "-c", program))
	s.phase(t, ns, "hosts-launcher", gang.Succeeded)
	text := s.launcherLog(t, ns, "hosts")
	for rank := range 4 {
		if want := fmt.Sprintf("rank %d sum 4 on hosts-worker-%d", rank, rank/2); !strings.Contains(text, want) {
			t.Errorf("the launcher did not print %q:\n%s", want, text)
		}
	}
}

// TestMPIOnOneHost takes the hostfile from an Open MPI that then runs all ranks on the
// launcher, and ends well. The gang says so.
func TestMPIOnOneHost(t *testing.T) {
	s := here(t)
	command := commandOf("env", "-u", "PRTE_MCA_prte_default_hostfile", "mpirun", "-np", "2", "--oversubscribe", "python3", "/program/hosts.py")
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI5)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	s.applyTo(t, ns, "mpi", image, "hosts-launcher", command)
	s.phase(t, ns, "hosts-launcher", gang.Succeeded)
	if text := s.launcherLog(t, ns, "hosts"); !strings.Contains(text, "processes 2 sum 1 hosts hosts-launcher-0") {
		t.Fatalf("the ranks are not on the launcher, so there is nothing to be found:\n%s", text)
	}
	eventually(t, "the report", func(ctx context.Context) error {
		events, err := s.Kubectl(ctx, "--namespace", ns, "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {end}")
		if err == nil && !strings.Contains(events, string(gang.ReasonRanksOnOneHost)) {
			err = fmt.Errorf("no Event %s among %q", gang.ReasonRanksOnOneHost, events)
		}
		return err
	})
}

// said is the line of an example among those of a launcher, which puts a prefix before
// each.
var said = regexp.MustCompile(`rank (\d+) world_size (\d+) loss (\S+) -> (\S+) model (\w+)`)

// launchedTraining runs an example whose launcher prints what its ranks print.
func launchedTraining(t *testing.T, example, name string, recipe cluster.Recipe, ranks int, patches ...string) {
	t.Helper()
	_, text := launched(t, example, name, recipe, patches...)
	seen, models := map[string]bool{}, map[string]bool{}
	for _, line := range said.FindAllStringSubmatch(text, -1) {
		t.Log(line[0])
		if first, last := number(t, line[3]), number(t, line[4]); !(last < first) || line[2] != strconv.Itoa(ranks) {
			t.Errorf("rank %s of %s: the loss went %v -> %v", line[1], line[2], first, last)
		}
		seen[line[1]], models[line[5]] = true, true
	}
	if len(seen) != ranks || len(models) != 1 {
		t.Errorf("%d ranks ended with the models %v, want %d with one:\n%s", len(seen), models, ranks, text)
	}
}

// commandOf replaces the launcher's command.
func commandOf(command ...string) string {
	text, err := json.Marshal(command)
	if err != nil {
		panic(err) // a list of strings
	}
	return `{op: replace, path: /spec/template/spec/containers/0/command, value: ` + string(text) + `}`
}

// TestHorovod: by horovodrun over Gloo, as a user without a name, and by mpirun.
func TestHorovod(t *testing.T) {
	slow(t)
	t.Run("horovodrun", func(t *testing.T) {
		// It keeps what it finds out about its hosts in its home, which a user without a name does not have.
		home := `{op: add, path: /spec/template/spec/containers/0/env, value: [{name: HOME, value: /tmp}]}`
		launchedTraining(t, "horovod", "train-horovod", cluster.Horovod, 4, append([]string{home}, asAnybody...)...)
	})
	t.Run("mpirun", func(t *testing.T) {
		s := here(t)
		image, err := s.LoadImage(t.Context(), cluster.Horovod)
		if err != nil {
			t.Fatal(err)
		}
		ns := s.namespace(t)
		s.applyTo(t, ns, "horovod", image, "train-horovod-launcher", commandOf("mpirun", "-np", "4", "python3", "/program/train.py"))
		s.phase(t, ns, "train-horovod-launcher", gang.Succeeded)
		if lines := said.FindAllString(s.launcherLog(t, ns, "train-horovod"), -1); len(lines) != 4 {
			t.Errorf("%d ranks ended: %q", len(lines), lines)
		}
	})
}

// TestDeepSpeedLauncher: the deepspeed command finds its hostfile by itself.
func TestDeepSpeedLauncher(t *testing.T) {
	slow(t)
	launchedTraining(t, "deepspeed/launcher", "deepspeed", cluster.DeepSpeed, 4)
}
