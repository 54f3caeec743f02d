package policy

import (
	"fmt"
	"path"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (r *reader) validateNamespaces(path string, m NamespaceMatcher) {
	if m.isEmpty() {
		r.add(path, `matches no namespace; write names: ["*"] for all`)
	}
	for i, pattern := range m.Names {
		r.checkGlob(fmt.Sprintf("%s.names[%d]", path, i), pattern)
	}
	if m.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(m.Selector); err != nil {
			r.add(path+".selector", "%v", err)
		}
	}
}

// checkGlob reports a pattern that is not valid.
func (r *reader) checkGlob(fieldPath, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		r.add(fieldPath, "%q is not a pattern; * stands for any text", pattern)
	}
}

// validateExemption reports the mistakes of an exemption. The rules are all of the file.
func (r *reader) validateExemption(path string, rules []string, e Exemption) {
	if !slices.Contains(rules, e.Rule) {
		r.add(path+".rule", "%q does not exist; a rule is scope/name, such as %s/gpus", e.Rule, ClusterScope)
	}
	for _, message := range validation.IsDNS1123Label(e.Namespace) {
		r.add(path+".namespace", "%q: %s", e.Namespace, message)
	}
	if len(e.Gangs) == 0 {
		r.add(path+".gangs", `is required; write ["*"] for all gangs of the namespace`)
	}
	for i, pattern := range e.Gangs {
		r.checkGlob(fmt.Sprintf("%s.gangs[%d]", path, i), pattern)
	}
	if _, err := time.Parse(time.DateOnly, e.Until); err != nil {
		r.add(path+".until", "%q must be a date, such as 2027-03-31", e.Until)
	}
	if e.Reason == "" {
		r.add(path+".reason", "is required, such as the number of a ticket")
	}
}

// listRules returns the names of all limits and rules.
func listRules(file File) []string {
	var names []string
	add := func(scope string, s Scope) {
		for _, l := range s.Limits.list() {
			names = append(names, scope+"/"+l.key)
		}
		for _, rule := range s.Rules {
			names = append(names, scope+"/"+rule.Name)
		}
		for _, d := range s.Defaults.list(scope) {
			if d.locked {
				names = append(names, scope+"/"+d.checkName())
			}
		}
	}
	add(ClusterScope, file.Cluster)
	for _, p := range file.Profiles {
		add(p.Name, p.Scope)
		if p.Selectable {
			names = append(names, p.Name+"/"+selectableKey)
		}
	}
	return names
}
