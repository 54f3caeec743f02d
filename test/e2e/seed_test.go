package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// seedFile is the document that the project's first example came from. It stands
// beside the repository, not in it, and is read, never kept.
var seedFile = filepath.Join(root, "..", "shared", "seeds", "000_32e4db4df90edfa5.txt")

// seed is what that document holds: a program, and a PyTorchJob that runs it.
type seed struct {
	program string
	command []string
	ranks   int32
}

// readSeed cuts both out of the document. Without it our own example serves, and
// the test says so.
func readSeed(t *testing.T) seed {
	t.Helper()
	text, err := os.ReadFile(seedFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s is not there: running examples/pytorch/all_reduce.py instead", seedFile)
		return seed{program: readExample(t), command: []string{"python3", "demo.py"}, ranks: 2}
	}
	if err != nil {
		t.Fatal(err)
	}
	var out seed
	for _, block := range blocks(string(text)) {
		switch {
		case strings.Contains(block, "init_process_group"):
			out.program = block
		case strings.Contains(block, "kind: PyTorchJob"):
			if out.command, out.ranks, err = pytorchJob(block); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out.program == "" || out.ranks == 0 {
		t.Fatalf("%s holds no program, or no PyTorchJob", seedFile)
	}
	return out
}

func readExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", "pytorch", "all_reduce.py"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the fenced blocks of a text.
func blocks(text string) []string {
	var out []string
	for i, part := range strings.Split(text, "```") {
		if i%2 == 1 {
			out = append(out, strings.TrimLeft(part, "\n"))
		}
	}
	return out
}

// pytorchJob reads the command and the number of replicas of all types.
func pytorchJob(text string) (command []string, ranks int32, err error) {
	var job struct {
		Spec struct {
			PytorchReplicaSpecs map[string]struct {
				Replicas int32
				Template struct {
					Spec struct {
						Containers []struct{ Command []string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &job); err != nil {
		return nil, 0, fmt.Errorf("reading the seed's PyTorchJob: %w", err)
	}
	for _, r := range job.Spec.PytorchReplicaSpecs {
		ranks += r.Replicas
		command = r.Template.Spec.Containers[0].Command
	}
	return command, ranks, nil
}
