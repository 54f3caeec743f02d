package cluster

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecipeUnusedFields checks that unused fields do not change the hash of a recipe. So new
// fields keep existing images valid.
func TestRecipeUnusedFields(t *testing.T) {
	data, err := json.Marshal(Recipe{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Name":"a","Packages":null,"Suites":null,"Setup":null,"Env":null,"Entrypoint":null}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("a recipe without anything (-want +got):\n%s", diff)
	}
}

// TestRecipes checks that recipes have different names, and that a shell can parse their commands.
func TestRecipes(t *testing.T) {
	if len(Recipes) != 12 {
		t.Errorf("%d recipes have names of their own, want 12", len(Recipes))
	}
	for name, recipe := range Recipes {
		commands := slices.Concat(recipe.Setup, recipe.SourcePatches)
		if len(recipe.Wheels) > 0 {
			commands = append(commands, formatWheelHook(recipe.Wheels))
		}
		if len(recipe.Sources) > 0 {
			commands = append(commands, recipe.formatSourceHook())
		} else if len(recipe.SourceEnv)+len(recipe.SourcePatches)+len(recipe.BuildPackages) > 0 {
			t.Errorf("%s: it has build settings but no sources", name)
		}
		for _, command := range commands {
			if output, err := exec.CommandContext(t.Context(), "sh", "-nc", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", name, err, output, command)
			}
		}
	}
}

// TestRecipeSourceHook checks that special characters in a recipe are quoted.
func TestRecipeSourceHook(t *testing.T) {
	hook := Recipe{
		Sources: []string{"a==1; exit"}, SourceEnv: []string{"FLAGS=it's -w"}, SourcePatches: []string{"cd a", "rm 'b c'"},
		BuildPackages: []string{"g++"},
	}.formatSourceHook()
	for _, part := range []string{
		" 'a==1; exit'\n",
		"install python3-pip 'g++' \n",
		quoteForShell("(cd a)\n(rm 'b c')\nenv 'FLAGS=it'\\''s -w' pip3 "),
	} {
		if part = strings.Trim(part, "'"); !strings.Contains(hook, part) {
			t.Errorf("the hook does not contain %q:\n%s", part, hook)
		}
	}
}
