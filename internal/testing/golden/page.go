package golden

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pageBlock matches a block of a page: its language and its content.
var pageBlock = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// namedFile matches the first line of a file that readers save under its name.
var namedFile = regexp.MustCompile(`^# ([\w./-]+\.(?:yaml|py))\n`)

// RunPage follows a page like a reader. It calls save for each file, which is a block whose first line is a comment
// with its name, and run for each command of the console blocks, which follows "$ ". The function run gets the output
// that the page shows and returns the output of the command. A different output is an error, or is written to the page
// with -update. RunPage returns the number of commands.
func RunPage(t *testing.T, path string, save func(name, text string), run func(command, shown string) string) int {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	got := pageBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		parts := pageBlock.FindStringSubmatch(block)
		switch name := namedFile.FindStringSubmatch(parts[2]); {
		case name != nil:
			save(name[1], parts[2])
		case parts[1] == "console":
			commands += strings.Count("\n"+parts[2], "\n$ ")
			return "```console\n" + runConsole(parts[2], run) + "```"
		}
		return block
	})
	comparePage(t, path, string(page), got)
	return commands
}

// comparePage compares the text of a page with the expected text, or writes it with -update.
func comparePage(t *testing.T, path, page, want string) {
	t.Helper()
	if *updateGoldens {
		if os.Getenv("CI") != "" {
			t.Fatal("-update is not allowed in CI")
		}
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil { // keeps the mode of the existing file
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(page, want); diff != "" {
		t.Errorf("%s shows another output (-page +output):\n%s", path, diff)
	}
}

// CheckBlock compares an output with the only block of a page that starts with the given text. With -update it writes
// the output to the page.
func CheckBlock(t *testing.T, path, start, output string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	got := pageBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		parts := pageBlock.FindStringSubmatch(block)
		if !strings.HasPrefix(parts[2], start) {
			return block
		}
		blocks++
		return "```" + parts[1] + "\n" + output + "```"
	})
	if blocks != 1 {
		t.Fatalf("%s has %d blocks that start with %q, want 1", path, blocks, start)
	}
	comparePage(t, path, string(page), got)
}

// runConsole returns the content of a console block with the outputs of its commands. A command continues on the
// lines after a backslash.
func runConsole(block string, run func(command, shown string) string) string {
	var out strings.Builder
	for _, text := range strings.Split("\n"+strings.TrimSuffix(block, "\n"), "\n$ ")[1:] {
		command, shown, _ := strings.Cut(text, "\n")
		for strings.HasSuffix(command, "\\") {
			next, rest, _ := strings.Cut(shown, "\n")
			command, shown = command+"\n"+next, rest
		}
		if shown != "" {
			shown += "\n"
		}
		out.WriteString("$ " + command + "\n" + run(command, shown))
	}
	return out.String()
}
