// Package text shortens texts of users and programs for messages and fields with a limit.
package text

import (
	"fmt"
	"regexp"
	"strings"
)

const ellipsis = "…"

// Shorten returns the beginning of a text in at most limit bytes of valid UTF-8. A shortened text ends with an
// ellipsis, which counts. The limit must be at least 3.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}

// JoinLines returns a text as one line with single spaces.
func JoinLines(text string) string { return strings.Join(strings.Fields(text), " ") }

// Wrap returns a line as lines of at most width characters with the same indentation, unless a word is longer. The
// indentation takes at most half of the width.
func Wrap(line string, width int) string {
	words := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(words)]
	pattern := fmt.Sprintf(`(?:.{1,%d}|\S+)(?: +|$)`, max(width-len(indent), width/2))
	var lines []string
	for _, part := range regexp.MustCompile(pattern).FindAllString(words, -1) {
		lines = append(lines, indent+strings.TrimRight(part, " "))
	}
	return strings.Join(lines, "\n")
}
