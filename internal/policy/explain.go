package policy

import (
	"bytes"
	"encoding/json"
	"slices"

	"rollcall.training/internal/policy/defaults"
)

// Entry is a limit, a rule or a default of the effective policy of a namespace.
type Entry struct {
	// Name is scope/name, as in findings. The name of a default starts with "defaults.".
	Name string `json:"name"`
	// Mode is the effective mode.
	Mode Mode `json:"mode"`
	// Value is the limit, the rule or the value of the default, as in the file.
	Value json.RawMessage `json:"value"`
	// Source and Line are the place in the file.
	Source string `json:"source"`
	Line   int    `json:"line"`
}

// Explanation is the effective policy of a namespace.
type Explanation struct {
	// Namespace is the name of the namespace.
	Namespace string `json:"namespace"`
	// Profile is the profile of the namespace; empty without one.
	Profile string `json:"profile,omitempty"`
	// Selected is the selected profile; empty without one.
	Selected string `json:"selected,omitempty"`
	// Selectable are the profiles that workloads can select.
	Selectable []string `json:"selectable,omitempty"`
	// Entries are in the order of the file, those of the cluster first.
	Entries []Entry `json:"entries"`
	// Exemptions are those of the namespace.
	Exemptions []Exemption `json:"exemptions,omitempty"`
}

// Explain returns the effective policy of a namespace for workloads that select a profile, which can be
// empty. A default of the cluster that a profile replaces is not included.
func (p *Policy) Explain(ns Namespace, selected string) Explanation {
	e := Explanation{Namespace: ns.Name, Selectable: p.selectableProfiles(ns)}
	if profile, ok := p.ProfileOf(ns); ok {
		e.Profile = profile.Name
	}
	if slices.Contains(e.Selectable, selected) {
		e.Selected = selected
	}
	scopes := p.scopesOf(ns, selected)
	for i, s := range scopes {
		for _, c := range s.checks {
			e.Entries = append(e.Entries, p.newEntry(c.name, c.mode, c.value, c.line))
		}
		for _, d := range s.defaults {
			if !d.locked && !isReplaced(d, scopes[i+1:]) {
				e.Entries = append(e.Entries, p.newEntry(s.name+"/"+d.checkName(), s.defaultsMode, d.shown, d.line))
			}
		}
	}
	for _, exemption := range p.file.Exemptions {
		if exemption.Namespace == ns.Name {
			e.Exemptions = append(e.Exemptions, exemption)
		}
	}
	return e
}

func (p *Policy) newEntry(name string, mode Mode, value any, line int) Entry {
	if rule, ok := value.(Rule); ok {
		value = struct { // the entry contains the rest
			When       string `json:"when,omitempty"`
			Expression string `json:"expression"`
		}{rule.When, rule.Expression}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // expressions contain > and &&
	if err := encoder.Encode(value); err != nil {
		text.Reset() // impossible: the value was read from JSON
	}
	return Entry{
		Name: name, Mode: mode, Value: bytes.TrimSpace(text.Bytes()), Source: p.source, Line: line,
	}
}

// isReplaced reports whether a scope with precedence has a default for the same field.
func isReplaced(d fieldDefault, scopes []scope) bool {
	return slices.ContainsFunc(scopes, func(s scope) bool {
		return slices.ContainsFunc(s.defaults, func(o fieldDefault) bool {
			return o.Kind == d.Kind && o.Name == d.Name && d.Kind != defaults.Toleration
		})
	})
}
