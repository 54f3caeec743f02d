package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// isRunning reports whether a process exists that is not a zombie.
func isRunning(id int) bool {
	for _, p := range listProcesses() {
		if p.id == id {
			return !p.isZombie
		}
	}
	return false
}

// waitForPID returns the process ID that a command writes to a file.
func waitForPID(t *testing.T, path string) int {
	t.Helper()
	id := 0
	waitFor(t, "the command writes its process ID", func() bool {
		text, _ := os.ReadFile(path)
		id, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return id > 0
	})
	return id
}

// leftOvers is a command with processes that survive a signal to the process group of the command. Each writes its
// process ID to a file in the directory.
func leftOvers(dir string) string {
	return fmt.Sprintf(`cd %s
sleep 601 & echo $! >same-group
setsid sh -c 'echo $$ >own-session; exec sleep 602' &
python3 -c 'import os, time; os.setpgid(0, 0); open("own-group", "w").write(str(os.getpid())); time.sleep(603)' &
sh -c 'trap "" TERM HUP; echo $$ >ignores-signals; while :; do sleep 1; done' &
echo $$ >root
wait`, dir)
}

var leftOverFiles = []string{"root", "same-group", "own-session", "own-group", "ignores-signals"}

// TestLeftOverProcesses checks that all processes of a command die with the connection, whichever side ends it.
func TestLeftOverProcesses(t *testing.T) {
	for name, end := range map[string]func(p *pod, client *exec.Cmd) error{
		"the client is killed":   func(_ *pod, client *exec.Cmd) error { return client.Process.Kill() },
		"the server terminates":  func(p *pod, _ *exec.Cmd) error { return p.server.Process.Signal(syscall.SIGTERM) },
		"the client gets SIGINT": func(_ *pod, client *exec.Cmd) error { return client.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := newPod(t, newKeyPEM(t)), t.TempDir()
			p.serve(t)
			client := p.command(t, "exec", host, leftOvers(dir))
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			var ids []int
			for _, file := range leftOverFiles {
				ids = append(ids, waitForPID(t, filepath.Join(dir, file)))
			}
			if err := end(p, client); err != nil {
				t.Fatal(err)
			}
			_ = client.Wait() // the exit code depends on the case
			for i, id := range ids {
				isOwnSession := leftOverFiles[i] == "own-session"
				if isOwnSession && name == "the client gets SIGINT" {
					_ = syscall.Kill(id, syscall.SIGKILL) // the command ended by itself, and its daemon continues
					continue
				}
				waitFor(t, leftOverFiles[i]+" terminates", func() bool { return !isRunning(id) })
			}
		})
	}
}

// TestDaemon checks that a process with a session of its own survives the command that started it, as with ssh. Open
// MPI 4 starts its daemons in this way if it does not use a tree.
func TestDaemon(t *testing.T) {
	p, file := newPod(t, newKeyPEM(t)), filepath.Join(t.TempDir(), "pid")
	p.serve(t)
	got := p.run(t, nil, host, "setsid sh -c 'echo $$ >"+file+"; exec sleep 604' </dev/null >/dev/null 2>&1 &")
	if got.code != 0 {
		t.Fatalf("the command returned %+v", got)
	}
	id := waitForPID(t, file)
	if got := p.run(t, nil, host, "true"); got.code != 0 || !isRunning(id) {
		t.Errorf("the daemon does not run after %+v", got)
	}
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The agent is the parent of the daemon now.
	waitFor(t, "the agent collects the daemon", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", id))
		return os.IsNotExist(err)
	})
}

// TestSignals checks that the client forwards signals to the command and returns the exit code of its handler.
func TestSignals(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	for i, number := range forwardedSignals {
		ready := filepath.Join(t.TempDir(), "ready")
		script := fmt.Sprintf("trap 'exit %d' %d; echo $$ >%s; while :; do sleep 0.1; done", 10+i, number, ready)
		client := p.command(t, "exec", host, script)
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		waitForPID(t, ready)
		if err := client.Process.Signal(number); err != nil {
			t.Fatal(err)
		}
		if _ = client.Wait(); client.ProcessState.ExitCode() != 10+i {
			t.Errorf("%s: exit code %d, want %d", number, client.ProcessState.ExitCode(), 10+i)
		}
	}
}

// TestUnreachableHost checks that the client returns the exit code of ssh and the reason.
func TestUnreachableHost(t *testing.T) {
	p := newPod(t, newKeyPEM(t)) // without a server
	got := p.run(t, nil, host, "true")
	if got.code != exitUnreachable || !strings.Contains(got.stderr, "connecting to host "+host) ||
		!strings.Contains(got.stderr, "connection refused") {
		t.Errorf("an unreachable host returned %+v", got)
	}
}

// TestPausedPeer checks that each side ends a command if the other side is stopped, although its kernel still
// acknowledges everything.
func TestPausedPeer(t *testing.T) {
	const shortTimeout = envTestProgram + "=5s" // a loaded machine starts a command within it
	p := newPod(t, newKeyPEM(t))
	p.env = []string{shortTimeout}
	p.serve(t)
	for name, isServer := range map[string]bool{"the server is stopped": true, "the client is stopped": false} {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			stdout, err := os.Create(pidFile) // output shows that the client has the answer to its request
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdout.Close() }()
			client := p.command(t, "exec", host, "echo $$; exec sleep 605")
			client.Env = append(client.Env, shortTimeout)
			var stderr strings.Builder
			client.Stdout, client.Stderr = stdout, &stderr
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			id, stopped := waitForPID(t, pidFile), client.Process
			if isServer {
				stopped = p.server.Process
			}
			if err := stopped.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if isServer {
				_ = client.Wait()
			} else {
				waitFor(t, "the command terminates", func() bool { return !isRunning(id) })
			}
			if err := stopped.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = client.Wait() // the exit code follows
			if code := client.ProcessState.ExitCode(); code != exitUnreachable ||
				!strings.Contains(stderr.String(), "the connection to host "+host+" ended") {
				t.Errorf("the client returned %d and wrote %q", code, stderr.String())
			}
			waitFor(t, "the command terminates", func() bool { return !isRunning(id) })
		})
	}
}

// TestUnansweredRequest checks that a client connects again to a server that has not authenticated it, but sends a
// command only once, because a server that does not answer may run it.
func TestUnansweredRequest(t *testing.T) {
	i := newIdentity(t, newKeyPEM(t))
	listener, err := tls.Listen("tcp", "127.0.0.1:0", i.newTLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var connections, requests atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p := &peer{conn: conn}
			if connections.Add(1) == 1 {
				_ = conn.(*tls.Conn).Handshake() // the client cannot know whether the server has completed it
			} else if p.write(frameReady, nil) == nil {
				if kind, _, err := p.read(handshakeTimeout); err == nil && kind == frameRequest {
					requests.Add(1)
				}
			}
			_ = conn.Close()
		}
	}()
	c := &client{config: config{Port: listener.Addr().(*net.TCPAddr).Port}, tls: i.newTLSConfig()}
	_, err = c.connectWithRetries(t.Context(), execution{host: host, command: []byte("true")})
	if !errors.Is(err, errNoAnswer) || requests.Load() != 1 || connections.Load() != 2 {
		t.Errorf("%d requests on %d connections, %v, want one on the second and %v",
			requests.Load(), connections.Load(), err, errNoAnswer)
	}
}
