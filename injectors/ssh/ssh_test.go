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

const testPublicKey = "ecdsa-sha2-nistp256 AAAApublic"

// newLauncherGang returns the launcher of a gang with the given number of workers.
func newLauncherGang(workers int32) gang.Gang {
	return gang.Gang{
		Name: "train", Namespace: "team", Role: gang.RoleLauncher, WorkloadName: "train-launcher",
		ServiceName: "train", ClusterDomain: "cluster.local", Port: ssh.Port,
		Members: []gang.Member{
			{Role: gang.RoleLauncher, WorkloadName: "train-launcher", Size: 1},
			{Role: "worker", WorkloadName: "train-worker", Size: workers},
		},
		Launcher: gang.Launcher{MPI: gang.OpenMPI, SlotsPerWorker: 2},
	}
}

// runSetupScript runs the script of the setup container as the kubelet does, without the part that
// waits for hosts. It returns the directory that contains all output of the script.
func runSetupScript(t *testing.T, p plan.Plan) string {
	t.Helper()
	dir, key := t.TempDir(), t.TempDir()
	if p.Children.KeyPairSecret != "" {
		writeKeyPair(t, key, testPublicKey+" train\n")
	}
	if out, err := newSetupCommand(t, p, "/usr/bin:/bin", dir, key).CombinedOutput(); err != nil {
		t.Fatalf("running the setup script: %v\n%s", err, out)
	}
	return dir
}

// newSetupCommand returns the command of the setup container without the part that waits for hosts.
// path is the search path for programs; dir and key are the directories of the output and of the keys.
func newSetupCommand(t *testing.T, p plan.Plan, path, dir, key string) *exec.Cmd {
	t.Helper()
	setup := p.InitContainers[0]
	script, _, _ := strings.Cut(setup.Command[2], "if ! command -v ssh-keyscan")
	shell, err := exec.LookPath(filepath.Join(strings.Split(path, ":")[0], "sh"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shell, setup.Command[1], script)
	cmd.Env = append(scriptDirEnv(dir, key), "PATH="+path)
	for _, e := range setup.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	return cmd
}

// writeKeyPair writes the files of the key pair as the kubelet mounts them.
func writeKeyPair(t *testing.T, dir, publicKey string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, ssh.PrivateKey), "private\n", 0o444)
	writeFile(t, filepath.Join(dir, ssh.PublicKey), publicKey, 0o444)
}

// scriptDirEnv returns the variables that redirect the output of the scripts to dir.
func scriptDirEnv(dir, key string) []string {
	return []string{"ROLLCALL_DIR=" + dir, "ROLLCALL_CONFIG_DIR=" + dir, "ROLLCALL_KEY_DIR=" + key}
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHostfiles(t *testing.T) {
	formatHosts := func(format string, names ...string) string {
		var out strings.Builder
		for _, name := range names {
			if name != "train-launcher-0" { // listed by its bare hostname
				name += ".train.team.svc.cluster.local"
			}
			fmt.Fprintf(&out, format+"\n", name)
		}
		return out.String()
	}
	elevenWorkers := make([]string, 11)
	for i := range elevenWorkers {
		elevenWorkers[i] = fmt.Sprintf("train-worker-%d", i)
	}
	launcherIsHost := newLauncherGang(1)
	launcherIsHost.Launcher.RunAsWorker = true
	launcherOnly := newLauncherGang(1)
	launcherOnly.Members, launcherOnly.Launcher.RunAsWorker = launcherOnly.Members[:1], true
	for name, c := range map[string]struct {
		gang gang.Gang
		want []string
	}{
		"one worker": {
			gang: newLauncherGang(1),
			want: []string{"train-worker-0"},
		},
		"worker 10 follows worker 9 instead of worker 1": {
			gang: newLauncherGang(11),
			want: elevenWorkers,
		},
		"a launcher that is a host is the first host": {
			gang: launcherIsHost,
			want: []string{"train-launcher-0", "train-worker-0"},
		},
		"a launcher without workers has a hostfile as well": {
			gang: launcherOnly,
			want: []string{"train-launcher-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, hydra := range []bool{false, true} {
				dir := filepath.Join(runSetupScript(t, ssh.Plan(c.gang, ssh.Options{HydraHostfile: hydra})), "mpi")
				slotsFormat, hydraFormat := formatHosts("%s slots=2", c.want...), formatHosts("%s:2", c.want...)
				hostfile := slotsFormat
				if hydra {
					hostfile = hydraFormat
				}
				for file, want := range map[string]string{
					"hostfile":       hostfile,
					"hostfile.slots": slotsFormat,
					"hostfile.hydra": hydraFormat,
				} {
					if diff := cmp.Diff(want, readFile(t, dir, file)); diff != "" {
						t.Errorf("%s with HydraHostfile = %t differs (-want +got):\n%s", file, hydra, diff)
					}
				}
			}
		})
	}
}

// TestHostfileOfLargeGang writes a hostfile that would exceed the size limit of a ConfigMap.
func TestHostfileOfLargeGang(t *testing.T) {
	const ranks = 15_000
	dir := runSetupScript(t, ssh.Plan(newLauncherGang(ranks), ssh.Options{}))
	lines := strings.Split(strings.TrimSuffix(readFile(t, dir, "mpi", "hostfile"), "\n"), "\n")
	if len(lines) != ranks {
		t.Fatalf("the hostfile has %d lines, want %d", len(lines), ranks)
	}
	for i, line := range lines {
		if want := fmt.Sprintf("train-worker-%d.train.team.svc.cluster.local slots=2", i); line != want {
			t.Fatalf("line %d is %q, want %q", i+1, line, want)
		}
	}
}

func TestSetupKeys(t *testing.T) {
	dir := runSetupScript(t, ssh.Plan(newLauncherGang(2), ssh.Options{}))
	info, err := os.Stat(filepath.Join(dir, "ssh", "id"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has mode %v, want 0600, because ssh rejects a key that others can read", info.Mode())
	}
	for file, want := range map[string]string{
		"ssh/id":              "private\n",
		"ssh/authorized_keys": "restrict,pty " + testPublicKey + "\n",
		"ssh/known_hosts":     "* " + testPublicKey + "\n",
	} {
		if got := readFile(t, dir, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	entry := regexp.MustCompile(fmt.Sprintf(`(?m)^rollcall:x:%d:%d:.*:/bin/sh$`, os.Getuid(), os.Getgid()))
	if got := readFile(t, dir, "passwd"); len(entry.FindAllString(got, -1)) == 0 {
		t.Errorf("passwd has no entry rollcall of user %d:\n%s", os.Getuid(), got)
	}
	for file, want := range map[string]string{
		"ssh_config":  "Host *.train.team.svc.cluster.local train-launcher-* train-worker-*\n  Port 2222\n",
		"sshd_config": "Port 2222\n",
	} {
		if got := readFile(t, dir, file); !strings.HasPrefix(got, want) {
			t.Errorf("%s does not start with %q:\n%s", file, want, got)
		}
	}
}

// TestForeignPublicKey checks that only a public key of the type that Rollcall creates becomes part of
// the configuration. Anybody who may create Secrets can write the text.
func TestForeignPublicKey(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "executed")
	for name, publicKey := range map[string]string{
		"command substitution in the key":  "ecdsa-sha2-nistp256 AAAA$(touch${IFS}" + marker + ")\n",
		"quoted command substitution":      `ecdsa-sha2-nistp256 AAAA"$(touch${IFS}` + marker + `)"` + "\n",
		"command substitution in the type": "$(touch${IFS}" + marker + ") AAAA\n",
		"options of authorized_keys":       `command="touch ` + marker + `" ecdsa-sha2-nistp256 AAAA` + "\n",
		"a key in the second line":         "\n" + testPublicKey + "\n",
		"another type":                     "ssh-ed25519 AAAA\n",
		"a type without a key":             "ecdsa-sha2-nistp256\n",
		"an empty file":                    "",
	} {
		for shell, path := range shellSearchPaths(t) {
			t.Run(name+" in the "+shell, func(t *testing.T) {
				dir, key := t.TempDir(), t.TempDir()
				writeKeyPair(t, key, publicKey)
				cmd := newSetupCommand(t, ssh.Plan(newLauncherGang(2), ssh.Options{}), path, dir, key)
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "delete the Secret") {
					t.Errorf("error %v, want one with the advice to delete the Secret:\n%s", err, out)
				}
				for _, file := range []string{"authorized_keys", "known_hosts", "responding"} {
					if text, err := os.ReadFile(filepath.Join(dir, "ssh", file)); err == nil {
						t.Errorf("%s exists:\n%s", file, text)
					}
				}
				if _, err := os.Stat(marker); err == nil {
					t.Error("the text of the Secret was executed")
				}
			})
		}
	}
}

// TestSecretInNoScript checks that even a valid key is data of the scripts and not part of them.
func TestSecretInNoScript(t *testing.T) {
	dir := filepath.Join(runSetupScript(t, ssh.Plan(newLauncherGang(2), ssh.Options{})), "ssh")
	for _, script := range []string{"responding", "sshd", "session"} {
		if text := readFile(t, dir, script); strings.Contains(text, "AAAApublic") {
			t.Errorf("%s contains the public key:\n%s", script, text)
		}
	}
}

// TestServerForwardsNothing checks that sshd starts the processes of a gang and is no way into the
// network of its pods.
func TestServerForwardsNothing(t *testing.T) {
	config := readFile(t, runSetupScript(t, ssh.Plan(newLauncherGang(2), ssh.Options{})), "sshd_config")
	for _, option := range []string{
		"AllowTcpForwarding", "AllowStreamLocalForwarding", "AllowAgentForwarding", "X11Forwarding", "PermitTunnel",
		"PermitUserRC", "PasswordAuthentication",
	} {
		if !strings.Contains(config, "\n"+option+" no\n") {
			t.Errorf("sshd_config does not contain %q:\n%s", option+" no", config)
		}
	}
}

// TestScriptsSurviveExpansion checks for text that the kubelet would expand in a command: $(NAME) of
// a known variable, and $$ (k8s.io/kubernetes/third_party/forked/golang/expansion).
func TestScriptsSurviveExpansion(t *testing.T) {
	p := ssh.Plan(newLauncherGang(2), ssh.Options{})
	if len(p.InitContainers) != 2 {
		t.Fatalf("a launcher has %d init containers, want 2", len(p.InitContainers))
	}
	for _, container := range p.InitContainers {
		script := container.Command[2]
		if strings.Contains(script, "$$") {
			t.Errorf("%s: the script contains $$, which the kubelet replaces with $", container.Name)
		}
		for _, e := range container.Env {
			if strings.Contains(script, "$("+e.Name+")") {
				t.Errorf("%s: the script contains $(%s), which the kubelet expands", container.Name, e.Name)
			}
		}
	}
}

// TestMonitorScript checks the report that the sidecar writes on termination.
func TestMonitorScript(t *testing.T) {
	for name, c := range map[string]struct {
		reached string
		want    int
	}{
		"the launcher connected to no host": {
			reached: "",
			want:    0,
		},
		"two connections to a host count once": {
			reached: "train-worker-0.x\ntrain-worker-1.x\ntrain-worker-0.x\n",
			want:    2,
		},
		"the launcher's own host does not count": {
			reached: localHostname(t) + ".x\n" + localHostname(t) + "\n",
			want:    0,
		},
		"a host with two names counts once": {
			reached: "train-worker-0.x\ntrain-worker-0\n",
			want:    1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report := filepath.Join(dir, "report")
			if err := os.MkdirAll(filepath.Join(dir, "ssh"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.reached != "" {
				writeFile(t, filepath.Join(dir, "ssh", "reached"), c.reached, 0o600)
			}
			script := ssh.Plan(newLauncherGang(2), ssh.Options{}).InitContainers[1].Command[2]
			// The script sends the signal to itself, because it would otherwise wait in its loop.
			script = strings.Replace(script, "while :; do", "kill -TERM $SCRIPT_PID\nwhile :; do", 1)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "SCRIPT_PID=$$\n"+script)
			cmd.Env = append(os.Environ(), "ROLLCALL_DIR="+dir, "ROLLCALL_REPORT="+report)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("running the monitor script: %v\n%s", err, out)
			}
			if got, ok := ssh.ParseReachedHosts(readFile(t, report)); !ok || got != c.want {
				t.Errorf("ParseReachedHosts = %d, %t, want %d", got, ok, c.want)
			}
		})
	}
}

func localHostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestParseReachedHosts(t *testing.T) {
	for message, want := range map[string]int{"reached=0\n": 0, "reached=12": 12} {
		if got, ok := ssh.ParseReachedHosts(message); !ok || got != want {
			t.Errorf("ParseReachedHosts(%q) = %d, %t, want %d", message, got, ok, want)
		}
	}
	for _, message := range []string{"", "reached=", "reached=many", "Killed"} {
		if got, ok := ssh.ParseReachedHosts(message); ok {
			t.Errorf("ParseReachedHosts(%q) = %d, want an invalid message", message, got)
		}
	}
}
