package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"rollcall.training/internal/text"
)

// Control sequences of terminals (ECMA-48, and the private modes of xterm).
const (
	// openScreen selects the alternate screen, hides the cursor, and stops the wrapping of long lines.
	openScreen  = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	closeScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	// beginUpdate and endUpdate make terminals that support them show all changes at once.
	beginUpdate = "\x1b[?2026h"
	endUpdate   = "\x1b[?2026l"
	clearScreen = "\x1b[2J"
	clearLine   = "\x1b[2K"
	resetColor  = "\x1b[0m"
)

// screen is the screen of a terminal that shows one text. It writes only the lines that changed, so that a text of many
// lines does not flicker. The alternate screen keeps what the user saw before.
type screen struct {
	out           io.Writer
	isOpen        bool
	width, height int
	lines         []string
	drawTime      time.Time
	// readSize is [terminalSize] unless a test replaces it.
	readSize func(io.Writer) (width, height int, isTerminal bool)
}

// size returns the size of the terminal; zeros if it is unknown.
func (s *screen) size() (width, height int) {
	if s.readSize == nil {
		s.readSize = terminalSize
	}
	width, height, _ = s.readSize(s.out)
	return width, height
}

// isDue reports whether the last drawing is a second old, or the size of the terminal has changed since.
func (s *screen) isDue(now time.Time) bool {
	width, height := s.size()
	return !s.isOpen || width != s.width || height != s.height || now.Sub(s.drawTime) >= watchInterval
}

// draw replaces the text of the screen by what writeText writes.
func (s *screen) draw(now time.Time, writeText func(io.Writer)) error {
	var text, out bytes.Buffer
	writeText(&text)
	width, height := s.size()
	switch {
	case !s.isOpen:
		out.WriteString(openScreen)
	case width != s.width || height != s.height:
		out.WriteString(clearScreen)
		s.lines = nil
	}
	lines := cutLines(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"), height)
	for i, line := range lines {
		lines[i] = cutLine(line, width)
	}
	for i := range max(len(lines), len(s.lines)) {
		switch {
		case i >= len(lines):
			fmt.Fprintf(&out, "\x1b[%d;1H%s", i+1, clearLine)
		case i >= len(s.lines) || lines[i] != s.lines[i]:
			fmt.Fprintf(&out, "\x1b[%d;1H%s%s", i+1, clearLine, lines[i])
		}
	}
	s.isOpen, s.width, s.height, s.lines, s.drawTime = true, width, height, lines, now
	if out.Len() == 0 {
		return nil
	}
	return writeOutput(s.out, []byte(beginUpdate+out.String()+endUpdate))
}

// cutLines returns the lines that fit on a terminal, and how many it omits. A height of 0 is unknown.
func cutLines(lines []string, height int) []string {
	if height < 2 || len(lines) <= height {
		return lines
	}
	return append(lines[:height-1:height-1], fmt.Sprintf("… %d more lines", len(lines)-height+1))
}

// cutLine returns the beginning of a line that fits on a terminal. Color sequences have no width. A terminal that does
// not wrap would write the rest of the line over its last column. A width of 0 is unknown.
func cutLine(line string, width int) string {
	columns, isSequence := 0, false
	for i, r := range line {
		switch {
		case isSequence:
			isSequence = r != 'm'
		case r == '\x1b':
			isSequence = true
		case columns == width && width > 0:
			if strings.Contains(line[:i], "\x1b") {
				return line[:i] + resetColor
			}
			return line[:i]
		default:
			columns++
		}
	}
	return line
}

// close shows again what the terminal showed before.
func (s *screen) close() {
	if s.isOpen {
		s.isOpen = false
		fmt.Fprint(s.out, closeScreen)
	}
}

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

// terminalSize returns the size of a terminal in characters. It returns false if out is not a
// terminal, and zeros if the terminal does not report its size.
func terminalSize(out io.Writer) (width, height int, isTerminal bool) {
	f, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0, true
	}
	return width, height, true
}

// useColor reports whether to print colors. It respects NO_COLOR (https://no-color.org).
func useColor(isTerminal bool) bool {
	return isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
