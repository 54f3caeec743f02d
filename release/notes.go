package release

import (
	"fmt"
	"strings"
)

// unreleased is the heading of the changes since the last release.
const unreleased = "[Unreleased]"

// ExtractNotes returns the section of a version in a changelog in the format of Keep a Changelog. A
// version without a section has the notes of the section [Unreleased]. It returns an error if both are
// absent.
func ExtractNotes(changelog, version string) (string, error) {
	wanted := "[" + strings.TrimPrefix(version, "v") + "]"
	sections := splitSections(changelog)
	for _, heading := range []string{wanted, unreleased} {
		if notes, ok := sections[heading]; ok {
			return "# Rollcall " + version + "\n\n" + strings.TrimSpace(notes) + "\n", nil
		}
	}
	return "", fmt.Errorf("the changelog has neither a section %s nor %s", wanted, unreleased)
}

// splitSections returns the text of the sections by the first word of their headings.
func splitSections(changelog string) map[string]string {
	sections := map[string]string{}
	current := ""
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			current, _, _ = strings.Cut(strings.TrimSpace(heading), " ")
			sections[current] = ""
			continue
		}
		if current != "" {
			sections[current] += line
		}
	}
	return sections
}
