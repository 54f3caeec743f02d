package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// migratedBlockPattern matches a generated block of a guide. The groups are the manifest and the
// optional gang scheduler.
var migratedBlockPattern = regexp.MustCompile(`(?s)<!-- migrated: (\S+)(?: for (\S+))? -->\n.*?<!-- /migrated -->\n`)

// TestMigrationGuides generates the examples of the migration guides. An example shows a manifest,
// the output of rollcall migrate, and the report.
func TestMigrationGuides(t *testing.T) {
	pages, err := filepath.Glob("tasks/migrate/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("found %d guides: %v", len(pages), err)
	}
	shown := map[string]bool{}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			checkPage(t, page, migratedBlockPattern.ReplaceAllFunc(text, func(block []byte) []byte {
				groups := migratedBlockPattern.FindSubmatch(block)
				example, scheduler := string(groups[1]), source.Scheduler(groups[2])
				shown[example] = true
				return formatMigration(t, example, scheduler)
			}))
		})
	}
	examples, err := filepath.Glob("tasks/migrate/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if name := "examples/" + filepath.Base(e); !shown[name] {
			t.Errorf("no guide contains %s", name)
		}
	}
}

// formatMigration returns a block with a table of the manifest before and after the migration,
// followed by the report.
func formatMigration(t *testing.T, file string, scheduler source.Scheduler) []byte {
	t.Helper()
	before, err := os.ReadFile(filepath.Join("tasks", "migrate", file))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read(filepath.Base(file), bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	migrator := migrate.Migrator{
		Config:    gang.Config{ClusterDomain: gang.DefaultClusterDomain},
		Scheduler: scheduler,
	}
	result := migrator.Migrate(docs)
	var after bytes.Buffer
	if err := manifest.Write(&after, manifest.YAML, result.Documents); err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	if err := migrate.WriteText(&report, result.Reports, false); err != nil {
		t.Fatal(err)
	}
	command, mark := "rollcall migrate -f "+filepath.Base(file), file
	if scheduler != "" {
		command, mark = command+" --gang-scheduler "+string(scheduler), mark+" for "+string(scheduler)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "<!-- migrated: %s -->\n<table>\n<tr><th>before</th><th>after</th></tr>\n", mark)
	out.WriteString("<tr valign=\"top\"><td>\n\n")
	fmt.Fprintf(&out, "```yaml\n%s```\n\n</td><td>\n\n```yaml\n%s```\n\n</td></tr>\n</table>\n\n", before, after.Bytes())
	fmt.Fprintf(&out, "```console\n$ %s\n%s```\n<!-- /migrated -->\n", command, report.String())
	return out.Bytes()
}
