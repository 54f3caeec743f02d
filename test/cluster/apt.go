package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostAptSource is the package source of this machine.
type hostAptSource struct {
	mirror string
	suite  string
}

// detectAptSource returns the mirror and the suite of this Debian machine from its apt
// configuration.
func detectAptSource() (hostAptSource, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return hostAptSource{}, fmt.Errorf("detecting the distribution: %w", err)
	}
	suite := ""
	for line := range strings.Lines(string(release)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(value, `"`)
		}
	}
	files, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return hostAptSource{}, fmt.Errorf("listing apt's sources: %w", err)
	}
	for _, file := range append([]string{"/etc/apt/sources.list"}, files...) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var mirror string
		switch filepath.Ext(file) {
		case ".list":
			mirror = parseMirrorFromList(string(data), suite)
		case ".sources":
			mirror = parseMirrorFromSources(string(data), suite)
		}
		if mirror != "" {
			return hostAptSource{mirror: mirror, suite: suite}, nil
		}
	}
	return hostAptSource{}, errors.New(
		"the apt sources in /etc/apt have no mirror for the suite of this machine: only Debian is supported",
	)
}

// parseMirrorFromList returns the mirror of a suite in apt's one-line format: "deb [options] uri
// suite component...". It returns "" if there is none.
func parseMirrorFromList(content, suite string) string {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "deb" {
			continue
		}
		fields = fields[1:]
		if len(fields) > 0 && strings.HasPrefix(fields[0], "[") {
			end := slices.IndexFunc(fields, func(field string) bool { return strings.HasSuffix(field, "]") })
			fields = fields[end+1:]
		}
		if len(fields) >= 3 && fields[1] == suite && slices.Contains(fields[2:], "main") {
			return fields[0]
		}
	}
	return ""
}

// parseMirrorFromSources returns the mirror of a suite in apt's paragraph format, or "".
func parseMirrorFromSources(content, suite string) string {
	for paragraph := range strings.SplitSeq(content, "\n\n") {
		fields := map[string][]string{"enabled": {"yes"}}
		for line := range strings.Lines(paragraph) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
				fields[strings.ToLower(name)] = strings.Fields(value)
			}
		}
		if slices.Contains(fields["types"], "deb") && slices.Contains(fields["suites"], suite) &&
			slices.Contains(fields["components"], "main") && len(fields["uris"]) > 0 &&
			!slices.Contains(fields["enabled"], "no") {
			return fields["uris"][0]
		}
	}
	return ""
}
