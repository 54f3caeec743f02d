package migrate

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/manifest"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/trainer"
)

// runtimes are the runtimes that TrainJobs may name: those of the input, and those that
// were given beside it. Whichever comes first of one name counts, the input's before
// the others.
type runtimes struct {
	all []*trainingRuntime
}

// trainingRuntime is one of them.
type trainingRuntime struct {
	object manifest.Object
	// users are the TrainJobs that were made of it, and into what those became.
	users, into []string
}

// isRuntime reports whether the object is a runtime: no job, but what jobs are made of.
func isRuntime(o manifest.Object) bool {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	return err == nil && gv.Group == trainer.Group && trainer.IsRuntime(o.Kind)
}

// gather notes the runtimes among the documents.
func (r *runtimes) gather(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			if isRuntime(o) {
				r.all = append(r.all, &trainingRuntime{object: o})
			}
		}
	}
}

// find is what [origin.Surroundings] ask for. The namespace of an object that names
// none is the given one.
func (r *runtimes) find(byDefault string) func(kind, namespace, name string) map[string]any {
	return func(kind, namespace, name string) map[string]any {
		if one := r.one(byDefault, kind, namespace, name); one != nil {
			var tree map[string]any
			if one.object.Decode(&tree) == nil {
				return tree
			}
		}
		return nil
	}
}

func (r *runtimes) one(byDefault, kind, namespace, name string) *trainingRuntime {
	in := func(ns string) string {
		if kind == trainer.ClusterRuntime {
			return ""
		}
		if ns == "" {
			return byDefault
		}
		return ns
	}
	at := slices.IndexFunc(r.all, func(t *trainingRuntime) bool {
		return t.object.Kind == kind && t.object.Name == name && in(t.object.Namespace) == in(namespace)
	})
	if at < 0 {
		return nil
	}
	return r.all[at]
}

// of is the text of the runtime that a TrainJob names; empty for every other object.
func (r *runtimes) of(byDefault string, by manifest.Object) [][]byte {
	kind, name, ok := trainer.Ref(by.Text)
	if !ok {
		return nil
	}
	if one := r.one(byDefault, kind, by.Namespace, name); one != nil {
		return [][]byte{one.object.Text}
	}
	return nil
}

// used notes that a TrainJob was made of a runtime.
func (r *runtimes) used(byDefault string, by manifest.Object, report Report) {
	kind, name, ok := trainer.Ref(by.Text)
	if !ok || report.Failed() {
		return
	}
	if one := r.one(byDefault, kind, by.Namespace, name); one != nil {
		one.users = append(one.users, report.Object)
		for _, into := range report.Into {
			if !slices.Contains(one.into, into) {
				one.into = append(one.into, into)
			}
		}
	}
}

// report says what became of a runtime of the input. It is in the output by what was
// made of it, and in no other way.
func (r *runtimes) report(o manifest.Object) Report {
	report := Report{Source: o.Document.Source, Document: o.Document.Number, Object: o.Kind + " " + o.Name}
	at := slices.IndexFunc(r.all, func(t *trainingRuntime) bool {
		return t.object.Document == o.Document && t.object.Kind == o.Kind && t.object.Namespace == o.Namespace && t.object.Name == o.Name
	})
	if at < 0 || len(r.all[at].users) == 0 {
		report.Entries = []ledger.Entry{{Path: "spec", Outcome: ledger.Changed,
			Reason: "left out: a runtime does nothing by itself, and no TrainJob of the input was made of this one",
			Do:     "keep it, and name its file with --runtimes where the TrainJobs are migrated that use it"}}
		return report
	}
	report.Into = r.all[at].into
	for _, user := range r.all[at].users {
		report.Entries = append(report.Entries, ledger.Entry{Path: "spec", Outcome: ledger.Carried,
			To: user + ", whose report accounts for each field"})
	}
	return report
}
