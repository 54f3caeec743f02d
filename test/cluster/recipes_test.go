package cluster

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecipeUnusedFields: what a recipe does not use is no part of its hash, so that a new field leaves images valid.
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

// TestRecipes: no two recipes have one name, and what they let a shell do is something that a shell can read.
func TestRecipes(t *testing.T) {
	if len(Recipes) != 11 {
		t.Errorf("%d recipes have names of their own, want 11", len(Recipes))
	}
	for name, recipe := range Recipes {
		commands := slices.Concat(recipe.Setup, recipe.SourcePatches)
		if len(recipe.Wheels) > 0 {
			commands = append(commands, wheelHook(recipe.Wheels))
		}
		if len(recipe.Sources) > 0 {
			commands = append(commands, recipe.sourceHook())
		} else if len(recipe.SourceEnv)+len(recipe.SourcePatches)+len(recipe.BuildPackages) > 0 {
			t.Errorf("%s: it says how to build sources, and has none", name)
		}
		for _, command := range commands {
			if output, err := exec.CommandContext(t.Context(), "sh", "-nc", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", name, err, output, command)
			}
		}
	}
}

// TestRecipeSourceHook: what a recipe says reaches the commands as it is, whatever a shell would make of it.
func TestRecipeSourceHook(t *testing.T) {
	hook := Recipe{
		Sources: []string{"a==1; exit"}, SourceEnv: []string{"FLAGS=it's -w"}, SourcePatches: []string{"cd a", "rm 'b c'"},
		BuildPackages: []string{"g++"},
	}.sourceHook()
	for _, part := range []string{" 'a==1; exit'\n", "install python3-pip 'g++' \n", shellQuote("(cd a)\n(rm 'b c')\nenv 'FLAGS=it'\\''s -w' pip3 ")} {
		if part = strings.Trim(part, "'"); !strings.Contains(hook, part) {
			t.Errorf("the hook is without %q:\n%s", part, hook)
		}
	}
}
