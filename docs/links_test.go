package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks checks that each relative link in a Markdown file of the repository leads to a file, and to a heading of
// that file if it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	const root = ".."
	files, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others",
		"--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatalf("listing Markdown files: %v", err)
	}
	for name := range strings.FieldsSeq(string(files)) {
		// The changelog describes former states, and links to pages of that time. The texts of the checks are the source
		// of docs/reference/vet.md, and their links start there.
		if strings.Contains(name, "testdata/") || name == "CHANGELOG.md" || name == "internal/vet/checks.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, but not committed
		}
		if err != nil {
			t.Fatalf("reading a page: %v", err)
		}
		for _, link := range findLinks(string(text)) {
			if reason := checkLink(filepath.Join(root, name), link); reason != "" {
				t.Errorf("%s: link %s: %s", name, link, reason)
			}
		}
	}
}

var (
	codePattern   = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	targetPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// findLinks returns the targets of the links in a page that are not addresses of the web.
func findLinks(page string) []string {
	var links []string
	for _, match := range targetPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			links = append(links, match[1])
		}
	}
	return links
}

// checkLink returns why a link of a page is broken; empty if it is not.
func checkLink(page, link string) string {
	path, anchor, hasAnchor := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.Join(filepath.Dir(page), path)
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return "the file does not exist"
	case !hasAnchor || info.IsDir() || filepath.Ext(target) != ".md":
		return ""
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") && headingAnchor(strings.TrimLeft(line, "# ")) == anchor {
			return ""
		}
	}
	if strings.Contains(string(text), `id="`+anchor+`"`) {
		return ""
	}
	return "the page has no such heading"
}

var anchorPattern = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headingAnchor returns the anchor that GitHub gives to a heading.
func headingAnchor(heading string) string {
	heading = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(strings.TrimSpace(heading), "")
	return strings.ReplaceAll(strings.ToLower(anchorPattern.ReplaceAllString(heading, "")), " ", "-")
}
