package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// longestLine is where a line is cut in two: a program that never ends one must not
// fill the memory.
const longestLine = 1 << 20

// printer writes the lines of many ranks, each as a whole.
type printer struct {
	out, notes io.Writer
	color      bool

	// printed counts the lines, waiting those that are being written.
	printed, waiting atomic.Int64

	mu sync.Mutex
}

// prefixColors tell neighbouring ranks apart (ECMA-48).
var prefixColors = []string{"36", "33", "32", "35", "34", "96"}

// prefix is what stands before a rank's lines. The container is named where a rank has
// several that train.
func (p *printer) prefix(s source) string {
	text := fmt.Sprintf("[rank %d]", s.rank)
	if s.beside {
		text = fmt.Sprintf("[rank %d %s]", s.rank, s.container)
	}
	if p.color {
		text = "\x1b[" + prefixColors[int(s.rank)%len(prefixColors)] + "m" + text + "\x1b[0m"
	}
	return text + " "
}

// line writes one line, by one write: two ranks never share one.
func (p *printer) line(prefix string, text []byte) error {
	whole := make([]byte, 0, len(prefix)+len(text)+1)
	whole = append(append(append(whole, prefix...), text...), '\n')
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printed.Add(1)
	if _, err := p.out.Write(whole); err != nil {
		return &outputError{err}
	}
	return nil
}

// note says something about the logs, beside them.
func (p *printer) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.notes, "note: "+format+"\n", args...)
}

// outputError says that nobody reads any more.
type outputError struct{ err error }

func (e *outputError) Error() string { return "printing: " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// place is how far a log has been read: the time of the last line, and how many lines
// bear it. The API server goes on from a second, not from a line.
type place struct {
	at   time.Time
	seen int
}

// copyLog prints a log of lines with timestamps from the place on, and moves it.
func (p *printer) copyLog(prefix string, log io.Reader, at *place) error {
	from, again := *at, 0
	in := bufio.NewReaderSize(log, 64<<10)
	for {
		raw, err := readLine(in)
		if len(raw) == 0 && err != nil {
			return ended(err)
		}
		when, text := stamp(bytes.TrimSuffix(raw, []byte("\n")))
		switch {
		case when.IsZero():
		case when.Before(from.at):
			continue
		case when.Equal(from.at):
			if again++; again <= from.seen {
				continue
			}
			at.seen++
		case when.Equal(at.at):
			at.seen++
		default:
			*at = place{at: when, seen: 1}
		}
		if err := p.line(prefix, text); err != nil {
			return err
		}
		if err != nil {
			return ended(err)
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading a log: %w", err)
}

// readLine reads up to the end of a line, or to the longest one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= longestLine {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return line, err
		}
	}
}

// stamp takes the time from a line that the kubelet has put it before. A line without
// one, as of a line that was cut in two, comes back whole.
func stamp(line []byte) (time.Time, []byte) {
	head, text, _ := bytes.Cut(line, []byte(" "))
	when, err := time.Parse(time.RFC3339Nano, string(head))
	if err != nil {
		return time.Time{}, line
	}
	return when, text
}
