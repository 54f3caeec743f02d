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

	"rollcall.training/internal/connections"
)

const (
	// attackTimeVariable is the duration of [TestAttackClients], such as 3m.
	attackTimeVariable = "ATTACK_TIME"
	// attackRoleVariable makes this program the server of the test, or the attackers of the server with an address,
	// which follows the name of the attack.
	attackRoleVariable = "ROLLCALL_TEST_ATTACK_ROLE"
	// attackers is the number of attacking clients, which have 50 addresses of a network of their own.
	attackers = 1000
	// flooders is the number of clients that fill the bound of connections with complete requests, from three addresses.
	flooders = connections.MaxConnections * 5 / 4
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
		flood(conn, large, small, small, small, small, small, small, small, small, small)
	}},
}

// flood sends complete requests in turn until the connection is closed.
func flood(conn net.Conn, texts ...string) {
	reader := bufio.NewReader(conn)
	for i := 0; ; i++ {
		text := texts[i%len(texts)]
		sendRequest(conn, text, len(text))
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

func waitUntilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func sendRequest(conn net.Conn, text string, length int) {
	_, _ = fmt.Fprintf(conn, "POST %s?timeout=30s HTTP/1.1\r\nHost: rollcall\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", MutatePath, length, text)
}

var (
	small          = newTestReview(admissionv1.Create, "{}")
	large          = newLargeReview(500 << 10)
	almostComplete = newLargeReview(maxRequestBytes - 1000)
	tooLarge       = newLargeReview(3 << 20)
	// expensive is a Job with a long list, which takes milliseconds.
	expensive = newTestReview(admissionv1.Create, strings.Replace(attackedJob, `"image":"train"`,
		`"image":"train","env":[{"name":"A"}`+strings.Repeat(`,{"name":"B"}`, 2200)+`]`, 1))
)

func newLargeReview(length int) string {
	return newTestReview(admissionv1.Create, `{"x":"`+strings.Repeat("x", length)+`"}`)
}

// attack runs an attack until the process is killed. The attackers are on other machines, so this process takes
// no CPU time from the others.
func attack(t *testing.T, name, server string) {
	t.Helper()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	if name == "flood" {
		for i := range flooders {
			local := net.IPv4(127, 2, 0, byte(1+i%3))
			running.Go(func() {
				attackFrom(t.Context(), local, server, false, func(conn net.Conn) { flood(conn, expensive) })
			})
		}
		return
	}
	for i := range attackers {
		kind, sum := 0, attacks[0].weight
		for i%100 >= sum {
			kind++
			sum += attacks[kind].weight
		}
		local := net.IPv4(127, 1, 0, byte(1+i/100*5+i%5)) // 50 addresses
		running.Go(func() { attackFrom(t.Context(), local, server, attacks[kind].plain, attacks[kind].run) })
	}
}

// attackFrom runs an attack on one connection after the other.
func attackFrom(ctx context.Context, local net.IP, server string, plain bool, run func(net.Conn)) {
	for {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: local}}
		conn, err := dialer.DialContext(ctx, "tcp", server)
		if err != nil {
			continue
		}
		if plain {
			run(conn)
		} else {
			run(tls.Client(conn, &tls.Config{InsecureSkipVerify: true}))
		}
		_ = conn.Close()
		time.Sleep(100 * time.Millisecond)
	}
}

// startRole starts this test with a role in a process of its own. It returns what the process prints.
func startRole(t *testing.T, role string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), attackRoleVariable+"="+role, fmt.Sprintf("GOMEMLIMIT=%d", maxServerMemory))
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
	LimitMemory()
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
		name, address, _ := strings.Cut(role, " ")
		attack(t, name, address)
	}
	duration := 5 * time.Second
	if text := os.Getenv(attackTimeVariable); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", attackTimeVariable, err)
		}
	}
	for _, name := range []string{"mixed", "flood"} {
		withstandAttack(t, name, duration)
	}
}

// withstandAttack sends requests to a new server during an attack.
func withstandAttack(t *testing.T, name string, duration time.Duration) {
	t.Helper()
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
	send("without attackers", duration/10)
	attackers, _ := startRole(t, name+" "+address)
	send(name, duration)
	if peak := peakMemory(t, server.Process); peak > maxServerMemory {
		t.Errorf("%s: the server used %d MiB, which is more than the limit of the chart, %d MiB", name, peak>>20,
			maxServerMemory>>20)
	}
	for _, process := range []*exec.Cmd{attackers, server} {
		_ = process.Process.Kill()
		_ = process.Wait()
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
