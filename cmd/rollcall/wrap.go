package main

import (
	"io"
	"strings"

	"rollcall.training/internal/text"
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
		lines.WriteString(text.Wrap(strings.TrimSuffix(line, "\n"), w.width) + "\n")
	}
	if _, err := io.WriteString(w.out, lines.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
