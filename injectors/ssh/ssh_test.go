package ssh_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/plan"
)

const public = "ecdsa-sha2-nistp256 AAAApublic"

// launcher is the launcher of a gang with that many workers.
func launcher(workers int32) gang.Gang {
	return gang.Gang{
		Name: "train", Namespace: "team", Role: gang.RoleLauncher, Workload: "train-launcher",
		Service: "train", Domain: "cluster.local", Port: ssh.Port,
		Members: []gang.Member{
			{Role: gang.RoleLauncher, Workload: "train-launcher", Size: 1},
			{Role: "worker", Workload: "train-worker", Size: workers},
		},
		Launch: gang.Launch{MPI: gang.OpenMPI, Slots: 2},
	}
}

// prepare runs the init container's script as the kubelet would, but for the wait, and
// returns the folder that it fills.
func prepare(t *testing.T, p plan.Plan) string {
	t.Helper()
	dir, key := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{ssh.PrivateKey: "private\n", ssh.PublicKey: public + " train\n"} {
		if err := os.WriteFile(filepath.Join(key, name), []byte(text), 0o444); err != nil { //nolint:gosec // as the kubelet mounts it
			t.Fatal(err)
		}
	}
	if p.Children.KeyPair == "" {
		key = t.TempDir()
	}
	init := p.Inits[0]
	// Without what follows in a launcher, which is to wait for hosts that are not there.
	init.Command[2], _, _ = strings.Cut(init.Command[2], "if ! command -v ssh-keyscan")
	cmd := exec.CommandContext(t.Context(), init.Command[0], init.Command[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "ROLLCALL_DIR=" + dir, "ROLLCALL_ETC=" + dir, "ROLLCALL_KEY=" + key}
	for _, e := range init.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the script: %v\n%s", err, out)
	}
	return dir
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHostfiles(t *testing.T) {
	line := func(form string, names ...string) string {
		var out strings.Builder
		for _, n := range names {
			if n != "train-launcher-0" { // which stands there by its bare hostname
				n += ".train.team.svc.cluster.local"
			}
			fmt.Fprintf(&out, form+"\n", n)
		}
		return out.String()
	}
	eleven := make([]string, 11)
	for i := range eleven {
		eleven[i] = fmt.Sprintf("train-worker-%d", i)
	}
	self := launcher(1)
	self.Launch.Self = true
	alone := launcher(1)
	alone.Members, alone.Launch.Self = alone.Members[:1], true
	for name, c := range map[string]struct {
		reason string
		gang   gang.Gang
		want   []string
	}{
		"one":      {"the smallest", launcher(1), []string{"train-worker-0"}},
		"eleven":   {"worker 10 comes after worker 9, not after worker 1", launcher(11), eleven},
		"launcher": {"the launcher is the first host when it is one", self, []string{"train-launcher-0", "train-worker-0"}},
		"alone":    {"a launcher alone has a hostfile too", alone, []string{"train-launcher-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, hydra := range []bool{false, true} {
				mpi := filepath.Join(prepare(t, ssh.Plan(c.gang, ssh.Options{Hydra: hydra})), "mpi")
				slots, colon := line("%s slots=2", c.want...), line("%s:2", c.want...)
				main := slots
				if hydra {
					main = colon
				}
				for file, want := range map[string]string{"hostfile": main, "hostfile.slots": slots, "hostfile.hydra": colon} {
					if diff := cmp.Diff(want, read(t, mpi, file)); diff != "" {
						t.Errorf("%s: %s (-want +got):\n%s", c.reason, file, diff)
					}
				}
			}
		})
	}
}

// TestHostfileWhole: a ConfigMap could not hold what a gang of this size needs, and
// the script can.
func TestHostfileWhole(t *testing.T) {
	const ranks = 15_000
	dir := prepare(t, ssh.Plan(launcher(ranks), ssh.Options{}))
	lines := strings.Split(strings.TrimSuffix(read(t, dir, "mpi", "hostfile"), "\n"), "\n")
	if len(lines) != ranks {
		t.Fatalf("%d lines for %d ranks", len(lines), ranks)
	}
	for i, l := range lines {
		if want := fmt.Sprintf("train-worker-%d.train.team.svc.cluster.local slots=2", i); l != want {
			t.Fatalf("line %d is %q, want %q", i+1, l, want)
		}
	}
}

func TestPrepareKeys(t *testing.T) {
	dir := prepare(t, ssh.Plan(launcher(2), ssh.Options{}))
	info, err := os.Stat(filepath.Join(dir, "ssh", "id"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has mode %v; ssh refuses one that others can read", info.Mode())
	}
	for file, want := range map[string]string{"ssh/id": "private\n", "ssh/authorized_keys": public + "\n", "ssh/known_hosts": "* " + public + "\n"} {
		if got := read(t, dir, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	entry := regexp.MustCompile(fmt.Sprintf(`(?m)^rollcall:x:%d:%d:.*:/bin/sh$`, os.Getuid(), os.Getgid()))
	if got := read(t, dir, "passwd"); len(entry.FindAllString(got, -1)) == 0 {
		t.Errorf("passwd does not name the user %d:\n%s", os.Getuid(), got)
	}
	for file, want := range map[string]string{
		"ssh_config": "Host *.train.team.svc.cluster.local train-launcher-* train-worker-*\n  Port 2222\n", "sshd_config": "Port 2222\n",
	} {
		if got := read(t, dir, file); !strings.HasPrefix(got, want) {
			t.Errorf("%s does not begin with %q:\n%s", file, want, got)
		}
	}
}

// TestScriptsSurviveExpansion: the kubelet replaces $(NAME) of known variables in a
// command, and $$ by $ (k8s.io/kubernetes/third_party/forked/golang/expansion).
func TestScriptsSurviveExpansion(t *testing.T) {
	p := ssh.Plan(launcher(2), ssh.Options{})
	if len(p.Inits) != 2 {
		t.Fatalf("%d init containers in a launcher, want 2", len(p.Inits))
	}
	for _, init := range p.Inits {
		script := init.Command[2]
		if strings.Contains(script, "$$") {
			t.Errorf("%s: the kubelet would make one $ of two", init.Name)
		}
		for _, e := range init.Env {
			if strings.Contains(script, "$("+e.Name+")") {
				t.Errorf("%s: the kubelet would replace $(%s)", init.Name, e.Name)
			}
		}
	}
}

// TestWatch: what the sidecar leaves when it is told to end.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		reached string
		want    int
	}{
		"none":      {"nobody was called", "", 0},
		"twice":     {"a host that is called again is one host", "train-worker-0.x\ntrain-worker-1.x\ntrain-worker-0.x\n", 2},
		"itself":    {"the launcher's own host is no other", hostname(t) + ".x\n" + hostname(t) + "\n", 0},
		"two names": {"a host that is called by two names is one host", "train-worker-0.x\ntrain-worker-0\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report := filepath.Join(dir, "report")
			if err := os.MkdirAll(filepath.Join(dir, "ssh"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.reached != "" {
				if err := os.WriteFile(filepath.Join(dir, "ssh", "reached"), []byte(c.reached), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := ssh.Plan(launcher(2), ssh.Options{}).Inits[1].Command[2]
			// The script waits for its end in a loop; it is told before the loop begins.
			script = strings.Replace(script, "while :; do", "kill -TERM $PPID_OF_SCRIPT\nwhile :; do", 1)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "PPID_OF_SCRIPT=$$\n"+script)
			cmd.Env = append(os.Environ(), "ROLLCALL_DIR="+dir, "ROLLCALL_REPORT="+report)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got, ok := ssh.Reached(read(t, report)); !ok || got != c.want {
				t.Errorf("%s: reached %d (%v), want %d", c.reason, got, ok, c.want)
			}
		})
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReached(t *testing.T) {
	for message, want := range map[string]int{"reached=0\n": 0, "reached=12": 12} {
		if got, ok := ssh.Reached(message); !ok || got != want {
			t.Errorf("Reached(%q) = %d, %v", message, got, ok)
		}
	}
	for _, message := range []string{"", "reached=", "reached=many", "Killed"} {
		if got, ok := ssh.Reached(message); ok {
			t.Errorf("Reached(%q) = %d, want none", message, got)
		}
	}
}
