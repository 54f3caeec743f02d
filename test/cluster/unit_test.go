package cluster

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
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
		// field is the name that the error must contain. It is empty if there must be no error.
		field string
	}{
		{"the zero value is a cluster without nodes", Options{}, ""},
		{"simulated nodes have a default number", Options{Nodes: Kwok}, ""},
		{"an unknown kind of nodes is rejected", Options{Nodes: "docker"}, "Nodes"},
		{"simulated nodes need their kind", Options{KwokNodes: 3}, "KwokNodes"},
		{"real nodes have another number", Options{Nodes: Real, KwokNodes: 3}, "KwokNodes"},
		{"real nodes have a default number", Options{Nodes: Real}, ""},
		{"real nodes need their kind", Options{Nodes: Kwok, RealNodes: 2}, "RealNodes"},
		{"a range of addresses has room for 16 nodes", Options{Nodes: Real, RealNodes: 17}, "RealNodes"},
		{"labels of a node that does not exist", Options{Nodes: Real, NodeLabels: []string{"a=b", "a=c"}}, "NodeLabels"},
		{"a negative number is rejected", Options{Nodes: Kwok, KwokNodes: -1}, "KwokNodes"},
		{"a name must not be a path", Options{Name: "../other"}, "Name"},
		{"a port has 16 bits", Options{Port: 65536}, "Port"},
	} {
		completed, err := test.options.completeAndValidate()
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%s: %v", test.reason, err)
		case test.field == "" && (completed.Name == "" || completed.Nodes == "" || completed.Progress == nil):
			t.Errorf("%s: the defaults are not set: %+v", test.reason, completed)
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
	start, _, err := readProcStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id := processID{PID: cmd.Process.Pid, Start: start}
	recycled := processID{PID: id.PID, Start: id.Start - 1}
	if !id.isAlive() {
		t.Error("a running process is not alive")
	}
	if recycled.isAlive() {
		t.Error("a process with a reused PID counts as the earlier process")
	}
	if err := recycled.terminateProcess(); err != nil || !id.isAlive() {
		t.Errorf("terminating an earlier process (error %v) must not affect the process with the same PID (alive: %t)",
			err, id.isAlive())
	}
	// The child is a zombie until Wait is called, and must count as exited.
	begin := time.Now()
	if err := id.terminateProcess(); err != nil || time.Since(begin) > terminationGracePeriod {
		t.Errorf("stopping took %s: %v", time.Since(begin), err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the terminated process exited with code 0")
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	owner := currentProcess()
	saved := &clusterState{
		Name: "a", Nodes: Real, Created: time.Now().UTC().Round(0), Server: "https://127.0.0.1:1", Owner: owner,
		Processes: []processRecord{{
			processID: processID{PID: 1 << 30, Start: 1}, program: program{Name: "etcd", Args: []string{"--v=4"}}, Log: "l",
		}},
		Machine: &machineState{Sysctls: map[string]string{"net/ipv4/ip_forward": "0"}},
	}
	if err := saved.saveTo(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded, cmp.AllowUnexported(processRecord{})); diff != "" {
		t.Errorf("the loaded state differs from the saved state (-saved +loaded):\n%s", diff)
	}
	gone := processID{PID: owner.PID, Start: owner.Start + 1}
	for _, test := range []struct {
		reason string
		state  clusterState
		want   bool
	}{
		{"a cluster with a live owner is in use", clusterState{Owner: owner}, true},
		{
			"a cluster with a dead owner is not in use",
			clusterState{Owner: gone, Processes: []processRecord{{processID: owner}}},
			false,
		},
		{
			"a detached cluster with a live process is in use",
			clusterState{Owner: gone, Detached: true, Processes: []processRecord{{processID: owner}}},
			true,
		},
		{
			"a detached cluster without live processes is not in use",
			clusterState{Owner: gone, Detached: true, Processes: []processRecord{{processID: gone}}},
			false,
		},
	} {
		if got := test.state.isInUse(); got != test.want {
			t.Errorf("%s: in use is %t, want %t", test.reason, got, test.want)
		}
	}
	if _, err := loadState(t.TempDir()); !isNotExist(err) {
		t.Errorf("a directory without a state returned the error %v, want a NotExist error", err)
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
		if err := ca.issueCertificate(id); err != nil {
			t.Fatal(err)
		}
	}
	if loaded, err := loadAuthority(ca.dir, ca.name); err != nil || !loaded.cert.Equal(ca.cert) {
		t.Errorf("the loaded CA differs from the created CA (%v)", err)
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
		{"the address of a server is valid", server, x509.VerifyOptions{Roots: roots, DNSName: loopback}, true},
		{"the name of a server is valid", server, x509.VerifyOptions{Roots: roots, DNSName: "localhost"}, true},
		{"another name of a server is invalid", server, x509.VerifyOptions{Roots: roots, DNSName: "elsewhere"}, false},
		{"a server is invalid for another CA", server, x509.VerifyOptions{Roots: strangers}, false},
		{
			"a client",
			client,
			x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
			true,
		},
		{"a client certificate is invalid for a server", client, x509.VerifyOptions{Roots: roots}, false},
	} {
		if _, err := test.cert.Verify(test.verify); (err == nil) != test.valid {
			t.Errorf("%s: valid should be %t: %v", test.reason, test.valid, err)
		}
	}
	if client.Subject.CommonName != "admin" || !slices.Equal(client.Subject.Organization, []string{"system:masters"}) {
		t.Errorf("the subject of the client certificate is %v", client.Subject)
	}
	if info, err := os.Stat(ca.keyFile("client")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the key: %v, %v", info.Mode(), err)
	}
}

func TestRemovalScript(t *testing.T) {
	for _, test := range []struct {
		reason, saved, want string
	}{
		{"a machine without Kubernetes stays unchanged", "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n", ""},
		{
			"rules of the bridge are removed, rules of a longer name stay",
			"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i rollcall-test -j ACCEPT\n-A INPUT -i rollcall-test2 -j ACCEPT\nCOMMIT\n",
			"*filter\n-D INPUT -i rollcall-test -j ACCEPT\nCOMMIT\n",
		},
		{
			"rules of the links to nodes are removed",
			"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i rollcall-n2 -j ACCEPT\nCOMMIT\n",
			"*filter\n-D INPUT -i rollcall-n2 -j ACCEPT\nCOMMIT\n",
		},
		{
			"Kubernetes chains are removed with the rules that jump to them",
			"# made by iptables-save\n*filter\n:INPUT ACCEPT [3:4]\n:KUBE-SERVICES - [0:0]\n:OTHER - [0:0]\n" +
				"-A INPUT -m comment --comment \"to KUBE-SERVICES\" -j KUBE-SERVICES\n" +
				"-A INPUT -j OTHER\n-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n" +
				"*nat\n:KUBE-SVC-A - [0:0]\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j KUBE-SVC-A\nCOMMIT\n",
			"*filter\n:KUBE-SERVICES - [0:0]\n" +
				"-D INPUT -m comment --comment \"to KUBE-SERVICES\" -j KUBE-SERVICES\n-X KUBE-SERVICES\nCOMMIT\n" +
				"*nat\n:KUBE-SVC-A - [0:0]\n-D OUTPUT -j KUBE-SVC-A\n-X KUBE-SVC-A\nCOMMIT\n",
		},
	} {
		if diff := cmp.Diff(test.want, buildRemovalScript(test.saved)); diff != "" {
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
		{"base recipe", base},
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
			t.Errorf("%s: the second hash is %s, not %s (%v)", test.reason, again, hash, err)
		}
	}
}

func TestParseAptMirror(t *testing.T) {
	for _, test := range []struct {
		reason, content, want string
		find                  func(content, suite string) string
	}{
		{
			"one-line format with options",
			"# deb http://no.example/ bookworm main\n" +
				"deb [arch=amd64 signed-by=/k] http://a.example/debian bookworm main contrib\n",
			"http://a.example/debian",
			parseMirrorFromList,
		},
		{
			"line of another repository is ignored",
			"deb http://other.example/tools tools-bookworm main\n",
			"",
			parseMirrorFromList,
		},
		{"security suite is ignored", "deb http://a.example/security bookworm-security main\n", "", parseMirrorFromList},
		{
			"paragraph format",
			"Types: deb\n# comment: yes\nURIs: http://a.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n",
			"http://a.example/debian",
			parseMirrorFromSources,
		},
		{
			"suite in the second paragraph",
			"Types: deb\nURIs: http://s.example/\nSuites: bookworm-security\nComponents: main\n\n" +
				"Types: deb\nURIs: http://b.example/\nSuites: bookworm\nComponents: main\n",
			"http://b.example/",
			parseMirrorFromSources,
		},
		{
			"disabled paragraph is ignored",
			"Enabled: no\nTypes: deb\nURIs: http://a.example/debian\nSuites: bookworm\nComponents: main\n",
			"",
			parseMirrorFromSources,
		},
	} {
		if got := test.find(test.content, "bookworm"); got != test.want {
			t.Errorf("%s: found %q, want %q", test.reason, got, test.want)
		}
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	want := errors.New("broken")
	if err := p.runStep("first", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := p.runStep("second", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("runStep returned the error %v", err)
	}
	if got := out.String(); !regexp.MustCompile(`^first: \d+\.\d s\nsecond: failed after \d+\.\d s\n`).MatchString(got) {
		t.Errorf("the progress output is %q", got)
	}
}

func TestBinaryImage(t *testing.T) {
	// The build needs the existing build cache. Otherwise it would compile the standard library.
	goCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	source, err := newPauseBinary()
	if err != nil {
		t.Fatal(err)
	}
	first, err := source.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	id, err := first.readConfigDigest()
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
	if again, err := second.readConfigDigest(); err != nil || again != id || second != first {
		t.Errorf("the second build of the image %+v with ID %s returned %+v with ID %s (%v)", first, id, second, again, err)
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
		t.Errorf("the remaining files are not the newest files (-want +got):\n%s", diff)
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
		t.Fatalf("%s does not contain a PEM block", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
