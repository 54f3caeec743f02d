package main

import (
	"io"
	"slices"
	"strings"
)

// minWrapWidth is the width in characters below which lines are not wrapped.
const minWrapWidth = 40

// wrapForTerminal returns a writer that wraps long lines if out is a terminal, and out otherwise. Each call of Write
// must contain complete lines.
func wrapForTerminal(out io.Writer) io.Writer {
	width, _, _ := terminalSize(out)
	if width < minWrapWidth {
		return out
	}
	return lineWrapper{out, width}
}

// lineWrapper wraps the lines of a text. The rest of a line has the indentation of the line.
type lineWrapper struct {
	out   io.Writer
	width int
}

func (w lineWrapper) Write(p []byte) (int, error) {
	var lines strings.Builder
	for line := range strings.Lines(string(p)) {
		lines.WriteString(wrapLine(line, w.width))
	}
	if _, err := io.WriteString(w.out, lines.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// wrapLine wraps a line at spaces. Lines that fit are unchanged.
func wrapLine(line string, width int) string {
	rest := []rune(strings.TrimRight(line, "\n"))
	indent := len(rest) - len([]rune(strings.TrimLeft(string(rest), " ")))
	if len(rest) <= width || width-indent < minWrapWidth/2 {
		return line
	}
	var lines strings.Builder
	for len(rest) > width {
		end := lastSpace(rest[:width+1])
		if end <= indent { // a word that is longer than the width
			if end = slices.Index(rest[indent:], ' ') + indent; end < indent {
				break
			}
		}
		lines.WriteString(strings.TrimRight(string(rest[:end]), " ") + "\n")
		rest = []rune(strings.Repeat(" ", indent) + strings.TrimLeft(string(rest[end:]), " "))
	}
	return lines.String() + string(rest) + "\n"
}

// lastSpace returns the index of the last space, or -1.
func lastSpace(line []rune) int {
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] == ' ' {
			return i
		}
	}
	return -1
}
