package agent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestSemantics compares remote commands with the same commands of a local shell. ssh runs a command with a shell of
// the remote host in the same way. With -v, it prints a table.
func TestSemantics(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.env = []string{"ONLY_OF_WORKER=set by the container", "SHELL=/bin/sh"}
	p.serve(t)
	large := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\tcode\tstdout\tstderr\t")
	for _, c := range []struct {
		name  string
		args  []string // after the host
		stdin string
		want  outcome
	}{
		{name: "output", args: []string{"echo", "one"}, want: outcome{stdout: "one\n"}},
		{
			name: "output of both streams", args: []string{"echo out; echo err >&2"},
			want: outcome{stdout: "out\n", stderr: "err\n"},
		},
		{
			name: "order within a stream", args: []string{"for i in 1 2 3; do echo $i; done"},
			want: outcome{stdout: "1\n2\n3\n"},
		},
		{name: "words are joined by one space", args: []string{"echo", "a", "b  c"}, want: outcome{stdout: "a b c\n"}},
		{
			name: "quotes are for the remote shell", args: []string{"echo", `"a  b"`, `'$HOME'`},
			want: outcome{stdout: "a  b $HOME\n"},
		},
		{name: "a pipe and a variable", args: []string{"X=5; echo $X | tr 5 6"}, want: outcome{stdout: "6\n"}},
		{name: "bytes that are not UTF-8", args: []string{"printf '\xff\xfe'"}, want: outcome{stdout: "\xff\xfe"}},
		{name: "a newline in a word", args: []string{"echo 'a\nb'"}, want: outcome{stdout: "a\nb\n"}},
		{
			name: "environment of the container", args: []string{"echo $ONLY_OF_WORKER"},
			want: outcome{stdout: "set by the container\n"},
		},
		{name: "exit code 0", args: []string{"true"}},
		{name: "exit code 1", args: []string{"false"}, want: outcome{code: 1}},
		{name: "exit code 42", args: []string{"exit 42"}, want: outcome{code: 42}},
		{name: "exit code 255", args: []string{"exit 255"}, want: outcome{code: 255}},
		{
			name: "a command that does not exist", args: []string{"exec 2>/dev/null; /no/such/program"},
			want: outcome{code: 127},
		},
		{name: "death by SIGKILL", args: []string{"kill -KILL $$"}, want: outcome{code: 128 + 9}},
		{name: "death by SIGTERM", args: []string{"kill -TERM $$"}, want: outcome{code: 128 + 15}},
		{name: "input", args: []string{"cat"}, stdin: "some input\n", want: outcome{stdout: "some input\n"}},
		{name: "large input and output", args: []string{"cat"}, stdin: large, want: outcome{stdout: large}},
		{name: "input that is not read", args: []string{"exit 3"}, stdin: large, want: outcome{code: 3}},
		{name: "input that ends early", args: []string{"head -c 3"}, stdin: large, want: outcome{stdout: "012"}},
		{name: "no input after -n", args: []string{"-n", "cat"}, stdin: "ignored", want: outcome{}},
		{name: "a pipe that closes early", args: []string{"yes | head -n 1"}, want: outcome{stdout: "y\n"}},
		{name: "a session of its own", args: []string{"test $(ps -o sid= -p $$) = $$"}},
		{
			name: "a background process does not delay the exit", args: []string{"sleep 600 & echo started"},
			want: outcome{stdout: "started\n"},
		},
	} {
		got := p.run(t, strings.NewReader(c.stdin), append([]string{"-x", "-o", "BatchMode=yes", host}, c.args...)...)
		if got != c.want {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %d, %q, %q", c.name,
				got.code, abbreviate(got.stdout), got.stderr, c.want.code, abbreviate(c.want.stdout), c.want.stderr)
		}
		fmt.Fprintf(w, "%s\t%d\t%q\t%q\t\n", c.name, got.code, abbreviate(got.stdout), abbreviate(got.stderr))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

func abbreviate(text string) string {
	if len(text) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", text[:8], len(text))
	}
	return text
}

// TestWorkingDirectory checks that a command starts in the working directory of the container, which ssh does not
// know.
func TestWorkingDirectory(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.run(t, nil, host, "pwd"); got.stdout != dir+"\n" {
		t.Errorf("working directory %q, want %q", got.stdout, dir)
	}
}

// TestNameSelectsPart checks that the program behaves like ssh under the names that launchers call.
func TestNameSelectsPart(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	for _, name := range remoteShellNames {
		t.Setenv(envRoot, p.root)
		if code := Main(t.Context(), []string{"/any/" + name, host, "exit 7"}); code != 7 {
			t.Errorf("%s returned %d, want 7", name, code)
		}
	}
}

// TestArguments checks the command lines of launchers, as their sources build them.
func TestArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want execution
	}{
		"Open MPI 4 and 5": {
			args: []string{"train-worker-0.train.ns.svc.cluster.local", "PATH=/usr/bin ; export PATH ; prted -mca x 'y'"},
			want: execution{
				host:    "train-worker-0.train.ns.svc.cluster.local",
				command: []byte("PATH=/usr/bin ; export PATH ; prted -mca x 'y'"),
			},
		},
		"MPICH": {
			args: []string{"-x", "train-worker-0", `"/usr/bin/hydra_pmi_proxy"`, "--control-port", "l:1", "--proxy-id", "0"},
			want: execution{
				host: "train-worker-0", command: []byte(`"/usr/bin/hydra_pmi_proxy" --control-port l:1 --proxy-id 0`),
			},
		},
		"Horovod": {
			args: []string{
				"-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "w-0", "-p", "22", "-o", "ConnectTimeout=10",
				"true",
			},
			want: execution{host: "w-0", command: []byte("true")},
		},
		"DeepSpeed by pdsh": {
			args: []string{"-2", "-a", "-x", "-lroot", "w-1", "export A=b;", "python", "-u"},
			want: execution{host: "w-1", command: []byte("export A=b; python -u")},
		},
		"options in one argument": {
			args: []string{"-xnTp2222", "user@w-0", "--", "-c"},
			want: execution{host: "w-0", command: []byte("-c"), ignoresInput: true},
		},
		"options of the command": {
			args: []string{"w-0", "ls", "-l", "-n"},
			want: execution{host: "w-0", command: []byte("ls -l -n")},
		},
	} {
		got, err := parseExecution(c.args)
		if err != nil || got.host != c.want.host || !bytes.Equal(got.command, c.want.command) ||
			got.ignoresInput != c.want.ignoresInput {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	for _, args := range [][]string{nil, {"w-0"}, {"-p"}, {"-Z", "w-0", "ls"}, {"user@", "ls"}} {
		if got, err := parseExecution(args); err == nil {
			t.Errorf("%q: %+v, want an error", args, got)
		}
	}
}
