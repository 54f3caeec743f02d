package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"rollcall.training/gang"
)

// Policy is a valid policy file. It is immutable and safe for concurrent use. A nil Policy has no
// limits.
type Policy struct {
	source     string // the name of the file
	file       File
	digest     string
	frameworks gang.Frameworks
	scopes     []scope // cluster first, then the profiles in their order
	ceiling    Mode    // the strictest mode of findings; empty for no ceiling
}

// Source provides the policy of the cluster. Its methods are safe for concurrent use.
type Source interface {
	// Current returns the policy in force; nil for no policy. It returns an error until a policy is
	// loaded.
	Current() (*Policy, error)
	// DescribeNamespace returns what the policy reads of a namespace.
	DescribeNamespace(ctx context.Context, name string) (Namespace, error)
	// Subscribe returns a channel that receives a value after the policy changed.
	Subscribe() <-chan struct{}
}

// scope is a compiled [Scope].
type scope struct {
	name         string
	mode         Mode
	defaults     []fieldDefault
	defaultsMode Mode
	checks       []check
}

// check is a limit or rule together with its mode.
type check struct {
	name string // scope/name
	mode Mode
	// run adds the violations of a gang. It returns false if the check does not concern the gang.
	run   func(*evaluation, *violations) bool
	value any // the limit, the rule or the default, as in the file
	line  int // in the file
}

// Namespace identifies the namespace of a gang.
type Namespace struct {
	// Name is the name of the namespace.
	Name string
	// Labels are the labels of the namespace. Only selectors of profiles read them.
	Labels map[string]string
}

// Input is a gang as some or all of its members show it.
type Input struct {
	// Members are the known members.
	Members []Member
	// Namespace is the namespace of the gang.
	Namespace Namespace
	// Now is the time at which exemptions must hold.
	Now time.Time
}

// Member is a workload as admission stores it, and the gang that was parsed from it.
type Member struct {
	Gang     gang.Gang
	Workload gang.Workload
}

// evaluation is the judgment of one member. All rules read the same variables.
type evaluation struct {
	facts
	namespace Namespace
	now       time.Time
	variables prepareVariables   // prepared for the first rule
	bounds    []prepareVariables // if accelerators are not known: the smallest and the largest number
	cost      uint64             // of the rules that were evaluated
}

// newEvaluations returns one evaluation for each member. If all members are known, each knows the facts of the others.
func (in Input) newEvaluations() []*evaluation {
	var ofMembers []facts
	for _, m := range in.Members {
		ofMembers = append(ofMembers, newFacts(m))
	}
	var evaluations []*evaluation
	for _, f := range ofMembers {
		e := &evaluation{facts: f.withMembers(ofMembers), namespace: in.Namespace, now: in.Now}
		e.prepare()
		evaluations = append(evaluations, e)
	}
	return evaluations
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
	add := func(key, keyPath string, own Mode, value any, run func(*evaluation, *violations) bool) {
		c := check{name: name + "/" + key, mode: cmp.Or(own, mode), run: run, value: value}
		if c.mode != ModeOff {
			c.line = r.object.Line(path + "." + keyPath)
			compiled.checks = append(compiled.checks, c)
		}
	}
	for _, l := range s.Limits.list() {
		add(l.key, "limits."+l.key, l.mode(), l.limit, func(e *evaluation, v *violations) bool {
			l.check(l.key, e.facts, v)
			return true
		})
	}
	for i, rule := range s.Rules {
		add(rule.Name, fmt.Sprintf("rules[%d]", i), rule.Mode, rule, rule.check)
	}
	for i, d := range compiled.defaults {
		compiled.defaults[i].line = r.object.Line(path + ".defaults." + d.path)
		if d.locked {
			add(d.checkName(), "defaults."+d.path, s.Defaults.Mode, d.shown, func(e *evaluation, v *violations) bool {
				d.checkLocked(e, v, r.frameworks)
				return true
			})
		}
	}
	return compiled
}

// Digest identifies the content of the file. It is the same for files that differ in comments only. It is empty for a
// nil Policy.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

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
	scopes := []scope{p.findScope(ClusterScope)}
	if profile, ok := p.ProfileOf(ns); ok {
		scopes = append(scopes, p.findScope(profile.Name))
	}
	if slices.Contains(p.selectableProfiles(ns), selected) {
		scopes = append(scopes, p.findScope(selected))
	}
	return scopes
}

// findScope returns the scope with a name that exists.
func (p *Policy) findScope(name string) scope {
	return p.scopes[slices.IndexFunc(p.scopes, func(s scope) bool { return s.name == name })]
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

// Judgment is the result of comparing one member of a gang with a policy.
type Judgment struct {
	// Findings are the violations, strictest first.
	Findings []Finding
	// Rules are the names of the limits, rules and locked defaults that judged the member. They do not include rules
	// whose condition when is false.
	Rules []string
}

// Judge returns the judgment of each member of a gang. It judges by the cluster's scope, by the namespace's profile and
// by the selected profile, without what is exempt. The webhook, the reconciler and the command line call it.
func (p *Policy) Judge(in Input) []Judgment {
	judgments := make([]Judgment, len(in.Members))
	if p == nil || p.ceiling == ModeOff {
		return judgments
	}
	evaluations := in.newEvaluations()
	for i, e := range evaluations {
		evaluations[i] = nil // its variables contain the workload as a tree, which needs more memory than the workload
		for _, s := range p.scopesOf(e.namespace, e.profile()) {
			for _, c := range s.checks {
				if !p.isExempt(c.name, e.Gang, e.now) {
					p.run(c, e, &judgments[i])
				}
			}
		}
		sortFindings(judgments[i].Findings)
	}
	return judgments
}

// run adds the result of one check to a judgment.
func (p *Policy) run(c check, e *evaluation, j *Judgment) {
	var found violations
	if c.run(e, &found) {
		j.Rules = append(j.Rules, c.name)
	}
	j.Findings = append(j.Findings, p.completeFindings(c, found)...)
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

// completeFindings adds the rule to its violations. A message ends with whom to ask and the name of the rule.
func (p *Policy) completeFindings(c check, found violations) []Finding {
	for i := range found {
		f := &found[i]
		f.Rule, f.Mode = c.name, p.limitMode(c.mode)
		if p.file.Contact != "" && !f.Unknown {
			f.Message += ", or ask " + p.file.Contact
		}
		f.Message += " (policy " + c.name + ")"
	}
	return found
}

// isExempt reports whether an exemption covers a rule for a gang.
func (p *Policy) isExempt(rule string, g gang.Gang, now time.Time) bool {
	return slices.ContainsFunc(p.file.Exemptions, func(e Exemption) bool {
		isMatch := e.Rule == rule && e.Namespace == g.Namespace && matchesAny(e.Gangs, g.Name)
		return isMatch && !e.hasExpired(now)
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

// WithCeiling returns the policy with a limit for all modes: a finding is at most as strict as the
// ceiling. With [ModeEnforce] nothing changes, and with [ModeOff] there are no findings. The digest
// stays the same. The receiver does not change, and can be nil.
func (p *Policy) WithCeiling(ceiling Mode) *Policy {
	if p == nil {
		return nil
	}
	limited := *p
	limited.ceiling = ceiling
	return &limited
}

// limitMode returns the mode, or the ceiling if the mode is stricter.
func (p *Policy) limitMode(m Mode) Mode {
	if slices.Index(Modes(), m) < slices.Index(Modes(), p.ceiling) {
		return p.ceiling
	}
	return m
}

// CanDeny reports whether the ceiling permits denials. It is false for a nil Policy.
func (p *Policy) CanDeny() bool { return p != nil && p.limitMode(ModeEnforce) == ModeEnforce }

// Rules returns the names of all limits and rules, as in findings. It returns nil for a nil Policy.
func (p *Policy) Rules() []string {
	if p == nil {
		return nil
	}
	return listRules(p.file)
}

// SelectsLabels reports whether a profile selects namespaces by their labels, so that
// [Namespace.Labels] is required.
func (p *Policy) SelectsLabels() bool {
	return p != nil && slices.ContainsFunc(p.file.Profiles, func(profile Profile) bool {
		return profile.Namespaces.Selector != nil
	})
}
