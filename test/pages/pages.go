package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall.training/internal/testing/golden"
	"rollcall.training/test/cluster"
)

// publicImage matches the image of the pages. The nodes of the tests cannot pull it.
var publicImage = regexp.MustCompile(`busybox:[0-9.]+`)

// variableParts match what differs between two runs, and what stands for it in a comparison.
var variableParts = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`( since \d\d:\d\d:\d\d)? \([0-9hms]+\)`), ""},
	{regexp.MustCompile(`First failure at \d\d:\d\d:\d\d`), "First failure"},
	{regexp.MustCompile(`(?m)^Of \d.*\n`), ""},
	{regexp.MustCompile(`attempt 0, (rank \d of \d), step \d+`), "attempt 0, $1, a step"},
	{regexp.MustCompile(`SuccessCriteriaMet`), "Complete"},          // the condition a moment before
	{regexp.MustCompile(`Running( +(1/1|2/2|3/3) )`), "Complete$1"}, // a Job before its controller adds a condition
	{regexp.MustCompile(`\b(all-reduce|hello|fails-once|next|train)-(\d)-[a-z0-9]{5}\b`), "$1-$2-x"},
	{regexp.MustCompile(`\bjob-([a-z]+)-[a-z0-9]{5}\b`), "job-$1-x"}, // a Workload of Kueue
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b`), "0s"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "time"},
	{regexp.MustCompile(`node-a|rollcall-test`), "node"},
	{regexp.MustCompile(`.* Pending( .*)?\n`), ""}, // a phase that --watch can miss
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// normalizeOutput returns an output without what differs between two runs, and without repeated lines.
func normalizeOutput(text string) string {
	for _, part := range variableParts {
		text = part.pattern.ReplaceAllString(text, part.text)
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		first := i
		for i < len(lines) && strings.HasPrefix(lines[i], "[pod/") {
			i++
		}
		slices.Sort(lines[first:i]) // kubectl logs prints the pods in any order
	}
	return strings.Join(slices.Compact(lines), "\n")
}

// deletedNamespace matches what kubectl prints after the name of a deleted object since 1.34.
var deletedNamespace = regexp.MustCompile(`" deleted from \S+ namespace`)

// maxRepetitions is how often a user repeats kubectl get, a second apart, until it shows what controllers do.
const maxRepetitions = 20

// Follow follows a page like a user of a namespace, with pods of an image. The path of the page starts at root, the
// folder of the repository. It returns the number of commands.
func Follow(t *testing.T, root, page string, c *cluster.Cluster, ns, image string) int {
	t.Helper()
	run, save := newShell(t, root, c, ns)
	namesNoNamespace := c.Release().Minor() < 34
	saveFile := func(name, text string) { save(name, publicImage.ReplaceAllString(text, image)) }
	return golden.RunPage(t, filepath.Join(root, page), saveFile, func(command, shown string) string {
		want := shown
		if namesNoNamespace {
			want = deletedNamespace.ReplaceAllString(shown, `" deleted`)
		}
		isShown := func(out string) bool { return normalizeOutput(out) == normalizeOutput(want) && shown != "" }
		out, err := run(command)
		isRepeatable := strings.HasPrefix(command, "kubectl get ") && shown != ""
		for i := 0; isRepeatable && !isShown(out) && i < maxRepetitions; i++ {
			time.Sleep(time.Second)
			out, err = run(command)
		}
		if isShown(out) {
			return shown // also of a command that fails, such as one that is denied
		}
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return out
	})
}

// FollowMake runs a target of the Makefile like a user of a namespace, and compares the part of its output from a line
// up to another line with what a page shows. Both lines start so.
func FollowMake(t *testing.T, root, page string, c *cluster.Cluster, ns, target, from, to string) {
	t.Helper()
	run, _ := newShell(t, root, c, ns)
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run("make -C " + absolute + " " + target)
	_, part, found := strings.Cut(out, "\n"+from)
	part, _, isComplete := strings.Cut(part, "\n"+to)
	if err != nil || !found || !isComplete {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
	part = from + strings.TrimRight(part, "\n") + "\n"
	golden.RunPage(t, filepath.Join(root, page), func(string, string) {}, func(command, shown string) string {
		if !strings.HasPrefix(command, "make "+target) || normalizeOutput(part) == normalizeOutput(shown) {
			return shown
		}
		return part
	})
}

// newShell returns functions that run a command like a user of a namespace, in a folder of its own, and that save a
// file there. The programs of the cluster and the command rollcall are in the PATH.
func newShell(
	t *testing.T, root string, c *cluster.Cluster, ns string,
) (run func(command string) (string, error), save func(name, text string)) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/rollcall")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	path := strings.Join([]string{bin, filepath.Join(c.Dir(), "bin"), os.Getenv("PATH")}, string(os.PathListSeparator))
	save = func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run = func(command string) (string, error) {
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Dir = dir
		shell.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
		out, err := shell.CombinedOutput()
		return strings.ReplaceAll(strings.ReplaceAll(string(out), ns, "default"), "rollcall-test", "node-a"), err
	}
	config, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	save("kubeconfig", string(config))
	if out, err := run("kubectl config set-context --current --namespace=" + ns); err != nil {
		t.Fatalf("selecting the namespace: %v\n%s", err, out)
	}
	return run, save
}
