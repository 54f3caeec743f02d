package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/manifest"
)

// taken are the objects of the output by what makes them one in a cluster, with the
// place where each comes from.
type taken map[identity]string

// identity is what two objects cannot share. An object that names no namespace is applied
// to whatever the others are that name none.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(o manifest.Object) identity {
	gv, _ := schema.ParseGroupVersion(o.APIVersion) // what is wrong with it, the API server says
	return identity{schema.GroupKind{Group: gv.Group, Kind: o.Kind}, o.Namespace, o.Name}
}

// gather notes what passes through.
func (t taken) gather(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			if !ours(o) && o.Name != "" {
				t[identityOf(o)] = d.String()
			}
		}
	}
}

// claim takes the names of what a job became. Where one is taken, the job is not migrated:
// applied one after the other, the second would overwrite the first.
func (t taken) claim(made []*manifest.Document, report Report) ([]*manifest.Document, Report) {
	var mine []identity
	for _, d := range made {
		for _, o := range d.Objects() {
			id := identityOf(o)
			if by, is := t[id]; is {
				report.Mistakes = append(report.Mistakes, fmt.Sprintf("it would become %s %s, which is there already: %s; rename one of the two", o.Kind, o.Name, by))
			}
			mine = append(mine, id)
		}
	}
	if report.Failed() {
		report.Into = nil
		return nil, report
	}
	for _, id := range mine {
		t[id] = fmt.Sprintf("%s of %s, document %d", report.Object, report.Source, report.Document)
	}
	return made, report
}
