package docs_test

import (
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPictures generates pictures of terminals from outputs that pages show and other tests verify.
func TestPictures(t *testing.T) {
	for picture, c := range map[string]struct{ page, command, title string }{
		"status": {"see-a-gang", "rollcall status train --watch", "a gang after a restart"},
		"vet":    {"check-manifests", "rollcall vet -f job.yaml", "the mistakes in a manifest"},
	} {
		page, err := os.ReadFile("tasks/" + c.page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, block, found := strings.Cut(string(page), "```console\n$ "+c.command+"\n")
		block, _, isClosed := strings.Cut(block, "```")
		if !found || !isClosed {
			t.Fatalf("%s.md has no block with the output of %q", c.page, c.command)
		}
		checkPage(t, "pictures/"+picture+".svg", []byte(renderTerminal(c.title, "$ "+c.command+"\n"+block)))
	}
}

// lineColors are the colors of the lines that start so, after their indentation.
var lineColors = map[string]string{"$ ": "#8fd18f", "error ": "#f0716b", "First failure": "#f0716b"}

// renderTerminal returns the picture of a terminal with a text. It works on light and dark pages, and needs no font
// but a monospaced one.
func renderTerminal(title, text string) string {
	const charWidth, lineHeight, margin, maxColumns = 7.9, 19, 16, 100
	var lines []string
	columns := 0
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		for _, part := range wrapLine(line, maxColumns) {
			lines, columns = append(lines, part), max(columns, utf8.RuneCountInString(part))
		}
	}
	width, height := int(float64(columns)*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(&out, "<title>A terminal: %s</title>\n", title)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="#1f2430"/>`+"\n", width, height)
	fmt.Fprintf(&out, `<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#d7dae0" `+
		`xml:space="preserve">`+"\n")
	for i, line := range lines {
		color := ""
		for start, value := range lineColors {
			if strings.HasPrefix(strings.TrimLeft(line, " "), start) {
				color = fmt.Sprintf(" fill=%q", value)
			}
		}
		fmt.Fprintf(&out, `<text x="%d" y="%d"%s>%s</text>`+"\n",
			margin, margin+lineHeight*i+14, color, html.EscapeString(line))
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String()
}

// wrapLine breaks a line at spaces into parts of at most the given length, which have the indentation of the line.
func wrapLine(line string, length int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var parts []string
	for len(line) > length {
		end := strings.LastIndex(line[:length+1], " ")
		if end <= len(indent) {
			break
		}
		parts, line = append(parts, line[:end]), indent+line[end+1:]
	}
	return append(parts, line)
}
