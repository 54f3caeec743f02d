package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall.training/injectors"
)

// namesOfOthers are the files and the names of frameworks that they contain, because the API of another system has
// the same name. The values are the reasons.
var namesOfOthers = map[string]string{
	"gang/keys.go: generic":                           "the description of an annotation names its only framework",
	"gang/keys.go: mpi":                               "an annotation selects the implementation of the standard MPI",
	"internal/command/wrappers.go: pytorch":           "an option of Nsight Systems",
	"internal/failure/lost_peer.go: tensorflow":       "the coordination service of XLA prints it in its errors",
	"internal/agent/config.go: mpi":                   "the directory of the hostfile",
	"internal/migrate/kubeflow/kinds.go: jax":         "containers of a JAXJob",
	"internal/migrate/kubeflow/kinds.go: mpi":         "an MPIJob runs programs of MPI",
	"internal/migrate/kubeflow/kinds.go: paddle":      "containers of a PaddleJob",
	"internal/migrate/kubeflow/kinds.go: pytorch":     "containers of a PyTorchJob",
	"internal/migrate/kubeflow/kinds.go: tensorflow":  "containers of a TFJob",
	"internal/migrate/kubeflow/kinds.go: xgboost":     "containers of an XGBoostJob",
	"internal/migrate/trainer/ml_policy.go: jax":      "a policy of Kubeflow Trainer",
	"internal/migrate/trainer/ml_policy.go: mpi":      "a policy of Kubeflow Trainer",
	"internal/migrate/trainer/ml_policy.go: pytorch":  "the framework of the policy torch of Kubeflow Trainer",
	"internal/migrate/trainer/ml_policy.go: xgboost":  "a policy of Kubeflow Trainer",
	"internal/migrate/volcano/plugins.go: mpi":        "a plugin of Volcano",
	"internal/migrate/volcano/plugins.go: pytorch":    "a plugin of Volcano",
	"internal/migrate/volcano/plugins.go: tensorflow": "a plugin of Volcano",
	"internal/vet/launcher_flags.go: deepspeed":       "a part of flags of Hugging Face Accelerate",
}

// TestOnlyInjectorsNameFrameworks checks that the facts of a framework are in its folder: no other production
// code has the name of a framework in a string, or a string that is the name of a launcher. Messages may name a
// launcher.
func TestOnlyInjectorsNameFrameworks(t *testing.T) {
	frameworks := injectors.Builtin().Frameworks()
	var launchers []string
	for _, l := range frameworks.Launchers() {
		launchers = append(launchers, regexp.QuoteMeta(l.Name))
	}
	names := regexp.MustCompile(`\b(?:` + strings.Join(frameworks.Names(), "|") + `)\b|` +
		"^[\"`](?:" + strings.Join(launchers, "|") + ")[\"`]$")
	found := map[string]bool{}
	for _, root := range []string{"cmd", "gang", "internal", "manager", "plan"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			isCode := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
			if err != nil || d.IsDir() || !isCode || strings.HasPrefix(name, "internal/testing/") {
				return err
			}
			all, err := listNames(path, names)
			for _, framework := range all {
				found[name+": "+framework] = true
				if namesOfOthers[name+": "+framework] == "" {
					t.Errorf("%s names the framework %s; make the fact a field of gang.Framework", name, framework)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for entry := range namesOfOthers {
		if !found[entry] {
			t.Errorf("the code does not contain %s; remove it from the list", entry)
		}
	}
}

// listNames returns the names that the strings of a Go file contain.
func listNames(path string, names *regexp.Regexp) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			for _, name := range names.FindAllString(literal.Value, -1) {
				found = append(found, strings.Trim(name, "\"`"))
			}
		}
		return true
	})
	slices.Sort(found)
	return slices.Compact(found), nil
}
