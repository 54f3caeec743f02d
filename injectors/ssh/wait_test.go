package ssh_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/injectors/ssh"
)

// fakeSSHKeyscan replaces ssh-keyscan. The remaining hosts of a file respond one after the other:
// call n returns the key of the gang for the first n hosts. Worker 3 always returns a different key.
const fakeSSHKeyscan = `#!/bin/sh
n=$(($(cat "$CALLS" 2>/dev/null || echo 0) + 1))
echo $n >"$CALLS"
for last; do :; done
i=0
while read -r host; do
  case $host in
    *worker-3*) echo "[$host]:2222 ecdsa-sha2-nistp256 AAAAother" ;;
    *) [ $i -ge $n ] || echo "[$host]:2222 ` + testPublicKey + `" ;;
  esac
  i=$((i + 1))
done <"$last"
`

// shellSearchPaths returns the search paths of the shells to test: the shell of this machine, and
// BusyBox, which Alpine images use, if it is installed.
func shellSearchPaths(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"shell of the machine": "/usr/bin:/bin"}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Log("BusyBox is not installed, so its shell and its awk are not tested")
		return out
	}
	dir := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), busybox, "--install", "-s", dir).CombinedOutput(); err != nil {
		t.Fatalf("installing busybox: %v\n%s", err, text)
	}
	out["BusyBox"] = dir
	return out
}

// TestWaitScript checks that the launcher waits until all hosts respond with the key of the gang, and
// that it reports a host that never does.
func TestWaitScript(t *testing.T) {
	for shell, path := range shellSearchPaths(t) {
		for name, c := range map[string]struct {
			workers     int32
			waitSeconds string
			wantCode    int
			wantOutput  string
		}{
			"hosts respond one after the other": {
				workers:     3,
				waitSeconds: "60",
				wantCode:    0,
				wantOutput:  "3 of 3 hosts respond",
			},
			"the fourth host has the key of another gang": {
				workers:     4,
				waitSeconds: "6",
				wantCode:    1,
				wantOutput:  "train-worker-3.train.team",
			},
		} {
			t.Run(shell+"/"+name, func(t *testing.T) {
				dir, key, bin := t.TempDir(), t.TempDir(), t.TempDir()
				writeFile(t, filepath.Join(bin, "ssh-keyscan"), fakeSSHKeyscan, 0o755)
				writeKeyPair(t, key, testPublicKey+" train\n")
				calls := filepath.Join(dir, "calls")
				setup := ssh.Plan(newLauncherGang(c.workers), ssh.Options{}).InitContainers[0]
				script := strings.ReplaceAll(setup.Command[2], "/dev/termination-log", filepath.Join(dir, "termination-log"))
				cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
				cmd.Path = filepath.Join(strings.Split(path, ":")[0], "sh")
				cmd.Env = append(scriptDirEnv(dir, key), "PATH="+bin+":"+path, "CALLS="+calls)
				for _, e := range setup.Env {
					if e.Name == "ROLLCALL_WAIT_SECONDS" {
						e.Value = c.waitSeconds
					}
					cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
				}
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState.ExitCode() != c.wantCode || !strings.Contains(string(out), c.wantOutput) {
					t.Errorf("the script returned %v, want code %d and the output %q:\n%s", err, c.wantCode, c.wantOutput, out)
				}
				if c.wantCode == 0 && readFile(t, calls) != "2\n" {
					t.Errorf("the script queried the hosts %s times, want 2", strings.TrimSpace(readFile(t, calls)))
				}
			})
		}
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
