package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// maxDefaultLength is the length above which the table of values refers to values.yaml for a default.
const maxDefaultLength = 60

// TestChartValuesTable generates the table of the values in the README of the chart from the comments of
// values.yaml. These have the format of helm-docs: "# -- " starts the description of a value.
func TestChartValuesTable(t *testing.T) {
	const path = "../charts/rollcall/README.md"
	const start, end = "<!-- Generated from values.yaml: make golden. -->\n\n", "\n<!-- End of the values. -->\n"
	text, err := os.ReadFile("../charts/rollcall/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| value | default | description |\n|---|---|---|\n")
	formatValues(t, &table, "", document.Content[0])
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(page, []byte(start))
	_, after, foundEnd := bytes.Cut(rest, []byte(end))
	if !found || !foundEnd {
		t.Fatalf("%s has no section for the values", path)
	}
	checkPage(t, path, bytes.Join([][]byte{before, []byte(start), []byte(table.String()), []byte(end), after}, nil))
}

// formatValues adds a row for each described value of a mapping. A value without a description and without
// described values in it fails the test.
func formatValues(t *testing.T, table *strings.Builder, prefix string, mapping *yaml.Node) {
	t.Helper()
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		description := readDescription(key.HeadComment)
		switch {
		case description != "":
			fmt.Fprintf(table, "| `%s` | %s | %s |\n", path, formatDefault(t, value), description)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			formatValues(t, table, path+".", value)
		default:
			t.Errorf("values.yaml: %s has no description; add a comment that starts with \"# -- \"", path)
		}
	}
}

// readDescription returns the description in a comment, or nothing.
func readDescription(comment string) string {
	_, text, found := strings.Cut("\n"+comment, "\n# -- ")
	if !found {
		return ""
	}
	return strings.NewReplacer("\n# ", " ", "|", `\|`, "<", `\<`).Replace(text)
}

// formatDefault returns a default as code, on one line.
func formatDefault(t *testing.T, value *yaml.Node) string {
	t.Helper()
	var v any
	if err := value.Decode(&v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > maxDefaultLength {
		return "see values.yaml"
	}
	return "`" + string(text) + "`"
}
