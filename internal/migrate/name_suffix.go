package migrate

import (
	"fmt"
	"regexp"
	"slices"

	"rollcall.training/internal/manifest"
)

// decode decodes a job, with the suffix of the migration after its name and after the name in the names of its pods. It
// returns a description of each renamed pod.
func (m Migrator) decode(o manifest.Object, tree *map[string]any) (renamed []string, err error) {
	if m.NameSuffix == "" || o.Name == "" {
		return nil, o.Decode(tree)
	}
	// The name of a pod ends with its index, after the name of its role. It is not a part of a path or a longer name.
	pods := regexp.MustCompile(`(\\[nt]|[^A-Za-z0-9./_-])` + regexp.QuoteMeta(o.Name) + `((?:-[a-z0-9]+)*-[0-9]+)\b`)
	text, end := []byte(nil), 0
	for _, match := range pods.FindAllSubmatchIndex(o.JSON, -1) {
		if pod := string(o.JSON[match[4]:match[5]]); o.JSON[match[1]] != '-' {
			text = append(append(text, o.JSON[end:match[3]]...), o.Name+m.NameSuffix...)
			end = match[4]
			renamed = append(renamed, fmt.Sprintf("the suffix renames %s%s to %[1]s%[3]s%[2]s", o.Name, pod, m.NameSuffix))
		}
	}
	o.JSON = append(text, o.JSON[end:]...)
	err = o.Decode(tree)
	if metadata, ok := (*tree)["metadata"].(map[string]any); ok {
		metadata["name"] = o.Name + m.NameSuffix
	}
	slices.Sort(renamed)
	return slices.Compact(renamed), err
}
