package gang

import (
	"fmt"
	"strings"

	"rollcall.training/internal/text"
)

// ShortenText returns at most 1024 bytes of a text for a message. The note of an Event cannot be longer
// (kubernetes pkg/apis/core/validation, noteLengthLimit).
func ShortenText(long string) string { return text.Shorten(long, maxShownLength) }

// SummarizeNames joins names with commas for a message. It replaces names beyond the limit by their number.
func SummarizeNames(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

// FormatCount returns a number and a noun in singular or plural for a message. The plural ends with s.
func FormatCount[N int | int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
