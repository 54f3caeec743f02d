package docs_test

import (
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// restartBlock matches the console blocks of the tutorial that show how a gang restarts.
var restartBlock = regexp.MustCompile("(?s)```console\n([^`]*\\$ rollcall status fails-once[^`]*)```")

// TestPicture generates the picture of a restart from the outputs in the tutorial.
func TestPicture(t *testing.T) {
	page, err := os.ReadFile("tutorials/first-gang.md")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, block := range restartBlock.FindAllSubmatch(page, -1) {
		text += string(block[1])
	}
	if text == "" {
		t.Fatal("the tutorial shows no restart")
	}
	checkPage(t, "pictures/restart.svg", []byte(renderTerminal(text)))
}

// renderTerminal returns the picture of a terminal with a text. It works on light and dark pages, and needs no font
// but a monospaced one.
func renderTerminal(text string) string {
	const charWidth, lineHeight, margin = 7.9, 19, 16
	lines, columns := strings.Split(strings.TrimSpace(text), "\n"), 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(&out, "<title>A terminal: a gang restarts</title>\n")
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="#1f2430"/>`+"\n", width, height)
	fmt.Fprintf(&out, `<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#d7dae0" `+
		`xml:space="preserve">`+"\n")
	for i, line := range lines {
		color := ""
		switch {
		case strings.HasPrefix(line, "$ "):
			color = ` fill="#8fd18f"`
		case strings.Contains(line, "Restarting"):
			color = ` fill="#f0b45a"`
		}
		fmt.Fprintf(&out, `<text x="%d" y="%d"%s>%s</text>`+"\n",
			margin, margin+lineHeight*i+14, color, html.EscapeString(line))
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String()
}
