package e2e

import (
	"context"
	"fmt"
	"slices"
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

// TestMPIOnOneHost takes the hostfile from an Open MPI that then runs all ranks on the
// launcher, and ends well. The gang says so.
func TestMPIOnOneHost(t *testing.T) {
	s := here(t)
	command := `{op: replace, path: /spec/template/spec/containers/0/command, value: ` +
		`["env", "-u", "PRTE_MCA_prte_default_hostfile", "mpirun", "-np", "2", "--oversubscribe", "python3", "/program/hosts.py"]}`
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
