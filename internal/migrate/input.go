package migrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/trainer"
)

// configMapTexts are the values of ConfigMaps by the names of the ConfigMaps. Scripts in them can
// contain former pod names.
type configMapTexts map[string][]string

func (c configMapTexts) addDocuments(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			var m corev1.ConfigMap
			if o.Kind != "ConfigMap" || o.Decode(&m) != nil {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(m.Data)) {
				c[m.Name] = append(c[m.Name], m.Data[key])
			}
		}
	}
}

// findReferenced returns the values of the ConfigMaps whose names are strings in the objects. A job
// thereby sees the scripts that it mounts, and not those of other jobs.
func (c configMapTexts) findReferenced(objects ...[]byte) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		quoted, _ := json.Marshal(name)
		if slices.ContainsFunc(objects, func(text []byte) bool { return bytes.Contains(text, quoted) }) {
			out = append(out, c[name]...)
		}
	}
	return out
}

// runtimeCatalog holds the runtimes that TrainJobs may name: first those of the input, then those
// of [Migrator.Runtimes]. The first runtime of a name is used.
type runtimeCatalog struct {
	runtimes []manifest.Object
	// namespace is that of objects that name none.
	namespace string
}

// isRuntime reports whether the object is a TrainingRuntime or a ClusterTrainingRuntime.
func isRuntime(o manifest.Object) bool {
	return o.APIGroup() == trainer.Group && trainer.IsRuntimeKind(o.Kind)
}

func (c *runtimeCatalog) addDocuments(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			if isRuntime(o) {
				c.runtimes = append(c.runtimes, o)
			}
		}
	}
}

// findTree implements [source.Context.FindRuntime].
func (c *runtimeCatalog) findTree(kind, namespace, name string) map[string]any {
	if found := c.find(kind, namespace, name); found != nil {
		var tree map[string]any
		if found.Decode(&tree) == nil {
			return tree
		}
	}
	return nil
}

func (c *runtimeCatalog) find(kind, namespace, name string) *manifest.Object {
	for i := range c.runtimes {
		t := &c.runtimes[i]
		isVisible := kind == trainer.KindClusterTrainingRuntime ||
			cmp.Or(t.Namespace, c.namespace) == cmp.Or(namespace, c.namespace)
		if t.Kind == kind && t.Name == name && isVisible {
			return t
		}
	}
	return nil
}

// findUsed returns the runtime that a TrainJob names; nil for all other objects.
func (c *runtimeCatalog) findUsed(job manifest.Object) *manifest.Object {
	kind, name, ok := trainer.ParseRuntimeRef(job.JSON)
	if !ok {
		return nil
	}
	return c.find(kind, job.Namespace, name)
}

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
