package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest/typeerror"
)

// Object is one Kubernetes object of a document: the document itself, or an item of a list.
type Object struct {
	// Document is the document that contains the object.
	Document *Document
	// APIVersion and Kind are the type. An item of a JobList may have no APIVersion.
	APIVersion, Kind string
	// Namespace is the namespace in the manifest. It is empty if the manifest has none.
	Namespace string
	// Name is the name of the object.
	Name string
	// Labels and Annotations are those of the object. They omit values that are not strings, which
	// the API server rejects.
	Labels, Annotations map[string]string
	// JSON is the object as JSON.
	JSON []byte

	jsonPointer string // the pointer of the object in the document
}

// Objects returns the objects of the document in their order, including items of lists. It omits
// objects without a kind.
func (d *Document) Objects() []Object {
	all := listObjects(Object{Document: d, JSON: d.jsonText})
	return slices.DeleteFunc(all, func(o Object) bool { return o.Kind == "" })
}

// ListObjects returns the objects of all documents in their order.
func ListObjects(docs []*Document) []Object {
	var objects []Object
	for _, d := range docs {
		objects = append(objects, d.Objects()...)
	}
	return objects
}

func stringOrEmpty(v any) string {
	s, _ := v.(string)
	return s
}

// stringMap returns the strings of a JSON mapping. It returns an empty map for any other value.
func stringMap(v any) map[string]string {
	tree, _ := v.(map[string]any)
	out := make(map[string]string, len(tree))
	for key, value := range tree {
		if s, ok := value.(string); ok {
			out[key] = s
		}
	}
	return out
}

// HasFrameworkLabel reports whether the object has the label [gang.LabelFramework], even with a value
// that is not a string.
func (o Object) HasFrameworkLabel() bool {
	var head struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"labels"`
		} `json:"metadata"`
	}
	return json.Unmarshal(o.JSON, &head) == nil && head.Metadata.Labels[gang.LabelFramework] != nil
}

// DecodeWorkload decodes a workload, with or without the framework label. The result is false if the
// object is not a workload. unknown are the paths of fields that the types of this build do not have.
// An API server of the same version drops or rejects them. The error reports an object that no API
// server accepts. It wraps a [json.UnmarshalTypeError] if a value has the wrong type.
func (o Object) DecodeWorkload() (w gang.Workload, unknown []string, ok bool, err error) {
	w, ok = newWorkload(o.Kind, o.APIVersion)
	if !ok {
		return w, nil, false, nil
	}
	if unknown, err = o.DecodeStrict(w.Object()); err != nil {
		return w, nil, true, fmt.Errorf("decoding %s: %w", o.Kind, err)
	}
	return w, unknown, true, nil
}

// DecodeStrict decodes the object like [Object.Decode]. unknown are the paths of the fields that the type does not
// have. The error is a [json.UnmarshalTypeError] if a value has the wrong type.
func (o Object) DecodeStrict(into any) (unknown []string, err error) {
	return typeerror.Decode(o.JSON, into)
}

// Decode decodes the object into a Go type with the rules of the API server: the names of fields are
// case-sensitive.
func (o Object) Decode(into any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, into); err != nil {
		return fmt.Errorf("decoding %s: %w", o.Kind, err)
	}
	return nil
}

// newWorkload returns an empty workload of the given kind. The result is false if the kind or the
// version is not that of a workload. An empty apiVersion matches, because an item of a JobList needs
// no type.
func newWorkload(kind, apiVersion string) (gang.Workload, bool) {
	w, ok := gang.NewWorkload(gang.Kind(kind))
	if !ok || apiVersion != "" && apiVersion != w.GroupKind().Group+"/v1" {
		return gang.Workload{}, false
	}
	return w, true
}

// listObjects returns the object with the JSON of the argument, or the items of a list instead, including items of
// nested lists. The kind of the argument is the default for an object without one: the items of a JobList need no type.
// listObjects omits values that are not mappings, because they are not Kubernetes objects.
func listObjects(o Object) []Object {
	var head struct {
		APIVersion any             `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   any             `json:"metadata"`
		Items      json.RawMessage `json:"items"`
	}
	if json.Unmarshal(o.JSON, &head) != nil {
		return nil
	}
	o.Kind = cmp.Or(head.Kind, o.Kind)
	itemKind, hasListKind := strings.CutSuffix(o.Kind, "List")
	var items []json.RawMessage
	if !hasListKind || json.Unmarshal(head.Items, &items) != nil {
		meta, _ := head.Metadata.(map[string]any)
		o.APIVersion = stringOrEmpty(head.APIVersion)
		o.Namespace, o.Name = stringOrEmpty(meta["namespace"]), stringOrEmpty(meta["name"])
		o.Labels, o.Annotations = stringMap(meta["labels"]), stringMap(meta["annotations"])
		return []Object{o}
	}
	var objects []Object
	for i, text := range items {
		objects = append(objects, listObjects(Object{
			Document: o.Document, Kind: itemKind, JSON: text, jsonPointer: o.jsonPointer + "/items/" + strconv.Itoa(i),
		})...)
	}
	return objects
}

// SplitList returns one document for each object of a list, including objects of nested lists. It
// returns the document itself if the document is not a list, is an empty list, or has no content.
func (d *Document) SplitList() []*Document {
	var docs []*Document
	for _, o := range listObjects(Object{JSON: d.jsonText}) {
		if o.jsonPointer == "" {
			return []*Document{d}
		}
		docs = append(docs, &Document{
			Source:    d.Source,
			Number:    d.Number,
			StartLine: d.StartLine,
			jsonText:  setDefaultKind(o.JSON, o.Kind),
			modified:  true,
		})
	}
	if len(docs) == 0 {
		return []*Document{d}
	}
	return docs
}

// setDefaultKind sets the kind of an object that has none. It returns the text unchanged if the object
// has a kind or is not a mapping.
func setDefaultKind(text []byte, kind string) []byte {
	var tree map[string]json.RawMessage
	if json.Unmarshal(text, &tree) != nil || tree["kind"] != nil {
		return text
	}
	tree["kind"], _ = json.Marshal(kind) // neither a string nor decoded JSON fails
	text, _ = json.Marshal(tree)
	return text
}

// JobTemplatePrefix is the path of the Job template in a CronJob, with a final period.
const JobTemplatePrefix = "spec.jobTemplate."

// cronJobNameSuffix stands for the suffix that the CronJob controller appends to the name of a Job.
// The suffix is the scheduled time in minutes, which has 8 digits until the year 2160 (getJobName
// in pkg/controller/cronjob of Kubernetes).
const cronJobNameSuffix = "-00000000"

// JobOfCronJob returns the Job of one run of a CronJob, in the namespace of the CronJob. It returns o and
// false if o is not a CronJob or has no valid Job template.
func (o Object) JobOfCronJob() (Object, bool) {
	if o.Kind != "CronJob" || o.APIVersion != "batch/v1" {
		return o, false
	}
	var cronJob struct {
		Spec struct {
			JobTemplate map[string]any `json:"jobTemplate"`
		} `json:"spec"`
	}
	if o.Decode(&cronJob) != nil || cronJob.Spec.JobTemplate == nil {
		return o, false
	}
	tree := cronJob.Spec.JobTemplate
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	job := o
	job.Kind, job.Name = "Job", o.Name+cronJobNameSuffix
	metadata["name"], metadata["namespace"] = job.Name, job.Namespace
	tree["apiVersion"], tree["kind"], tree["metadata"] = job.APIVersion, job.Kind, metadata
	text, err := json.Marshal(tree)
	if err != nil {
		return o, false
	}
	job.Labels, job.Annotations = stringMap(metadata["labels"]), stringMap(metadata["annotations"])
	job.JSON = text
	return job, true
}

// KindCount is the number of objects of one kind.
type KindCount struct {
	// Group is the API group of the kind. It is empty for the core group.
	Group string `json:"group,omitempty"`
	// Kind is the kind of the objects, such as PyTorchJob.
	Kind string `json:"kind"`
	// Count is at least 1.
	Count int `json:"count"`
}

// CountKinds counts objects by kind. The result is sorted by kind and group.
func CountKinds(objects []Object) []KindCount {
	byKind := map[schema.GroupKind]int{}
	for _, o := range objects {
		byKind[schema.GroupKind{Group: o.APIGroup(), Kind: o.Kind}]++
	}
	var counts []KindCount
	for kind, n := range byKind {
		counts = append(counts, KindCount{Group: kind.Group, Kind: kind.Kind, Count: n})
	}
	slices.SortFunc(counts, func(a, b KindCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	return counts
}

// APIGroup returns the API group of the object. It is empty for the core group.
func (o Object) APIGroup() string { return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group }

// String returns the count and the kind, such as "2 PyTorchJobs". It names the API group of a Job
// that is not a Job of Kubernetes.
func (c KindCount) String() string {
	kind := c.Kind
	switch {
	case c.Count == 1:
	case strings.HasSuffix(kind, "s"):
		kind += "es"
	case strings.HasSuffix(kind, "y"):
		kind = strings.TrimSuffix(kind, "y") + "ies"
	default:
		kind += "s"
	}
	if c.Kind == "Job" && c.Group != batchv1.GroupName {
		kind += " of " + c.Group
	}
	return fmt.Sprintf("%d %s", c.Count, kind)
}
