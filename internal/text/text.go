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

// Wrap returns a text in lines of at most width characters, unless a word is longer.
func Wrap(text string, width int) string {
	line := regexp.MustCompile(fmt.Sprintf(`(.{1,%d})(?: |$)`, width))
	return strings.TrimSuffix(line.ReplaceAllString(JoinLines(text), "$1\n"), "\n")
}
