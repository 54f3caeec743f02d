package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// attackTimeVariable is the duration of [TestAttackClients], such as 3m.
	attackTimeVariable = "ATTACK_TIME"
	// attackRoleVariable makes this program the server of the test, or the attackers of the server with this address.
	attackRoleVariable = "ROLLCALL_TEST_ATTACK_ROLE"
	// attackers is the number of attacking clients, which have addresses of a network of their own.
	attackers         = 1000
	attackerAddresses = 50
	// maxServerMemory is the limit of the chart.
	maxServerMemory = 512 << 20
)

// attacks are what a client does on a new connection until it is closed.
var attacks = []struct {
	name   string
	weight int // in percent of the clients
	plain  bool
	run    func(net.Conn)
}{
	{name: "half-open connection", weight: 25, plain: true, run: func(conn net.Conn) {
		_, _ = conn.Write([]byte{0x16, 0x03}) // the beginning of a handshake
		waitUntilClosed(conn)
	}},
	{name: "slow body", weight: 30, run: func(conn net.Conn) {
		sendRequest(conn, small, 5000)
		waitUntilClosed(conn)
	}},
	{name: "almost complete body", weight: 20, run: func(conn net.Conn) {
		sendRequest(conn, almostComplete, maxRequestBytes)
		waitUntilClosed(conn)
	}},
	{name: "large header", weight: 5, run: func(conn net.Conn) {
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: rollcall\r\nX: ", MutatePath)
		for range 1000 {
			if _, err := io.WriteString(conn, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
		waitUntilClosed(conn)
	}},
	{name: "too large request", weight: 10, run: func(conn net.Conn) {
		sendRequest(conn, tooLarge, len(tooLarge))
		waitUntilClosed(conn)
	}},
	{name: "flood", weight: 10, run: func(conn net.Conn) {
		reader := bufio.NewReader(conn)
		for i := 0; ; i++ {
			text := small
			if i%10 == 0 {
				text = large
			}
			sendRequest(conn, text, len(text))
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}},
}

func waitUntilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func sendRequest(conn net.Conn, text string, length int) {
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: rollcall\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", MutatePath, length, text)
}

var (
	small          = newTestReview(admissionv1.Create, "{}")
	large          = newLargeReview(500 << 10)
	almostComplete = newLargeReview(maxRequestBytes - 1000)
	tooLarge       = newLargeReview(3 << 20)
)

func newLargeReview(length int) string {
	return newTestReview(admissionv1.Create, `{"x":"`+strings.Repeat("x", length)+`"}`)
}

// attack runs the attacks until the process is killed. The attackers are on other machines, so this process takes
// no CPU time from the others.
func attack(t *testing.T, server string) {
	t.Helper()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for i := range attackers {
		kind, sum := 0, attacks[0].weight
		for i%100 >= sum {
			kind++
			sum += attacks[kind].weight
		}
		local := net.IPv4(127, 1, 0, byte(1+i/100*5+i%5)) // 50 addresses
		running.Go(func() {
			for {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: local}}
				conn, err := dialer.DialContext(t.Context(), "tcp", server)
				if err != nil {
					continue
				}
				if attacks[kind].plain {
					attacks[kind].run(conn)
				} else {
					attacks[kind].run(tls.Client(conn, &tls.Config{InsecureSkipVerify: true}))
				}
				_ = conn.Close()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// startRole starts this test with a role in a process of its own. It returns what the process prints.
func startRole(t *testing.T, role string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), attackRoleVariable+"="+role, fmt.Sprintf("GOMEMLIMIT=%d", maxServerMemory*9/10))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command, bufio.NewReader(output)
}

// serveAttacked is the server of the test. It prints its address, and runs until the process is killed.
func serveAttacked(t *testing.T) {
	t.Helper()
	log.SetLogger(logr.Discard())
	fmt.Println(startTestServer(t, ServerOptions{}))
	select {}
}

// TestAttackClients checks that clients without an account prevent no request of an API server, and that the memory
// of the server remains within the limit of its container.
func TestAttackClients(t *testing.T) {
	switch role := os.Getenv(attackRoleVariable); role {
	case "":
	case "server":
		serveAttacked(t)
	default:
		attack(t, role)
	}
	duration := 8 * time.Second
	if text := os.Getenv(attackTimeVariable); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", attackTimeVariable, err)
		}
	}
	server, output := startRole(t, "server")
	address, err := output.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	send := func(name string, duration time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), duration)
		defer cancel()
		result := sendAsAPIServer(ctx, "https://"+address)
		t.Logf("%s: %d requests, median %s, 99th percentile %s, maximum %s; memory of the server at most %d MiB",
			name, len(result.durations), result.percentile(50), result.percentile(99), result.percentile(100),
			peakMemory(t, server.Process)>>20)
		if len(result.failures) > 0 || len(result.durations) == 0 {
			t.Errorf("%s: %d of %d requests failed, for example: %.300q", name, len(result.failures),
				len(result.durations), result.failures[:min(3, len(result.failures))])
		}
	}
	send("without attackers", duration/4)
	startRole(t, address)
	send("with attackers", duration)
	if peak := peakMemory(t, server.Process); peak > maxServerMemory {
		t.Errorf("the server used %d MiB, which is more than the limit of the chart, %d MiB", peak>>20, maxServerMemory>>20)
	}
}

// results are the responses to the requests of an API server.
type results struct {
	mu        sync.Mutex
	durations []time.Duration // in ascending order
	failures  []string
}

func (r *results) percentile(p int) time.Duration {
	if len(r.durations) == 0 {
		return 0
	}
	return r.durations[min(len(r.durations)-1, len(r.durations)*p/100)].Round(time.Microsecond)
}

// sendAsAPIServer sends requests as an API server does, on old and on new connections, until the context is done.
func sendAsAPIServer(ctx context.Context, server string) *results {
	var r results
	var workers sync.WaitGroup
	job := newTestReview(admissionv1.Create, attackedJob)
	for i := range 4 {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: i == 0,
		}
		client := http.Client{Transport: transport, Timeout: 30 * time.Second}
		workers.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				start := time.Now() //nolint:forbidigo // measures the response
				failure := sendAdmission(&client, server+MutatePath+"?timeout=30s", job)
				r.mu.Lock()
				r.durations = append(r.durations, time.Since(start))
				if failure != "" {
					r.failures = append(r.failures, failure)
				}
				r.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	workers.Wait()
	slices.Sort(r.durations)
	return &r
}

// attackedJob is the object of a request of the API server.
const attackedJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"default",
	"labels":{"rollcall.training/framework":"pytorch"}},"spec":{"completions":2,"parallelism":2,
	"completionMode":"Indexed","template":{"spec":{"restartPolicy":"Never",
	"containers":[{"name":"main","image":"train","command":["python","train.py"]}]}}}}`

// sendAdmission returns why a request was not allowed with a patch; empty if it was.
func sendAdmission(client *http.Client, url, review string) string {
	//nolint:noctx // the client has a timeout
	response, err := client.Post(url, "application/json", strings.NewReader(review))
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if !bytes.Contains(body, []byte(`"allowed":true`)) || !bytes.Contains(body, []byte(`"patch":`)) {
		return response.Status + ": " + string(body)
	}
	return ""
}

// peakMemory returns the maximum resident memory of a process in bytes.
func peakMemory(t *testing.T, process *os.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(peak + " 0")[0])
	if err != nil || kilobytes == 0 {
		t.Fatalf("reading the memory of the server: %v", err)
	}
	return kilobytes << 10
}
