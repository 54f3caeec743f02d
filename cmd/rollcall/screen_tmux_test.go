package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestScreenInTmux checks what tmux, an independent terminal, shows of a live view: each drawing replaces the former
// one, no line is longer than the terminal, and the end restores what was there before.
func TestScreenInTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skipf("tmux is not installed: %v", err)
	}
	draw := func(s *screen, text string) {
		if err := s.draw(time.Time{}, func(w io.Writer) { _, _ = io.WriteString(w, text) }); err != nil {
			t.Fatal(err)
		}
	}
	const long = "a line of more than 40 columns, of which the rest is cut"
	for name, test := range map[string]struct {
		texts []string
		close bool
		want  []string
	}{
		"a drawing that changes a line and has fewer lines": {
			texts: []string{"train  Pending\n..\nlast\n", "train  \x1b[32mRunning\x1b[0m\n##\n"},
			want:  []string{"train  Running", "##"},
		},
		"lines that do not fit": {
			texts: []string{long + "\n" + strings.Repeat("line\n", 20)},
			want:  append([]string{long[:40]}, append(slices.Repeat([]string{"line"}, 8), "… 12 more lines")...),
		},
		"the end": {texts: []string{"train  Running\n"}, close: true, want: []string{"$ before", "train  Succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			fmt.Fprintln(&out, "$ before")
			s := &screen{out: &out, readSize: func(io.Writer) (int, int, bool) { return 40, 10, true }}
			for _, text := range test.texts {
				draw(s, text)
			}
			if test.close {
				s.close()
				fmt.Fprintln(&out, "train  Succeeded")
			}
			if diff := cmp.Diff(test.want, showInTmux(t, out.String(), test.want)); diff != "" {
				t.Errorf("tmux shows (-want, +got):\n%s", diff)
			}
		})
	}
}

// showInTmux writes a text to a terminal of 40 columns and 10 lines, and returns its lines when they are as wanted, or
// after a while.
func showInTmux(t *testing.T, text string, want []string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"text": text, "config": "set -g status off\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tmux := func(args ...string) string {
		t.Helper()
		args = append([]string{"-u", "-f", filepath.Join(dir, "config"), "-S", filepath.Join(dir, "socket")}, args...)
		out, err := exec.CommandContext(t.Context(), "tmux", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux: %v\n%s", err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "40", "-y", "10", "cat "+filepath.Join(dir, "text")+"; exec sleep 600")
	defer tmux("kill-server")
	var lines []string
	for range 100 {
		lines = strings.Split(strings.TrimRight(tmux("capture-pane", "-p"), "\n"), "\n")
		if cmp.Equal(want, lines) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return lines
}
