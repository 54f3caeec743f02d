package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

// Policy is a valid policy file. It is immutable and safe for concurrent use. A nil Policy has no
// limits.
type Policy struct {
	source  string // the name of the file
	file    File
	digest  string
	scopes  []scope // cluster first, then the profiles in their order
	ceiling Mode    // the strictest mode of findings; empty for no ceiling
}

// scope is a compiled [Scope].
type scope struct {
	name         string
	mode         Mode
	defaults     []defaultField
	defaultsMode Mode
	checks       []check
}

// check is a limit or rule together with its mode.
type check struct {
	name string // scope/name
	mode Mode
	run  func(*evaluation) []violation
	// applies reports whether the check concerns a gang; nil for all gangs of the scope.
	applies func(*evaluation) bool
	value   any // the limit, the rule or the default, as in the file
	line    int // in the file
}

// evaluation is the judgment of one input. All rules read the same variables.
type evaluation struct {
	Input
	variables prepareVariables   // prepared for the first rule
	bounds    []prepareVariables // if accelerators are not known: the smallest and the largest number
	cost      uint64             // of the rules that were evaluated
}

func newEvaluation(in Input) *evaluation {
	return &evaluation{Input: in, bounds: newBounds(in), variables: sync.OnceValues(
		func() (cel.PartialActivation, error) { return newVariables(in) })}
}

// Namespace identifies the namespace of a gang.
type Namespace struct {
	// Name is the name of the namespace.
	Name string
	// Labels are the labels of the namespace. Only selectors of profiles read them.
	Labels map[string]string
}

// Input is what a policy judges.
type Input struct {
	// Facts are the facts of the gang.
	Facts Facts
	// Namespace is the namespace of the gang.
	Namespace Namespace
	// Workload is the admitted workload, for rules that read it.
	Workload gang.Workload
	// Now is the time at which exemptions must hold.
	Now time.Time
}

// compile prepares the scopes. The file is valid.
func (p *Policy) compile(r *reader) {
	text, err := json.Marshal(p.file)
	if err != nil {
		r.add("", "cannot be written: %v", err)
		return
	}
	sum := sha256.Sum256(text)
	p.digest = hex.EncodeToString(sum[:6])
	p.source = r.source
	p.scopes = append(p.scopes, r.compileScope(ClusterScope, "cluster", p.file.Mode, p.file.Cluster))
	for i, profile := range p.file.Profiles {
		mode := cmp.Or(profile.Mode, p.file.Mode)
		p.scopes = append(p.scopes, r.compileScope(profile.Name, fmt.Sprintf("profiles[%d]", i), mode, profile.Scope))
	}
}

// compileScope returns the compiled scope with the given path in the file.
func (r *reader) compileScope(name, path string, mode Mode, s Scope) scope {
	mode = cmp.Or(mode, ModeEnforce)
	compiled := scope{
		name: name, mode: mode, defaults: s.Defaults.list(name), defaultsMode: cmp.Or(s.Defaults.Mode, mode),
	}
	add := func(key, keyPath string, own Mode, value any, c check) {
		if c.mode = cmp.Or(own, mode); c.mode != ModeOff {
			c.name, c.value, c.line = name+"/"+key, value, r.lineOf(path+"."+keyPath)
			compiled.checks = append(compiled.checks, c)
		}
	}
	for _, l := range s.Limits.list() {
		run := func(e *evaluation) []violation { return l.check(e.Facts) }
		add(l.key, "limits."+l.key, l.mode(), l.limit, check{run: run})
	}
	for i, rule := range s.Rules {
		add(rule.Name, fmt.Sprintf("rules[%d]", i), rule.Mode, rule, check{run: rule.check, applies: rule.applies})
	}
	for i, d := range compiled.defaults {
		compiled.defaults[i].line = r.lineOf(path + ".defaults." + d.path)
		if d.locked {
			add(d.checkName(), "defaults."+d.path, s.Defaults.Mode, d.shown, check{run: d.checkLocked})
		}
	}
	return compiled
}

// lineOf returns the line of a field in the file.
func (r *reader) lineOf(path string) int {
	if r.object.Document == nil {
		return 0 // an empty file
	}
	return r.object.Line(path)
}

// Digest identifies the content of the file. It is the same for files that differ in comments only.
func (p *Policy) Digest() string { return p.digest }

// Source returns the name of the file, as in problems.
func (p *Policy) Source() string { return p.source }

// File returns the content of the file. The caller must not change it.
func (p *Policy) File() File { return p.file }

// ProfileOf returns the profile of a namespace; false if no profile matches. Selectable profiles do not
// count.
func (p *Policy) ProfileOf(ns Namespace) (Profile, bool) {
	if p == nil {
		return Profile{}, false
	}
	for _, profile := range p.file.Profiles {
		if !profile.Selectable && profile.Namespaces.Matches(ns) {
			return profile, true
		}
	}
	return Profile{}, false
}

// scopesOf returns the scopes that hold for a workload: the cluster, the profile of the namespace, and the
// profile that the workload selects.
func (p *Policy) scopesOf(ns Namespace, selected string) []scope {
	names := []string{ClusterScope}
	if profile, ok := p.ProfileOf(ns); ok {
		names = append(names, profile.Name)
	}
	if slices.Contains(p.SelectableProfiles(ns), selected) {
		names = append(names, selected)
	}
	var scopes []scope
	for _, s := range p.scopes { // the order of names, except for the two profiles
		if slices.Contains(names, s.name) {
			scopes = append(scopes, s)
		}
	}
	slices.SortStableFunc(scopes, func(a, b scope) int {
		return slices.Index(names, a.name) - slices.Index(names, b.name)
	})
	return scopes
}

func (m NamespaceMatcher) isEmpty() bool { return len(m.Names) == 0 && m.Selector == nil }

// Matches reports whether a namespace has one of the names, or the labels of the selector.
func (m NamespaceMatcher) Matches(ns Namespace) bool {
	if matchesAny(m.Names, ns.Name) {
		return true
	}
	if m.Selector == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	return err == nil && selector.Matches(labels.Set(ns.Labels))
}

// matchesAny reports whether a name matches one of the patterns, in which * stands for any text.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

// Evaluate returns the findings for a gang, strictest first. They contain all violations of the
// cluster's scope, of the namespace's profile and of the selected profile, without those that are exempt.
func (p *Policy) Evaluate(in Input) []Finding {
	if p == nil || p.ceiling == ModeOff {
		return nil
	}
	e := newEvaluation(in)
	var findings []Finding
	for _, s := range p.scopesOf(in.Namespace, in.Facts.Profile) {
		for _, c := range s.checks {
			if p.isExempt(c.name, in) {
				continue
			}
			for _, v := range c.run(e) {
				findings = append(findings, p.newFinding(c, v))
			}
		}
	}
	sortFindings(findings)
	return findings
}

// EnabledRules returns the names of all limits, rules and locked defaults that are not off, in the order of the
// file.
func (p *Policy) EnabledRules() []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, s := range p.scopes {
		for _, c := range s.checks {
			names = append(names, c.name)
		}
	}
	return names
}

// RulesFor returns the names of those that judge a gang: those of its scopes, without exemptions and without
// rules whose condition when is not true.
func (p *Policy) RulesFor(in Input) []string {
	if p == nil {
		return nil
	}
	e := newEvaluation(in)
	var names []string
	for _, s := range p.scopesOf(in.Namespace, in.Facts.Profile) {
		for _, c := range s.checks {
			if !p.isExempt(c.name, in) && (c.applies == nil || c.applies(e)) {
				names = append(names, c.name)
			}
		}
	}
	return names
}

// newFinding completes a violation. The message ends with whom to ask and the name of the rule.
func (p *Policy) newFinding(c check, v violation) Finding {
	message := v.message
	if p.file.Contact != "" && !v.unknown {
		message += ", or ask " + p.file.Contact
	}
	return Finding{
		Rule:    c.name,
		Mode:    p.limitMode(c.mode),
		Field:   v.field,
		Value:   v.value,
		Message: fmt.Sprintf("%s (policy %s)", message, c.name),
		Unknown: v.unknown,
		excess:  v.excess,
	}
}

// isExempt reports whether an exemption covers a rule for a gang.
func (p *Policy) isExempt(rule string, in Input) bool {
	return slices.ContainsFunc(p.file.Exemptions, func(e Exemption) bool {
		isMatch := e.Rule == rule && e.Namespace == in.Facts.Namespace && matchesAny(e.Gangs, in.Facts.Name)
		return isMatch && !e.hasExpired(in.Now)
	})
}

// hasExpired reports whether the last day of the exemption is over.
func (e Exemption) hasExpired(now time.Time) bool {
	last, err := time.Parse(time.DateOnly, e.Until)
	return err != nil || !now.Before(last.AddDate(0, 0, 1))
}

// Expired returns the exemptions whose last day is over.
func (p *Policy) Expired(now time.Time) []Exemption {
	var expired []Exemption
	for _, e := range p.file.Exemptions {
		if e.hasExpired(now) {
			expired = append(expired, e)
		}
	}
	return expired
}

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

func (r *reader) validateExemption(path string, file File, e Exemption) {
	if !slices.Contains(listRules(file), e.Rule) {
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
