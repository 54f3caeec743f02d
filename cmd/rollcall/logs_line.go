package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxLineBytes is the length in bytes at which a line is split. It bounds the memory for the output
// of a program that never ends a line.
const maxLineBytes = 1 << 20

// linePrinter prints the lines of many ranks. It is safe for concurrent use.
type linePrinter struct {
	out, errOut io.Writer
	color       bool

	// printedLines counts all lines. pendingLines counts the lines that wait for the output.
	printedLines, pendingLines atomic.Int64

	mu sync.Mutex
}

// prefixColors are the colors of prefixes (ECMA-48). Neighboring ranks have different colors.
var prefixColors = []string{"36", "33", "32", "35", "34", "96"}

// formatPrefix returns the prefix of a rank's lines. It contains the name of the container if the
// logs of several containers of the rank are printed.
func (p *linePrinter) formatPrefix(source logSource) string {
	text := fmt.Sprintf("[rank %d]", source.rank)
	if source.multiContainer {
		text = fmt.Sprintf("[rank %d %s]", source.rank, source.container)
	}
	if p.color {
		text = "\x1b[" + prefixColors[int(source.rank)%len(prefixColors)] + "m" + text + "\x1b[0m"
	}
	return text + " "
}

// printLine prints one line in a single write, so that a line never mixes the output of two ranks.
// The error wraps [errOutput].
func (p *linePrinter) printLine(prefix string, text []byte) error {
	p.pendingLines.Add(1)
	defer p.pendingLines.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printedLines.Add(1)
	return writeOutput(p.out, slices.Concat([]byte(prefix), text, []byte("\n")))
}

// printNote prints a note about the logs to standard error.
func (p *linePrinter) printNote(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.errOut, "note: "+format+"\n", args...)
}

// logPosition is a position in a log: the time of the last printed line and the number of printed
// lines with that time. The API server can continue a log at a second, but not at a line. The zero
// value is the start of the log.
type logPosition struct {
	lastTime    time.Time
	linesAtTime int
}

// copyLog prints the lines of a log with timestamps that follow the given position. It advances the
// position.
func (p *linePrinter) copyLog(prefix string, log io.Reader, position *logPosition) error {
	start, linesAtStart := *position, 0
	in := bufio.NewReaderSize(log, 64<<10)
	for {
		line, readErr := readLine(in)
		if len(line) == 0 && readErr != nil {
			return wrapReadError(readErr)
		}
		timestamp, text := splitTimestamp(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case timestamp.IsZero():
		case timestamp.Before(start.lastTime):
			continue
		case timestamp.Equal(start.lastTime):
			if linesAtStart++; linesAtStart <= start.linesAtTime {
				continue
			}
			position.linesAtTime++
		case timestamp.Equal(position.lastTime):
			position.linesAtTime++
		default:
			*position = logPosition{lastTime: timestamp, linesAtTime: 1}
		}
		if err := p.printLine(prefix, text); err != nil {
			return err
		}
		if readErr != nil {
			return wrapReadError(readErr)
		}
	}
}

// readLine reads a line including its end. A line that is longer than maxLineBytes is returned in
// parts. The last line of a log may be returned together with io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= maxLineBytes {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return line, err
		}
	}
}

// wrapReadError returns nil at the end of the log.
func wrapReadError(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading a log: %w", err)
}

// splitTimestamp separates the timestamp that the kubelet writes in front of a line. It returns the
// zero time and the complete line if there is none, as in the second part of a split line.
func splitTimestamp(line []byte) (time.Time, []byte) {
	head, text, _ := bytes.Cut(line, []byte(" "))
	timestamp, err := time.Parse(time.RFC3339Nano, string(head))
	if err != nil {
		return time.Time{}, line
	}
	return timestamp, text
}
