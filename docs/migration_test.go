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
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/origin"
)

// marked is a place of a guide that shows a migration: of which manifest, and for which
// gang scheduler, if for one.
var marked = regexp.MustCompile(`(?s)<!-- migrated: (\S+)(?: for (\S+))? -->\n.*?<!-- /migrated -->\n`)

// TestMigrationGuides keeps what the guides show of migrations: a manifest, what rollcall
// migrate makes of it, and its report.
func TestMigrationGuides(t *testing.T) {
	pages, err := filepath.Glob("migration/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d guides: %v", len(pages), err)
	}
	shown := map[string]bool{}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			check(t, page, marked.ReplaceAllFunc(text, func(place []byte) []byte {
				words := marked.FindSubmatch(place)
				shown[string(words[1])] = true
				return sideBySide(t, string(words[1]), origin.Scheduler(words[2]))
			}))
		})
	}
	examples, err := filepath.Glob("migration/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if name := "examples/" + filepath.Base(e); !shown[name] {
			t.Errorf("no guide shows %s", name)
		}
	}
}

// sideBySide is a table with a manifest and its migration, and the report below.
func sideBySide(t *testing.T, file string, scheduler origin.Scheduler) []byte {
	t.Helper()
	before, err := os.ReadFile(filepath.Join("migration", file))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read(filepath.Base(file), bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	result := migrate.Migrator{Config: gang.Config{ClusterDomain: gang.DefaultClusterDomain}, Scheduler: scheduler}.Migrate(docs)
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
	fmt.Fprintf(&out, "<!-- migrated: %s -->\n<table>\n<tr><th>before</th><th>after</th></tr>\n<tr valign=\"top\"><td>\n\n```yaml\n%s```\n\n</td><td>\n\n```yaml\n%s```\n\n</td></tr>\n</table>\n\n",
		mark, before, after.Bytes())
	fmt.Fprintf(&out, "```console\n$ %s\n%s```\n<!-- /migrated -->\n", command, report.String())
	return out.Bytes()
}
