package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/manifest/typeerror"
)

// Bounds of a file.
const (
	// MaxFileBytes is the maximum size of a file. A ConfigMap has at most 1 MiB.
	MaxFileBytes = 512 << 10
	// MaxProfiles is the maximum number of profiles.
	MaxProfiles = 256
	// MaxRules is the maximum number of rules of all scopes.
	MaxRules = 1024
	// maxProblems is the maximum number of problems of a file. More do not help anybody.
	maxProblems = 50
)

// Severity is the consequence of a [Problem].
type Severity string

// The severities of problems.
const (
	// Mistake means that the file is invalid.
	Mistake Severity = "error"
	// Advice means that the file is valid, but has a part without an effect.
	Advice Severity = "advice"
)

// Problem is a mistake in a policy file. Its JSON fields are stable.
type Problem struct {
	Severity Severity `json:"severity"`
	// Source is the name of the file.
	Source string `json:"source"`
	// Line and Column are the position in the file, from 1. They are 0 if they are unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the path of the field; empty for the entire file.
	Path string `json:"path,omitempty"`
	// Message describes the mistake and the fix.
	Message string `json:"message"`
}

// String returns source:line:column: path: message, without the parts that are unknown.
func (p Problem) String() string {
	var text strings.Builder
	text.WriteString(p.Source)
	for _, position := range []int{p.Line, p.Column} {
		if position > 0 {
			fmt.Fprintf(&text, ":%d", position)
		}
	}
	text.WriteString(": ")
	if p.Path != "" {
		text.WriteString(p.Path + ": ")
	}
	return text.String() + p.Message
}

// Read reads a policy file. The source is its name in problems. An empty file is a policy without
// limits. The policy is nil if a problem is not only advice. The frameworks are those that limits may
// name.
func Read(source string, text []byte, frameworks gang.Frameworks) (*Policy, []Problem) {
	r := &reader{source: source, frameworks: frameworks, minimal: newMinimalEvaluation()}
	file, ok := r.decode(text)
	if ok {
		r.validateFile(&file)
	}
	policy := &Policy{file: file, frameworks: frameworks}
	if ok && !r.failed() {
		policy.compile(r)
	}
	if r.failed() {
		return nil, r.problems
	}
	return policy, r.problems
}

// reader collects the problems of a file.
type reader struct {
	source     string
	frameworks gang.Frameworks
	object     manifest.Object
	problems   []Problem
	// instructions is the number of instructions of all regular expressions.
	instructions int
	// minimal evaluates all rules of the file, so that they have one limit of the cost.
	minimal *evaluation
}

func (r *reader) failed() bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Severity == Mistake })
}

// add reports a mistake in a field.
func (r *reader) add(path, format string, args ...any) {
	r.append(Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// advise reports a part without an effect.
func (r *reader) advise(path, format string, args ...any) {
	r.append(Problem{Path: path, Message: fmt.Sprintf(format, args...), Severity: Advice})
}

func (r *reader) append(p Problem) {
	if len(r.problems) >= maxProblems {
		return
	}
	p.Source, p.Severity = r.source, cmp.Or(p.Severity, Mistake)
	if p.Line == 0 && r.object.Document != nil {
		p.Line, p.Column = r.object.Position(p.Path)
	}
	r.problems = append(r.problems, p)
}

// decode returns the content of the file, or false after it reported why it cannot be read.
func (r *reader) decode(text []byte) (File, bool) {
	if len(text) > MaxFileBytes {
		r.add("", "has %d bytes; at most %d are allowed", len(text), MaxFileBytes)
		return File{}, false
	}
	docs, unreadable := manifest.ReadText(r.source, text, MaxFileBytes)
	for _, e := range unreadable {
		r.append(Problem{Line: e.Line, Column: e.Column, Message: e.Err.Error()})
	}
	if len(unreadable) > 0 {
		return File{}, false
	}
	// A document without a kind has no objects, but its limits must not be ignored in silence.
	docs = manifest.OmitEmpty(docs)
	objects := manifest.ListObjects(docs)
	const second = "a second document; one is expected"
	switch {
	case len(docs) > 1:
		r.append(Problem{Line: docs[1].StartLine, Message: second})
		return File{}, false
	case len(objects) > 1: // the items of a list
		r.append(Problem{Line: objects[1].Document.StartLine, Message: second})
		return File{}, false
	case len(objects) == 0 && len(bytes.TrimSpace(text)) == 0:
		return File{APIVersion: APIVersion, Kind: Kind}, true
	case len(objects) == 0:
		r.add("", "has no kind; write kind: %s", Kind)
		return File{}, false
	}
	r.object = objects[0]
	if r.object.Kind != Kind || r.object.APIVersion != APIVersion {
		r.add("apiVersion", "is %s %s; this release reads %s %s", r.object.APIVersion, r.object.Kind, APIVersion, Kind)
		return File{}, false
	}
	return r.decodeObject()
}

// decodeObject decodes the object of the file strictly.
func (r *reader) decodeObject() (File, bool) {
	var file File
	unknown, err := r.object.DecodeStrict(&file)
	if err != nil {
		r.explainTypeError(err)
		return File{}, false
	}
	for _, path := range unknown {
		r.add(path, "unknown field%s", suggestField(path))
	}
	return file, len(unknown) == 0
}

// explainTypeError reports a value of the wrong type.
func (r *reader) explainTypeError(err error) {
	if errors.As(err, new(*json.UnmarshalTypeError)) {
		for _, m := range typeerror.Explain(r.object.JSON, err) {
			r.add(m.Path, "%s", strings.TrimSuffix(m.Message+"; "+m.Fix, "; "))
		}
	}
	if !r.failed() {
		r.add("", "%s", err.Error())
	}
}

// validateFile reports the mistakes of a decoded file.
func (r *reader) validateFile(file *File) {
	r.checkMode("mode", file.Mode)
	if strings.ContainsAny(file.Contact, "\n\r") {
		r.add("contact", "must be one line")
	}
	if len(file.Profiles) > MaxProfiles {
		r.add("profiles", "has %d profiles; at most %d are allowed", len(file.Profiles), MaxProfiles)
		return
	}
	rules := len(file.Cluster.Rules)
	for i := range file.Profiles {
		rules += len(file.Profiles[i].Rules)
	}
	if rules > MaxRules { // before they are evaluated
		r.add("", "has %d rules; at most %d are allowed", rules, MaxRules)
		return
	}
	r.validateScope("cluster.", &file.Cluster)
	r.adviseDefaults("cluster.", file.Cluster.Defaults, file.Cluster.Limits, "cluster.")
	r.adviseRestarts("cluster.", file.Mode, file.Cluster.Limits, file.Cluster.Defaults)
	r.validateUnlabeled(file.Unlabeled)
	for i := range file.Profiles {
		r.validateProfile(fmt.Sprintf("profiles[%d].", i), file, i)
	}
	names := listRules(*file)
	for i, e := range file.Exemptions {
		r.validateExemption(fmt.Sprintf("exemptions[%d]", i), names, e)
	}
}

func (r *reader) validateScope(prefix string, s *Scope) {
	r.validateDefaults(prefix+"defaults.", s.Defaults)
	paths := map[string]string{selectableKey: prefix + selectableKey} // of names
	for _, l := range s.Limits.list() {
		paths[l.key] = prefix + "limits." + l.key
		r.validateLimit(prefix+"limits."+l.key, l.limit)
	}
	for i := range s.Rules {
		rule := &s.Rules[i]
		path := fmt.Sprintf("%srules[%d]", prefix, i)
		r.checkName(path+".name", rule.Name)
		if first, ok := paths[rule.Name]; ok {
			r.add(path+".name", "%s is also the name of %s on line %d", rule.Name, first, r.object.Line(first))
		}
		paths[rule.Name] = path
		r.checkMode(path+".mode", rule.Mode)
		r.validateRule(path, rule)
	}
}

func (r *reader) validateProfile(prefix string, file *File, i int) {
	p := &file.Profiles[i]
	r.checkName(prefix+"name", p.Name)
	if p.Name == ClusterScope {
		r.add(prefix+"name", "%s is the name of the scope for all namespaces", ClusterScope)
	}
	for j, earlier := range file.Profiles[:i] {
		if earlier.Name == p.Name {
			r.add(prefix+"name", "%s is also the name of the profile on line %d", p.Name,
				r.object.Line(fmt.Sprintf("profiles[%d].name", j)))
		}
		if !p.Selectable && !earlier.Selectable && slices.Contains(earlier.Namespaces.Names, "*") {
			r.add(prefix+"namespaces", "is never used: profile %s matches all namespaces before", earlier.Name)
		}
	}
	r.checkMode(prefix+"mode", p.Mode)
	if !p.Selectable || !p.Namespaces.isEmpty() {
		r.validateNamespaces(prefix+"namespaces", p.Namespaces)
	}
	r.validateScope(prefix, &p.Scope)
	r.adviseLooserLimits(prefix, *file, *p)
	r.adviseDefaults(prefix, p.Defaults, p.Limits, prefix)
	r.adviseDefaults(prefix, p.Defaults, file.Cluster.Limits, "cluster.")
	r.adviseRestarts(prefix, cmp.Or(p.Mode, file.Mode), p.Limits, p.Defaults, file.Cluster.Defaults)
	r.checkLockedByCluster(prefix, file.Cluster.Defaults, p.Defaults)
}

// adviseLooserLimits reports limits that cannot be reached, because the cluster has a stricter one.
func (r *reader) adviseLooserLimits(prefix string, file File, p Profile) {
	profile := p.Limits.maximums()
	for key, ofCluster := range file.Cluster.Limits.maximums() {
		if l := profile[key]; l != nil && *l > *ofCluster {
			r.advise(prefix+"limits."+key+".max", "has no effect above %d, the limit of the cluster", *ofCluster)
		}
	}
}

// maximums returns the maximums of numbers by the key of their limit.
func (l Limits) maximums() map[string]*int64 {
	maximums := map[string]*int64{}
	for _, item := range l.list() {
		switch l := item.limit.(type) {
		case *SizeLimit:
			maximums[item.key] = l.Max
		case *GPULimit:
			maximums[item.key] = l.Max
		case *RestartsLimit:
			maximums[item.key] = l.Max
		case *DisruptionsLimit:
			maximums[item.key] = l.Max
		}
	}
	maps.DeleteFunc(maximums, func(_ string, n *int64) bool { return n == nil })
	return maximums
}

// checkMode reports a mode that does not exist.
func (r *reader) checkMode(path string, m Mode) {
	if m != "" && !slices.Contains(Modes(), m) {
		r.add(path, "%q is not a mode; use enforce, warn, audit or off", m)
	}
}

// checkName reports a name that is not a DNS label.
func (r *reader) checkName(path, name string) {
	if name == "" {
		r.add(path, "is required")
		return
	}
	for _, message := range validation.IsDNS1123Label(name) {
		r.add(path, "%q: %s", name, message)
	}
}

// checkCount reports a number outside of 0 to [maxCount].
func (r *reader) checkCount(path string, n *int64) {
	if n != nil && (*n < 0 || *n > maxCount) {
		r.add(path, "%d must be a whole number from 0 to %d", *n, maxCount)
	}
}

// checkFramework reports a framework that does not exist.
func (r *reader) checkFramework(path, name string) {
	if known := r.frameworks.Names(); !slices.Contains(known, name) {
		r.add(path, "%q is not a framework%s; frameworks are %s", name, gang.SuggestMatch(name, known), joinNames(known))
	}
}

// suggestField returns "; did you mean …?" for a misspelled field, or an empty string.
func suggestField(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	return gang.SuggestMatch(name, listFields(reflect.TypeFor[File]()))
}

// listFields returns the names of all fields of a type of this package, and of the types of its fields.
func listFields(t reflect.Type) []string {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[File]().PkgPath() {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
		names = append(names, listFields(field.Type)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
