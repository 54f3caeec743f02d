package inspect

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

// PrintOptions are the inputs of printing other than the gang.
type PrintOptions struct {
	// Now is the current time, from which ages are computed.
	Now time.Time
	// TimeZone is the time zone of printed times; nil means UTC.
	TimeZone *time.Location
	// Color enables the colors of a terminal.
	Color bool
	// Width is the width of the terminal in columns; 0 means that lines are not truncated.
	Width int
	// Live selects the layout of a screen that is drawn again and again: it has the time line of the attempts, and the
	// ranks are the last part.
	Live bool
}

// formatAge returns the time since t in the short form of kubectl, such as 5m.
func (o PrintOptions) formatAge(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(o.Now.Sub(t))
}

// formatTime returns the time of day. It adds the date if that is not today.
func (o PrintOptions) formatTime(t time.Time) string {
	zone := o.TimeZone
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	if now := o.Now.In(zone); now.YearDay() != t.YearDay() || now.Year() != t.Year() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05")
}

// Colors of terminals (ECMA-48, select graphic rendition).
const (
	colorRed    = "31"
	colorGreen  = "32"
	colorYellow = "33"
	colorCyan   = "36"
	colorFaint  = "2"
)

// applyColor returns the text in the given color. It returns the text unchanged if colors are
// disabled or the color is empty.
func (o PrintOptions) applyColor(color, text string) string {
	if !o.Color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// truncateLine truncates a line to the width of the terminal. The line must not contain color
// sequences, because it counts their characters.
func (o PrintOptions) truncateLine(line string) string {
	if o.Width < 2 || utf8.RuneCountInString(line) <= o.Width {
		return line
	}
	return string([]rune(line)[:o.Width-1]) + "…"
}

// printTable prints rows with aligned columns and truncates them to the width of the terminal.
func (o PrintOptions) printTable(out io.Writer, rows [][]string) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // writing to a strings.Builder does not fail
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, o.truncateLine(strings.TrimRight(line, " \n")))
	}
}

// joinLines returns a text as one line without control characters. Messages of failures and Events
// are output of arbitrary programs.
func joinLines(text string) string {
	return stripControlCharacters(strings.Join(splitLines(text), " | "))
}

// splitLines returns the lines of a text, trimmed and without control characters. It omits blank
// lines.
func splitLines(text string) []string {
	var lines []string
	isLineEnd := func(r rune) bool { return r == '\n' || r == '\r' }
	for line := range strings.FieldsFuncSeq(text, isLineEnd) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, stripControlCharacters(line))
		}
	}
	return lines
}

// stripControlCharacters removes the characters that move the cursor of a terminal or change its
// colors. It replaces tabs by spaces, because printTable aligns columns at tabs.
func stripControlCharacters(text string) string {
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
