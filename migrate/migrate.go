package migrate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/kubeflow"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
	"rollcall.training/migrate/trainer"
	"rollcall.training/migrate/volcano"
)

// Migrator turns training jobs into labelled workloads. Its zero value is ready.
type Migrator struct {
	// Namespace is that of the objects that name none; empty means default.
	Namespace string
	// Config is that of the webhook that will admit the result.
	Config gang.Config
	// Scheduler is the cluster's gang scheduler.
	Scheduler origin.Scheduler
	// Aliases says which former names of pods get a Service.
	Aliases blueprint.Aliases
	// Runtimes are further documents in which the runtimes of TrainJobs are looked for;
	// they are not migrated themselves.
	Runtimes []*manifest.Document
	// Framework is that of JobSets whose own cannot be told, and of TrainJobs whose runtime
	// names none; empty when each has to say it itself.
	Framework string
}

// Result is what became of the documents.
type Result struct {
	// Documents are those that were given, with each training job replaced by its
	// workloads. A job that could not be migrated is left out.
	Documents []*manifest.Document
	// Reports has one for each training job, and one for each other object in which
	// something is to be done because of them.
	Reports []Report
}

// readers are the packages that read kinds, by API group: one line a system.
func readers() map[string]func(origin.Object) (*blueprint.Blueprint, error) {
	return map[string]func(origin.Object) (*blueprint.Blueprint, error){
		kubeflow.Group: kubeflow.Read,
		jobset.Group:   jobset.Read,
		trainer.Group:  trainer.Read,
		volcano.Group:  volcano.Read,
	}
}

// Migrate replaces each training job in the documents by its workloads. Whatever
// happens to one object, the others are still done. A list with a training job in it is
// taken apart.
func (m Migrator) Migrate(docs []*manifest.Document) Result {
	var out Result
	var known runtimes
	known.gather(docs)
	consumed := map[int]manifest.Object{} // the reports of runtimes, which are known last
	known.gather(m.Runtimes)
	scripts := configMaps{}
	scripts.gather(docs)
	around := origin.Surroundings{Scheduler: m.Scheduler, Aliases: m.Aliases, Framework: m.Framework, Runtime: known.find(m.Namespace), Alone: roleAlone}
	names := taken{}
	names.gather(docs)
	through := passed{migrator: m}
	var rest []manifest.Object
	for _, d := range docs {
		if !slices.ContainsFunc(d.Objects(), ours) {
			out.Documents = append(out.Documents, d)
			rest = append(rest, d.Objects()...)
			continue
		}
		parts := d.Parts()
		for i, part := range parts {
			objects := part.Objects()
			if len(objects) != 1 || !ours(objects[0]) {
				out.Documents = append(out.Documents, part)
				rest = append(rest, objects...)
				continue
			}
			if isRuntime(objects[0]) {
				consumed[len(out.Reports)] = objects[0]
				out.Reports = append(out.Reports, Report{})
				continue
			}
			around.Texts = scripts.named(append(known.of(m.Namespace, objects[0]), objects[0].Text)...)
			made, labels, report := m.object(objects[0], lines(d, i, len(parts)), around)
			made, report = names.claim(made, report)
			known.used(m.Namespace, objects[0], report)
			if !report.Failed() {
				through.gangs = append(through.gangs, migratedGang{labels, report.Into})
			}
			out.Documents = append(out.Documents, made...)
			out.Reports = append(out.Reports, report)
		}
	}
	for at, o := range consumed {
		out.Reports[at] = known.report(o)
	}
	for _, o := range rest {
		if report, is := through.report(o); is {
			out.Reports = append(out.Reports, report)
		}
	}
	return out
}

// roleAlone is the role that a framework gives to a workload alone.
func roleAlone(framework string) string {
	f, _ := injectors.Builtin().Frameworks().Find(framework)
	return f.Role
}

// ours reports whether the object is of a system that can be migrated from.
func ours(o manifest.Object) bool {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil || gv.Group == kubeflow.Group && !kubeflow.Knows(o.Kind) {
		return false // a Notebook, say
	}
	return Knows(gv.Group)
}

// lines tells on which line of its source a field of one of a document's parts stands; 0
// where that cannot be told.
func lines(d *manifest.Document, part, parts int) func(path string) int {
	objects := d.Objects()
	if len(objects) != parts {
		return func(string) int { return 0 } // some item of a list is no object
	}
	return func(path string) int {
		if first, _, _ := strings.Cut(path, "."); strings.Contains(first, "/") {
			return 0 // of a runtime, which stands elsewhere
		}
		return objects[part].Line(path)
	}
}

// object migrates one object. Line tells where a field of it stands.
func (m Migrator) object(from manifest.Object, line func(path string) int, around origin.Surroundings) ([]*manifest.Document, blueprint.Labels, Report) {
	d := from.Document
	report := Report{Source: d.Source, Document: d.Number, Object: from.Kind}
	var tree map[string]any
	if err := from.Decode(&tree); err != nil {
		report.Mistakes = []string{err.Error()}
		return nil, blueprint.Labels{}, report
	}
	var account ledger.Ledger
	gv, _ := schema.ParseGroupVersion(from.APIVersion) // parsed before, by ours
	o := origin.Object{Group: gv.Group, Version: gv.Version, Kind: from.Kind, Root: account.Root(tree), Around: around}
	report.Object = name(o)
	b, err := readers()[gv.Group](o)
	for _, mistake := range account.Mistakes() {
		text := mistake.Error()
		if n := line(mistake.Field); n > 0 {
			text = fmt.Sprintf("line %d: %s", n, text)
		}
		report.Mistakes = append(report.Mistakes, text)
	}
	if err != nil {
		report.Mistakes = append(report.Mistakes, err.Error())
	}
	if report.Failed() {
		return nil, blueprint.Labels{}, report
	}
	objects := b.Build()
	account.SettleAll(o.Root)
	report.Entries = account.Entries()
	made, report := m.finish(d, objects, report)
	return made, b.Selection(), report
}

// name is an object's kind, namespace and name.
func name(o origin.Object) string {
	if ns := o.Namespace(); ns != "" {
		return o.Kind + " " + ns + "/" + o.Name()
	}
	return strings.TrimSpace(o.Kind + " " + o.Name())
}

// finish has the engine look at the workloads, and makes documents of the objects.
func (m Migrator) finish(d *manifest.Document, objects []runtime.Object, report Report) ([]*manifest.Document, Report) {
	engine := injectors.New(injectors.Builtin(), m.Config)
	var out []*manifest.Document
	for _, obj := range objects {
		tree, err := tidy(obj)
		if err != nil {
			report.Mistakes = append(report.Mistakes, err.Error())
			continue
		}
		made, err := manifest.Of(d.Source, tree)
		if err != nil {
			report.Mistakes = append(report.Mistakes, err.Error())
			continue
		}
		made.Number = d.Number
		out = append(out, made)
		report.Into = append(report.Into, title(obj))
		if w, err := gang.WorkloadOf(obj); err == nil {
			m.admit(engine, w, &report)
		}
	}
	if report.Failed() {
		report.Into = nil
		return nil, report
	}
	return out, report
}

// admit notes what the webhook will say about a workload.
func (m Migrator) admit(engine *injectors.Engine, w gang.Workload, report *Report) {
	draft := w.DeepCopy()
	if draft.Meta().Namespace == "" {
		draft.Meta().Namespace = m.Namespace
	}
	result, err := engine.Inject(draft)
	report.Warnings = append(report.Warnings, result.Warnings...)
	if err != nil {
		for _, cause := range injectors.Causes(err) {
			report.Mistakes = append(report.Mistakes, fmt.Sprintf("%s/%s would be denied: %s", w.Kind(), w.Meta().Name, cause))
		}
	}
}

// title names an object as kubectl does: job.batch/train.
func title(obj runtime.Object) string {
	gvk := obj.GetObjectKind().GroupVersionKind()
	kind := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		kind += "." + gvk.Group
	}
	named, ok := obj.(interface{ GetName() string })
	if !ok {
		return kind
	}
	return kind + "/" + named.GetName()
}

// Knows reports whether objects of the API group can be migrated.
func Knows(group string) bool { return readers()[group] != nil }
