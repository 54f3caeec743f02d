package agent

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envTestProgram makes the test binary the program. Its value is [peerTimeout].
const envTestProgram = "ROLLCALL_TEST_AGENT"

func TestMain(m *testing.M) {
	if timeout, err := time.ParseDuration(os.Getenv(envTestProgram)); err == nil {
		peerTimeout = timeout
		//nolint:forbidigo // the program has no caller
		os.Exit(Main(context.Background(), append([]string{"agent"}, os.Args[1:]...)))
	}
	os.Exit(m.Run())
}

// pod is the root directory of a pod, with the processes of the agent in it.
type pod struct {
	root string
	port int
	// env are variables of the programs in addition to those of the test.
	env []string
	// server is the running server.
	server *exec.Cmd
	log    *bytes.Buffer
}

// newKeyPEM returns a new private key in the format of the Secret.
func newKeyPEM(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// newPod returns a worker of a gang with a key.
func newPod(t *testing.T, key []byte) *pod {
	t.Helper()
	p := &pod{root: t.TempDir(), port: findFreePort(t), log: &bytes.Buffer{}}
	for _, dir := range []string{ProgramDir, KeyDir, HostsDir, ReportDir, "dev"} {
		if err := os.MkdirAll(filepath.Join(p.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.root, KeyDir, privateKeyFile), key, 0o444); err != nil {
		t.Fatal(err)
	}
	c := config{Port: p.port, Workload: "train-worker", Slots: "2"}
	if err := c.save(filepath.Join(p.root, HostsDir, configName)); err != nil {
		t.Fatal(err)
	}
	return p
}

func findFreePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// command returns the program with arguments in the pod.
func (p *pod) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(),
		envTestProgram+"="+peerTimeout.String(), envRoot+"="+p.root, envAttempt+"=", envRank+"=0")
	return cmd
}

// serve starts the server and waits until it listens.
func (p *pod) serve(t *testing.T) {
	t.Helper()
	p.server = p.command(t, "serve")
	p.server.Env = append(p.server.Env, p.env...)
	p.server.Stderr = p.log
	if err := p.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.server.Process.Signal(syscall.SIGTERM)
		_ = p.server.Wait()
	})
	waitFor(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", p.address())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (p *pod) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 1200 {
		if condition() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("a minute has passed without: %s", what)
}

// host is the address of each pod. The name of the pod with rank 0 is train-worker-0.
const host = "127.0.0.1"

// outcome is what a command returned.
type outcome struct {
	stdout, stderr string
	code           int
}

// run runs a remote command and returns its outcome.
func (p *pod) run(t *testing.T, stdin io.Reader, args ...string) outcome {
	t.Helper()
	return runProgram(t, p.command(t, append([]string{"exec"}, args...)...), stdin)
}

func runProgram(t *testing.T, cmd *exec.Cmd, stdin io.Reader) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}
