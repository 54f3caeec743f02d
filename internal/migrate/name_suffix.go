package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// addNameSuffix renames a job, and the pods of the job in all texts of the manifest. It returns a description of
// each renamed pod. An object without a name is not changed.
func addNameSuffix(tree map[string]any, suffix string) []string {
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if suffix == "" || name == "" {
		return nil
	}
	metadata["name"] = name + suffix
	// The name of a pod ends with its index, after the name of its role. It is not a part of a path or a longer name.
	pods := regexp.MustCompile(`(^|[^A-Za-z0-9./_-])` + regexp.QuoteMeta(name) + `((?:-[a-z0-9]+)*-[0-9]+)\b`)
	var renamed []string
	rename := func(text string) string {
		return pods.ReplaceAllStringFunc(text, func(match string) string {
			parts := pods.FindStringSubmatch(match)
			note := fmt.Sprintf("the suffix renames %s%s to %s%s%s", name, parts[2], name, suffix, parts[2])
			if !slices.Contains(renamed, note) {
				renamed = append(renamed, note)
			}
			return parts[1] + name + suffix + parts[2]
		})
	}
	tree["spec"] = renameTexts(tree["spec"], rename)
	return renamed
}

// renameTexts returns a value with all of its texts renamed. It changes objects and lists.
func renameTexts(value any, rename func(string) string) any {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "-") {
			return rename(v)
		}
	case []any:
		for i := range v {
			v[i] = renameTexts(v[i], rename)
		}
	case map[string]any:
		for key := range v {
			v[key] = renameTexts(v[key], rename)
		}
	}
	return value
}
