package roster

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is what drawing depends on beside the gang.
type Style struct {
	// Now is the time from which ages are counted.
	Now time.Time
	// Zone is that of the times that are drawn; nil means UTC.
	Zone *time.Location
	// Color colours states, for a terminal.
	Color bool
	// Width is that of the terminal in columns; 0 means that lines may be of any length.
	Width int
}

func (s Style) age(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(s.Now.Sub(t))
}

// clock is a time of day, with the date when it was another day.
func (s Style) clock(t time.Time) string {
	zone := s.Zone
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	if now := s.Now.In(zone); now.YearDay() != t.YearDay() || now.Year() != t.Year() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05")
}

// color codes of terminals (ECMA-48, select graphic rendition).
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	faint  = "2"
)

func (s Style) paint(code, text string) string {
	if !s.Color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// fit cuts a line without colours to the width.
func (s Style) fit(line string) string {
	if s.Width < 2 || utf8.RuneCountInString(line) <= s.Width {
		return line
	}
	return string([]rune(line)[:s.Width-1]) + "…"
}

// table aligns rows in columns, and cuts lines to the width.
func (s Style) table(out io.Writer, rows [][]string) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, s.fit(strings.TrimRight(line, " \n")))
	}
}

// oneLine makes a text one line that a terminal draws as it stands: what a program
// wrote before it failed may hold anything.
func oneLine(text string) string {
	return printable(strings.Join(lines(text), " | "))
}

// lines splits a text into lines without those that are blank.
func lines(text string) []string {
	var out []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, printable(line))
		}
	}
	return out
}

// printable takes away what moves a terminal's cursor or changes its colours, and the
// tab, which is ours to align with.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r) && r != ' ':
			return -1
		default:
			return r
		}
	}, text)
}

// few lists the first of many names.
func few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
