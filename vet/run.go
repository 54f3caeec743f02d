package vet

import (
	"cmp"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
)

// Options say how to look.
type Options struct {
	// Engine is the webhook's; required.
	Engine *injectors.Engine
	// Namespace is that of objects that name none; the zero value means "default".
	Namespace string
	// Disabled are the checks to leave out.
	Disabled []Code
}

// Run looks at the documents of one input, and at those of it that could not be read. It
// changes none of them.
func Run(docs []*manifest.Document, unreadable []*manifest.Error, o Options) Report {
	in := gather(docs, o)
	var r Report
	for _, check := range Checks() {
		if slices.Contains(o.Disabled, check.Code) {
			continue
		}
		if check.Code == CodeUnreadable {
			for _, e := range unreadable {
				r.Findings = append(r.Findings, Finding{
					Code: check.Code, Severity: check.Severity, Source: e.Source, Document: e.Number, Line: e.Line, Message: e.Err.Error(),
				})
			}
		}
		for _, s := range in.subjects {
			for _, m := range check.look(in, s) {
				r.Findings = append(r.Findings, finding(check, s, m))
			}
		}
	}
	for _, s := range in.subjects {
		if s.member != nil {
			r.Workloads++
		}
	}
	r.sort(sources(docs, unreadable))
	return r
}

func (c Check) look(in *input, s *subject) []remark {
	switch {
	case c.object != nil:
		return c.object(in, s)
	case c.workload != nil && s.member != nil && s.unread == nil:
		return c.workload(in, s.member)
	case c.gang != nil && s.member != nil && s.member.gang != nil:
		return c.gang(in, s.member)
	}
	return nil
}

func finding(c Check, s *subject, m remark) Finding {
	field := m.field
	if !m.own {
		field = s.path(field)
	}
	return Finding{
		Code: c.Code, Severity: c.Severity,
		Source: s.Document.Source, Document: s.Document.Number, Line: s.Line(field),
		Object: s.name(), Namespace: s.namespace, Field: field, Message: m.message, Fix: m.fix,
	}
}

// sources lists the files of the input in their order.
func sources(docs []*manifest.Document, unreadable []*manifest.Error) []string {
	var all []string
	for _, d := range docs {
		if !slices.Contains(all, d.Source) {
			all = append(all, d.Source)
		}
	}
	for _, e := range unreadable {
		if !slices.Contains(all, e.Source) {
			all = append(all, e.Source)
		}
	}
	return all
}

// input is what the checks look at.
type input struct {
	subjects []*subject
	engine   *injectors.Engine
	named    map[string]*subject  // by kind, namespace and name; the first of several
	gangs    map[string][]*member // by namespace and name; those that can be read
}

// subject is one object of the input.
type subject struct {
	manifest.Object
	// namespace is the object's own, or the default.
	namespace string
	// read is what is looked at: the object, or the Job that a CronJob makes.
	read manifest.Object
	cron bool
	// written is the object as a workload; nil when it is of another kind or cannot be
	// read.
	written *gang.Workload
	// unread says why it cannot be read, and unknown which fields the types lack.
	unread  error
	unknown []string
	// member is set for a labelled workload that does not switch Rollcall off.
	member *member
}

func (s *subject) name() string { return strings.ToLower(s.Kind) + "/" + s.Name }

// member is a labelled workload.
type member struct {
	*subject
	// denial is the webhook's; nil when the workload would be admitted.
	denial error
	// result is what the webhook says beside that.
	result injectors.Result
	// admitted is the workload as the webhook would admit it; that which is written when
	// it would not.
	admitted gang.Workload
	// gang is what it is read as; nil when it cannot be.
	gang *gang.Gang
}

func gather(docs []*manifest.Document, o Options) *input {
	in := &input{engine: o.Engine, named: map[string]*subject{}, gangs: map[string][]*member{}}
	for _, d := range docs {
		for _, object := range d.Objects() {
			s := &subject{Object: object, namespace: cmp.Or(object.Namespace, o.Namespace, "default")}
			if s.Kind == "Namespace" {
				s.namespace = "" // which is in none
			}
			in.subjects = append(in.subjects, s)
			if in.find(s.Kind, s.namespace, s.Name) == nil {
				in.named[s.Kind+"/"+s.namespace+"/"+s.Name] = s
			}
			s.read, s.cron = jobOf(object)
			w, unknown, ok, err := s.read.Workload()
			switch {
			case !ok:
			case err != nil:
				s.unread = err
				if s.read.Labelled() {
					s.member = &member{subject: s}
				}
			default:
				w.Meta().Namespace = s.namespace
				s.written, s.unknown = &w, unknown
				s.member = in.admit(s, w)
			}
			if s.member != nil && s.unread == nil {
				key := s.namespace + "/" + in.gangName(s.member)
				in.gangs[key] = append(in.gangs[key], s.member)
			}
		}
	}
	return in
}

// admit does what the webhook would.
func (in *input) admit(s *subject, w gang.Workload) *member {
	if !w.Labelled() || w.OptedOut() {
		return nil
	}
	m := &member{subject: s, admitted: w.DeepCopy()}
	m.result, m.denial = in.engine.Inject(m.admitted)
	if m.denial == nil {
		m.gang = &m.result.Gang
	} else if read, err := in.engine.Describe(w); err == nil {
		// What was denied for the sake of one variable is a gang all the same.
		m.gang = &read.Gang
	}
	return m
}

// gangName is the name of the gang that the workload is in, as far as that can be told.
func (in *input) gangName(m *member) string {
	if m.gang != nil {
		return m.gang.Name
	}
	return gang.NameOf(*m.written, in.engine.Frameworks())
}

// together are the workloads of the same gang, m among them, in the order of the input.
func (in *input) together(m *member) []*member {
	return in.gangs[m.namespace+"/"+in.gangName(m)]
}

// find returns the object of a kind and name in a namespace; nil when there is none in
// the input.
func (in *input) find(kind, namespace, name string) *subject {
	return in.named[kind+"/"+namespace+"/"+name]
}
