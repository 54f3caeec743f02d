package ssh_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/injectors/ssh"
)

// keyscan stands in for ssh-keyscan: host i answers from the ith call on, with the
// gang's key; a stranger answers with another key, always.
const keyscan = `#!/bin/sh
n=$(($(cat "$CALLS" 2>/dev/null || echo 0) + 1))
echo $n >"$CALLS"
for last; do :; done
i=0
while read -r host; do
  case $host in
    *worker-3*) echo "[$host]:2222 ecdsa-sha2-nistp256 AAAAother" ;;
    *) [ $i -ge $n ] || echo "[$host]:2222 ` + public + `" ;;
  esac
  i=$((i + 1))
done <"$last"
`

// tools are the places where a shell and its programs are found: the machine's own, and
// those of BusyBox, which Alpine has.
func tools(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"the machine's": "/usr/bin:/bin"}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Log("no busybox on this machine: its shell and its awk are not tried")
		return out
	}
	dir := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), busybox, "--install", "-s", dir).CombinedOutput(); err != nil {
		t.Fatalf("installing busybox: %v\n%s", err, text)
	}
	out["busybox's"] = dir
	return out
}

// TestWait: the launcher's script returns when all hosts answered with the gang's key,
// and not before; one that never does is named.
func TestWait(t *testing.T) {
	for name, path := range tools(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				reason  string
				workers int32
				within  string
				code    int
				says    string
			}{
				{"they come one after the other", 3, "60", 0, "3 of 3 hosts answer"},
				{"the fourth has another gang's key", 4, "6", 1, "train-worker-3.train.team"},
			} {
				p := ssh.Plan(launcher(c.workers), ssh.Options{})
				dir, key, bin := t.TempDir(), t.TempDir(), t.TempDir()
				write(t, filepath.Join(bin, "ssh-keyscan"), keyscan, 0o755)
				write(t, filepath.Join(key, ssh.PrivateKey), "private\n", 0o444)
				write(t, filepath.Join(key, ssh.PublicKey), public+" train\n", 0o444)
				script := strings.ReplaceAll(p.Inits[0].Command[2], "/dev/termination-log", filepath.Join(dir, "end"))
				cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
				cmd.Path = filepath.Join(strings.Split(path, ":")[0], "sh")
				cmd.Env = []string{"PATH=" + bin + ":" + path, "CALLS=" + filepath.Join(dir, "calls"), "ROLLCALL_DIR=" + dir, "ROLLCALL_ETC=" + dir, "ROLLCALL_KEY=" + key}
				for _, e := range p.Inits[0].Env {
					if e.Name == "ROLLCALL_WAIT" {
						e.Value = c.within
					}
					cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
				}
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.says) {
					t.Errorf("%s: %v, want code %d and %q:\n%s", c.reason, err, c.code, c.says, out)
				}
				if c.code == 0 && read(t, dir, "calls") != "2\n" {
					t.Errorf("%s: it looked %s times, want 2", c.reason, strings.TrimSpace(read(t, dir, "calls")))
				}
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
