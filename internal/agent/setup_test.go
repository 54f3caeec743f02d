package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// newSetupPod returns a pod of a launcher whose containers get the variables of a gang with two workers.
func newSetupPod(t *testing.T, key []byte) (*pod, []string) {
	t.Helper()
	p := newPod(t, key)
	if err := os.MkdirAll(filepath.Join(p.root, SetupDir), 0o755); err != nil {
		t.Fatal(err)
	}
	return p, []string{
		EnvHosts + "=train-worker 0 1", EnvDomain + "=train.ns.svc.cluster.local", EnvSlots + "=4",
		EnvLauncherIsHost + "=false", EnvFormat + "=slots", EnvPort + "=" + strconv.Itoa(p.port),
		EnvWorkload + "=train-launcher", EnvRankOffset + "=0",
	}
}

// TestSetup checks the files that the containers of a pod get.
func TestSetup(t *testing.T) {
	const first, second = "train-worker-0.train.ns.svc.cluster.local", "train-worker-1.train.ns.svc.cluster.local"
	for name, c := range map[string]struct {
		env       []string
		want      map[string]string
		isMounted bool
	}{
		"a pod that mounts the image": {env: []string{EnvIsMounted + "=true"}, isMounted: true},
		"Open MPI": {
			want: map[string]string{
				"hosts":          first + "\n" + second + "\n",
				"hostfile":       first + " slots=4\n" + second + " slots=4\n",
				"hostfile.hydra": first + ":4\n" + second + ":4\n",
				"candidates":     first + "\n" + second + "\n",
			},
		},
		"Hydra": {
			env:  []string{EnvFormat + "=hydra"},
			want: map[string]string{"hostfile": first + ":4\n" + second + ":4\n"},
		},
		"a launcher that is a host has a bare name": {
			env: []string{EnvLauncherIsHost + "=true", EnvHosts + "=train-launcher 0 0\ntrain-worker 0 0"},
			want: map[string]string{
				"hosts":      "train-launcher-0\n" + first + "\n",
				"candidates": "train-launcher-0.train.ns.svc.cluster.local\n" + first + "\n",
			},
		},
		"an elastic gang": {
			env: []string{EnvHosts + "=train-worker 0 0", EnvMaxHosts + "=train-worker 0 1"},
			want: map[string]string{
				"hosts":      first + "\n",
				"candidates": first + "\n" + second + "\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, env := newSetupPod(t, newKeyPEM(t))
			cmd := p.command(t, "setup")
			cmd.Env = append(append(cmd.Env, env...), c.env...)
			for range 2 { // an init container can run again
				run := *cmd
				if got := runProgram(t, &run, nil); got.code != 0 {
					t.Fatalf("the setup returned %+v", got)
				}
			}
			dir := filepath.Join(p.root, SetupDir)
			for file, want := range c.want {
				if text, err := os.ReadFile(filepath.Join(dir, HostsSubdir, file)); string(text) != want {
					t.Errorf("%s contains %q, %v, want %q", file, text, err, want)
				}
			}
			if target, err := os.Readlink(filepath.Join(dir, HostsSubdir, remoteShellName)); target != Program {
				t.Errorf("the remote shell is a link to %q, %v, want %q", target, err, Program)
			}
			info, err := os.Stat(filepath.Join(dir, ProgramSubdir, programName))
			if os.IsNotExist(err) != c.isMounted || err == nil && info.Mode() != 0o755 {
				t.Errorf("the program is %+v, %v", info, err)
			}
			for path, want := range map[string]os.FileMode{
				filepath.Join(HostsSubdir, configName):                 0o644,
				filepath.Join(HostsSubdir, "discover_hosts.sh"):        0o755,
				filepath.Join(ReportSubdir) + string(os.PathSeparator): os.ModeDir | 0o777,
			} {
				info, err := os.Stat(filepath.Join(dir, path))
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode() != want {
					t.Errorf("%s has the mode %s, want %s", path, info.Mode(), want)
				}
			}
		})
	}
}

// TestSetupReportsMistakes checks that the message of a failed setup names the mistake.
func TestSetupReportsMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		key  string
		env  []string
		want string
	}{
		"a host that does not respond": {
			env:  []string{EnvHosts + "=127.0.0 1 1", EnvDomain + "=invalid", EnvMinHosts + "=1", EnvWaitSeconds + "=1"},
			want: "1 of 1 hosts do not respond after 1 s, starting with: 127.0.0-1.invalid",
		},
		"a Secret of somebody else": {
			key:  "not a key",
			env:  []string{EnvMinHosts + "=1"},
			want: "delete the Secret",
		},
		"hosts without an index": {
			env:  []string{EnvHosts + "=train-worker"},
			want: "parsing the hosts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := newKeyPEM(t)
			if c.key != "" {
				key = []byte(c.key)
			}
			p, env := newSetupPod(t, key)
			cmd := p.command(t, "setup")
			cmd.Env = append(append(cmd.Env, env...), c.env...)
			got := runProgram(t, cmd, nil)
			message, _ := os.ReadFile(filepath.Join(p.root, terminationMessagePath))
			if got.code != 1 || !strings.Contains(string(message), c.want) || !strings.Contains(got.stderr, c.want) {
				t.Errorf("the setup returned %+v with the message %q, want %q", got, message, c.want)
			}
		})
	}
}

// TestWaitForHosts checks that only hosts that did not respond are asked again.
func TestWaitForHosts(t *testing.T) {
	calls := map[string]int{}
	responds := func(_ context.Context, host string) error {
		if calls[host]++; host == "late" && calls[host] == 1 {
			return errors.New("not yet")
		}
		return nil
	}
	var out strings.Builder
	// One host at a time, because the function is not safe for concurrent use.
	for _, hosts := range [][]string{{"early"}, {"late"}} {
		if err := waitForHosts(t.Context(), &out, hosts, 1, probeInterval*2, responds); err != nil {
			t.Fatal(err)
		}
	}
	if calls["early"] != 1 || calls["late"] != 2 {
		t.Errorf("hosts were asked %v times, want early once and late twice", calls)
	}
	if !strings.Contains(out.String(), "1 of 1 hosts do not respond after 0 s, starting with: late (not yet)") {
		t.Errorf("the progress is missing in %q", out.String())
	}
}

// TestListHosts checks that elastic launchers get the hosts that respond, and their own host without a question.
func TestListHosts(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	c := config{Port: p.port, Workload: "train-worker", Slots: "3", LauncherIsHost: true}
	if err := c.save(filepath.Join(p.root, HostsDir, configName)); err != nil {
		t.Fatal(err)
	}
	candidates := "train-launcher-0.invalid\n127.0.0.1\nabsent.invalid\n"
	if err := os.WriteFile(filepath.Join(p.root, HostsDir, candidatesName), []byte(candidates), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runProgram(t, p.command(t, "hosts"), nil)
	if want := "train-launcher-0.invalid:3\n127.0.0.1:3\n"; got.stdout != want {
		t.Errorf("the hosts are %+v, want %q", got, want)
	}
}

// TestReachedHosts checks that the monitor reports the hosts that the launcher reached.
func TestReachedHosts(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	for range 2 {
		p.run(t, nil, host, "true")
	}
	t.Setenv(envRoot, p.root)
	terminated, terminate := context.WithCancel(t.Context())
	terminate()
	if err := monitor(terminated); err != nil {
		t.Fatal(err)
	}
	message := filepath.Join(p.root, terminationMessagePath)
	if text, err := os.ReadFile(message); string(text) != "reached=1\n" {
		t.Errorf("the report is %q, %v, want one host", text, err)
	}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[string]int{
		"":                                0,
		"w-0.train\nw-1.train\nw-0.train": 2,
		"w-0\nw-0.train":                  1,
		own + ".train\n" + own:            0,
	} {
		if got := countHosts(lines); got != want {
			t.Errorf("countHosts(%q) = %d, want %d", lines, got, want)
		}
	}
}
