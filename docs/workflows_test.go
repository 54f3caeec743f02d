package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow contains the fields of a workflow of GitHub that the tests read. make lint checks the rest.
type workflow struct {
	Jobs map[string]struct {
		Strategy struct {
			Matrix struct{ Piece, Target []string }
		}
		Steps []struct{ Run string }
	}
}

func readWorkflow(t *testing.T, path string) workflow {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading a workflow: %v", err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatalf("parsing %s: %v", path, err)
	}
	return w
}

// TestNightlyPieces checks that the workflow runs each piece of .ci/nightly.
func TestNightlyPieces(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../.ci/nightly")
	if err != nil {
		t.Fatalf("reading the script: %v", err)
	}
	match := regexp.MustCompile(`(?m)^pieces=\((.+)\)$`).FindSubmatch(script)
	if match == nil {
		t.Fatal("the script has no list of pieces")
	}
	got := readWorkflow(t, "../.github/workflows/nightly.yaml").Jobs["piece"].Strategy.Matrix.Piece
	if diff := cmp.Diff(strings.Fields(string(match[1])), got); diff != "" {
		t.Errorf("pieces of the workflow: -script, +workflow:\n%s", diff)
	}
}

// TestWorkflowCommands checks that the scripts and the Make targets of the workflows exist.
func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	var makefile []byte
	files, err := filepath.Glob("../make/*.mk")
	if err != nil {
		t.Fatalf("finding parts of the Makefile: %v", err)
	}
	for _, path := range append(files, "../Makefile") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("reading the Makefile: %v", err)
		}
		makefile = append(makefile, text...)
	}
	paths, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("finding workflows: %v, %v", paths, err)
	}
	command := regexp.MustCompile(`make ([a-z][a-z-]*)|(\.ci/[a-z]+)`)
	for _, path := range paths {
		for _, job := range readWorkflow(t, path).Jobs {
			targets := slices.Clone(job.Strategy.Matrix.Target)
			for _, step := range job.Steps {
				for _, match := range command.FindAllStringSubmatch(step.Run, -1) {
					if _, err := os.Stat(filepath.Join("..", match[2])); err != nil {
						t.Errorf("%s runs %s: %v", path, match[2], err)
					}
					targets = append(targets, match[1])
				}
			}
			for _, target := range targets {
				if target != "" && !strings.Contains(string(makefile), "\n"+target+":") {
					t.Errorf("%s runs make %s, which does not exist", path, target)
				}
			}
		}
	}
}
