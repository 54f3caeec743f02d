package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	{regexp.MustCompile(`\b(hello|fails-once|train)-(\d)-[a-z0-9]{5}\b`), "$1-$2-x"},
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
	if strings.HasPrefix(text, "[pod/") {
		slices.Sort(lines) // kubectl logs prints the pods in any order
	}
	return strings.Join(slices.Compact(lines), "\n")
}

// Follow follows a page like a user of a namespace, with pods of an image. The path of the page starts at root, the
// folder of the repository. It returns the number of commands.
func Follow(t *testing.T, root, page string, c *cluster.Cluster, ns, image string) int {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/rollcall")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	path := strings.Join([]string{bin, filepath.Join(c.Dir(), "bin"), os.Getenv("PATH")}, string(os.PathListSeparator))
	save := func(name, text string) {
		text = publicImage.ReplaceAllString(text, image)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(command string) (string, error) {
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
	return golden.RunPage(t, filepath.Join(root, page), save, func(command, shown string) string {
		out, err := run(command)
		if normalizeOutput(out) == normalizeOutput(shown) && shown != "" {
			return shown // also of a command that fails, such as one that is denied
		}
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return out
	})
}
