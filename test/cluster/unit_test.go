package cluster

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		reason  string
		options Options
		// field is what the error must name; "" when there must be none.
		field string
	}{
		{"the zero value is a cluster without nodes", Options{}, ""},
		{"simulated nodes have a default number", Options{Nodes: Kwok}, ""},
		{"an unknown kind of nodes is refused", Options{Nodes: "docker"}, "Nodes"},
		{"simulated nodes need their kind", Options{KwokNodes: 3}, "KwokNodes"},
		{"real nodes cannot be many", Options{Nodes: Real, KwokNodes: 3}, "KwokNodes"},
		{"a negative number is refused", Options{Nodes: Kwok, KwokNodes: -1}, "KwokNodes"},
		{"a name is a folder's, so it may not lead elsewhere", Options{Name: "../other"}, "Name"},
		{"a port has 16 bits", Options{Port: 65536}, "Port"},
	} {
		completed, err := test.options.complete()
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%s: %v", test.reason, err)
		case test.field == "" && (completed.Name == "" || completed.Nodes == "" || completed.Progress == nil):
			t.Errorf("%s: the defaults are not filled in: %+v", test.reason, completed)
		case test.field != "" && (err == nil || !strings.Contains(err.Error(), "option "+test.field+":")):
			t.Errorf("%s: the error does not name %s: %v", test.reason, test.field, err)
		}
	}
}

func TestProcessIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, _, err := procStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id := processID{PID: cmd.Process.Pid, Start: start}
	recycled := processID{PID: id.PID, Start: id.Start - 1}
	if !id.alive() {
		t.Error("a running process is not seen")
	}
	if recycled.alive() {
		t.Error("a process with the number of an earlier one is taken for that one")
	}
	if err := recycled.stop(); err != nil || !id.alive() {
		t.Errorf("stopping an earlier process (error %v) must not touch the one that has its number now (alive: %t)", err, id.alive())
	}
	// Nobody waits for the child until after stop: it is a zombie then, and must count as gone.
	begin := time.Now()
	if err := id.stop(); err != nil || time.Since(begin) > grace {
		t.Errorf("stopping took %s: %v", time.Since(begin), err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the stopped process ended by itself")
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	owner := self()
	saved := &state{
		Name: "a", Nodes: Real, Created: time.Now().UTC().Round(0), Server: "https://127.0.0.1:1", Owner: owner,
		Processes: []record{{processID: processID{PID: 1 << 30, Start: 1}, Name: "etcd", Log: "l"}},
		Machine:   &machineState{Sysctls: map[string]string{"net/ipv4/ip_forward": "0"}},
	}
	if err := saved.save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded, cmp.AllowUnexported(record{})); diff != "" {
		t.Errorf("what is loaded differs from what was saved (-saved +loaded):\n%s", diff)
	}
	gone := processID{PID: owner.PID, Start: owner.Start + 1}
	for _, test := range []struct {
		reason string
		state  state
		want   bool
	}{
		{"the owner lives", state{Owner: owner}, true},
		{"the owner is gone, and so the cluster", state{Owner: gone, Processes: []record{{processID: owner}}}, false},
		{"a detached cluster lives by its processes", state{Owner: gone, Detached: true, Processes: []record{{processID: owner}}}, true},
		{"a detached cluster without processes is over", state{Owner: gone, Detached: true, Processes: []record{{processID: gone}}}, false},
	} {
		if got := test.state.running(); got != test.want {
			t.Errorf("%s: running is %t, want %t", test.reason, got, test.want)
		}
	}
	if _, err := loadState(t.TempDir()); !missing(err) {
		t.Errorf("a folder without state gives %v, want one that says so", err)
	}
}

func TestPorts(t *testing.T) {
	ports, err := freePorts(loopback, 5)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(ports); len(slices.Compact(slices.Clone(ports))) != 5 {
		t.Errorf("the ports %v are not five different ones", ports)
	}
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	taken := listener.Addr().(*net.TCPAddr).Port
	if err := claimPort(loopback, taken, "the thing"); err == nil || !strings.Contains(err.Error(), fmt.Sprint(taken)) || !strings.Contains(err.Error(), "the thing") {
		t.Errorf("a taken port gives %v, want an error that names it and who wants it", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := claimPort(loopback, taken, "the thing"); err != nil {
		t.Errorf("a free port is refused: %v", err)
	}
}

func TestPKI(t *testing.T) {
	ca, err := newAuthority(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []identity{
		{name: "server", user: "server", hosts: []string{loopback, "localhost"}},
		{name: "client", user: "admin", groups: []string{"system:masters"}},
	} {
		if err := ca.issue(id); err != nil {
			t.Fatal(err)
		}
	}
	roots, strangers := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(ca.cert)
	strangers.AddCert(other.cert)
	server, client := readCertificate(t, ca.certFile("server")), readCertificate(t, ca.certFile("client"))
	for _, test := range []struct {
		reason string
		cert   *x509.Certificate
		verify x509.VerifyOptions
		valid  bool
	}{
		{"a server by its address", server, x509.VerifyOptions{Roots: roots, DNSName: loopback}, true},
		{"a server by its name", server, x509.VerifyOptions{Roots: roots, DNSName: "localhost"}, true},
		{"a server by another name", server, x509.VerifyOptions{Roots: roots, DNSName: "elsewhere"}, false},
		{"a server for those who trust another authority", server, x509.VerifyOptions{Roots: strangers}, false},
		{"a client", client, x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true},
		{"a client that poses as a server", client, x509.VerifyOptions{Roots: roots}, false},
	} {
		if _, err := test.cert.Verify(test.verify); (err == nil) != test.valid {
			t.Errorf("%s: valid should be %t: %v", test.reason, test.valid, err)
		}
	}
	if client.Subject.CommonName != "admin" || !slices.Equal(client.Subject.Organization, []string{"system:masters"}) {
		t.Errorf("the client's certificate speaks for %v", client.Subject)
	}
	if info, err := os.Stat(ca.keyFile("client")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is readable by others: %v, %v", info.Mode(), err)
	}
}

func TestRemovalScript(t *testing.T) {
	for _, test := range []struct {
		reason, saved, want string
	}{
		{"a machine without Kubernetes is left alone", "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n", ""},
		{
			"the bridge's rules go, those of a longer name stay",
			"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i rollcall-test -j ACCEPT\n-A INPUT -i rollcall-test2 -j ACCEPT\nCOMMIT\n",
			"*filter\n-D INPUT -i rollcall-test -j ACCEPT\nCOMMIT\n",
		},
		{
			"our chains go, with the rules that lead to them; others stay",
			"# made by iptables-save\n*filter\n:INPUT ACCEPT [3:4]\n:KUBE-SERVICES - [0:0]\n:OTHER - [0:0]\n" +
				"-A INPUT -m comment --comment \"to KUBE-SERVICES\" -j KUBE-SERVICES\n-A INPUT -j OTHER\n-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n" +
				"*nat\n:KUBE-SVC-A - [0:0]\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j KUBE-SVC-A\nCOMMIT\n",
			"*filter\n:KUBE-SERVICES - [0:0]\n-D INPUT -m comment --comment \"to KUBE-SERVICES\" -j KUBE-SERVICES\n-X KUBE-SERVICES\nCOMMIT\n" +
				"*nat\n:KUBE-SVC-A - [0:0]\n-D OUTPUT -j KUBE-SVC-A\n-X KUBE-SVC-A\nCOMMIT\n",
		},
	} {
		if diff := cmp.Diff(test.want, removalScript(test.saved)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}

func TestRecipeHash(t *testing.T) {
	base := Recipe{Name: "a", Packages: []string{"p"}}
	seen := map[string]string{}
	for _, test := range []struct {
		reason string
		recipe Recipe
	}{
		{"the base", base},
		{"another name", Recipe{Name: "b", Packages: []string{"p"}}},
		{"another package", Recipe{Name: "a", Packages: []string{"q"}}},
		{"one more package", Recipe{Name: "a", Packages: []string{"p", "q"}}},
		{"another suite", Recipe{Name: "a", Packages: []string{"p"}, Suites: []string{"trixie"}}},
		{"a setup", Recipe{Name: "a", Packages: []string{"p"}, Setup: []string{"true"}}},
		{"a wheel", Recipe{Name: "a", Packages: []string{"p"}, Wheels: []string{"true"}}},
		{"a source", Recipe{Name: "a", Packages: []string{"p"}, Sources: []string{"true"}}},
		{"a source's patch", Recipe{Name: "a", Packages: []string{"p"}, SourcePatches: []string{"true"}}},
		{"a source's variable", Recipe{Name: "a", Packages: []string{"p"}, SourceEnv: []string{"true"}}},
		{"a build package", Recipe{Name: "a", Packages: []string{"p"}, BuildPackages: []string{"true"}}},
	} {
		hash, err := test.recipe.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if same, ok := seen[hash]; ok {
			t.Errorf("%s and %s have the same hash %s", test.reason, same, hash)
		}
		seen[hash] = test.reason
		if again, err := test.recipe.Hash(); err != nil || again != hash {
			t.Errorf("%s: hashed again it is %s, not %s (%v)", test.reason, again, hash, err)
		}
	}
}

func TestMirror(t *testing.T) {
	for _, test := range []struct {
		reason, content, want string
		find                  func(content, suite string) string
	}{
		{"a line with options", "# deb http://no.example/ bookworm main\ndeb [arch=amd64 signed-by=/k] http://a.example/debian bookworm main contrib\n", "http://a.example/debian", mirrorFromList},
		{"a line of another repository", "deb http://other.example/tools tools-bookworm main\n", "", mirrorFromList},
		{"security updates are not the suite", "deb http://a.example/security bookworm-security main\n", "", mirrorFromList},
		{"a paragraph", "Types: deb\n# comment: yes\nURIs: http://a.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n", "http://a.example/debian", mirrorFromSources},
		{"the second paragraph", "Types: deb\nURIs: http://s.example/\nSuites: bookworm-security\nComponents: main\n\nTypes: deb\nURIs: http://b.example/\nSuites: bookworm\nComponents: main\n", "http://b.example/", mirrorFromSources},
		{"a paragraph that is switched off", "Enabled: no\nTypes: deb\nURIs: http://a.example/debian\nSuites: bookworm\nComponents: main\n", "", mirrorFromSources},
	} {
		if got := test.find(test.content, "bookworm"); got != test.want {
			t.Errorf("%s: found %q, want %q", test.reason, got, test.want)
		}
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out}
	want := errors.New("broken")
	if err := p.do("first", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := p.do("second", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("the step's error became %v", err)
	}
	if got := out.String(); !regexp.MustCompile(`^first: \d+\.\d s\nsecond: failed after \d+\.\d s\n`).MatchString(got) {
		t.Errorf("the progress reads %q", got)
	}
}

func TestBinaryImage(t *testing.T) {
	// The go command's cache is kept: with an empty one it would compile the standard library.
	goCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	source, err := pauseBinary()
	if err != nil {
		t.Fatal(err)
	}
	first, err := source.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	id, err := first.id()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first.Path); err != nil {
		t.Fatal(err)
	}
	second, err := source.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := second.id(); err != nil || again != id || second != first {
		t.Errorf("made again, the image %+v with id %s is %+v with id %s (%v)", first, id, second, again, err)
	}
	if filepath.Ext(first.Path) != ".tar" || first.Ref != pauseImage {
		t.Errorf("the image is %+v", first)
	}
}

func TestKeepNewest(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{
		"newest": 0, "old": 2 * time.Hour, "newer": time.Hour, "oldest": 3 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepNewest(filepath.Join(dir, "*"), 2); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "newer"), filepath.Join(dir, "newest")}, left); diff != "" {
		t.Errorf("what is left is not what was changed last (-want +got):\n%s", diff)
	}
}

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%s holds no PEM block", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
