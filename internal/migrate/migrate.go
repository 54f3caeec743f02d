package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/migrate/trainer"
	"rollcall.training/internal/migrate/volcano"
)

// Migrator converts training jobs to labeled workloads. Its zero value is ready.
type Migrator struct {
	// Namespace is that of objects that name none. Empty means default.
	Namespace string
	// Config is that of the webhook that will admit the result.
	Config gang.Config
	// Scheduler is the gang scheduler of the cluster.
	Scheduler source.Scheduler
	// Runtimes are further documents with runtimes of TrainJobs. They are not migrated.
	Runtimes []*manifest.Document
	// Framework is that of JobSets and Volcano Jobs that do not name their framework, and of TrainJobs
	// whose runtime names none. If it is empty, JobSets and Volcano Jobs have the framework that their
	// commands suggest. All others have the framework generic.
	Framework string
	// NameSuffix is appended to the names of the jobs, and of their pods in the manifests. The result can then run
	// next to the jobs.
	NameSuffix string
	// JobsOnly requests Jobs for roles that would become StatefulSets.
	JobsOnly bool
}

// Result is the result of a migration.
type Result struct {
	// Documents are those of the input, with each training job replaced by its workloads. Jobs
	// that could not be migrated are omitted.
	Documents []*manifest.Document
	// Reports has one element for each training job, and one for each other object that the
	// migration affects.
	Reports []Report
}

// readersByGroup returns the reader of each API group.
func readersByGroup() map[string]func(source.Object) (*ir.Gang, error) {
	return map[string]func(source.Object) (*ir.Gang, error){
		kubeflow.Group: kubeflow.Read,
		jobset.Group:   jobset.Read,
		trainer.Group:  trainer.Read,
		volcano.Group:  volcano.Read,
	}
}

// Migrate replaces each training job in the documents by its workloads. An error in one object does
// not affect the others. A list that contains a training job is split into its items.
func (m Migrator) Migrate(docs []*manifest.Document) Result {
	run := migration{
		Migrator: m, names: outputNames{}, scripts: configMapTexts{},
		runtimes: runtimeCatalog{namespace: m.Namespace},
	}
	run.runtimes.addDocuments(docs)
	run.runtimes.addDocuments(m.Runtimes)
	run.scripts.addDocuments(docs)
	run.names.addPassthrough(docs)
	for _, d := range docs {
		if !slices.ContainsFunc(d.Objects(), isAffected) {
			run.passThrough(d)
			continue
		}
		parts := d.SplitList()
		for i, part := range parts {
			switch objects := part.Objects(); {
			case len(objects) == 1 && isMigratable(objects[0]):
				run.migrateDocument(objects[0], newLineLookup(d, i, len(parts)))
			case len(objects) == 1 && isWorkload(objects[0]):
				run.migrateWorkload(objects[0], newLineLookup(d, i, len(parts)))
			default:
				run.passThrough(part)
			}
		}
	}
	run.removeServices()
	run.addFindings()
	for _, o := range run.passedThrough {
		if report, affected := m.checkReferences(run.gangs, o); affected {
			run.result.Reports = append(run.result.Reports, report)
		}
	}
	return run.result
}

// migration is one call of [Migrator.Migrate].
type migration struct {
	Migrator
	result   Result
	names    outputNames
	scripts  configMapTexts
	runtimes runtimeCatalog
	gangs    []migratedGang
	// services are those that Rollcall creates for the gangs.
	services      []gangService
	passedThrough []manifest.Object
}

// isAffected reports whether the migration replaces an object.
func isAffected(o manifest.Object) bool { return isMigratable(o) || isWorkload(o) }

func (m *migration) passThrough(d *manifest.Document) {
	m.result.Documents = append(m.result.Documents, d)
	m.passedThrough = append(m.passedThrough, d.Objects()...)
}

// migrateDocument migrates the only object of a document.
func (m *migration) migrateDocument(o manifest.Object, line func(path string) int) {
	if isRuntime(o) {
		m.result.Reports = append(m.result.Reports, Report{
			Source: o.Document.Source, Document: o.Document.Number, Object: o.Kind + " " + o.Name,
			Note: "left out: its fields are in the reports of the TrainJobs that use it; " +
				"for other TrainJobs, keep the file, and pass it with --runtimes",
		})
		return
	}
	docs, labels, report := m.migrateObject(o, line)
	if hint := o.Document.TemplateHint(); hint != "" && report.Failed() {
		report.Errors = append([]string{hint}, slices.DeleteFunc(report.Errors, manifest.HasTemplateVariable)...)
	}
	docs, report = m.names.claimNames(docs, report)
	if !report.Failed() {
		m.gangs = append(m.gangs, newMigratedGang(labels, report.Outputs))
	}
	m.result.Documents = append(m.result.Documents, docs...)
	m.result.Reports = append(m.result.Reports, report)
}

// newContext returns the context of an object's reader.
func (m *migration) newContext(o manifest.Object) source.Context {
	texts := [][]byte{o.JSON}
	if used := m.runtimes.findUsed(o); used != nil {
		texts = append(texts, used.JSON)
	}
	return source.Context{
		Scheduler: m.Scheduler, Framework: m.Framework, NameSuffix: m.NameSuffix, JobsOnly: m.JobsOnly,
		FindRuntime: m.runtimes.findTree, Frameworks: injectors.Builtin().Frameworks(),
		Inject: m.inject, ConfigMapTexts: m.scripts.findReferenced(texts...),
	}
}

// isMigratable reports whether the object is a job of another system, or a runtime of such jobs. Other kinds of the
// same API groups, such as Notebook, are not.
func isMigratable(o manifest.Object) bool {
	return source.IsJobKind(o.APIGroup(), o.Kind) || isRuntime(o)
}

// newLineLookup returns a function that returns the line of a field in the source of a document, or
// 0 if it is unknown. The fields are those of one of the document's parts.
func newLineLookup(d *manifest.Document, part, parts int) func(path string) int {
	objects := d.Objects()
	if len(objects) != parts {
		return func(string) int { return 0 } // the list has an item that is not an object
	}
	return func(path string) int {
		if first, _, _ := strings.Cut(path, "."); strings.Contains(first, "/") {
			return 0 // a field of a runtime, which is in another document
		}
		return objects[part].Line(path)
	}
}

// migrateObject converts one object.
func (m *migration) migrateObject(
	o manifest.Object, line func(path string) int,
) ([]*manifest.Document, ir.LabelMapping, Report) {
	report := Report{Source: o.Document.Source, Document: o.Document.Number, Object: DescribeObject(o)}
	var tree map[string]any
	renamed, err := m.decode(o, &tree)
	if report.Warnings = renamed; err != nil {
		report.Errors = []string{err.Error()}
		return nil, ir.LabelMapping{}, report
	}
	var recorder source.Recorder
	gv, _ := schema.ParseGroupVersion(o.APIVersion) // isMigratable parsed it
	from := source.Object{
		Group: gv.Group, Version: gv.Version, Kind: o.Kind, Root: recorder.Root(tree), Context: m.newContext(o),
	}
	b, err := readersByGroup()[gv.Group](from)
	report.addErrors(recorder.Errors(), line)
	if err != nil {
		report.Errors = append(report.Errors, err.Error())
	}
	if report.Failed() {
		return nil, ir.LabelMapping{}, report
	}
	if m.Framework != "" && m.Framework != b.Framework {
		report.Warnings = append(report.Warnings, fmt.Sprintf(
			"the requested framework %s has no effect, because the %s defines the framework %s",
			m.Framework, o.Kind, b.Framework))
	}
	objects := b.Build()
	recorder.ReportAllUnread(from.Root)
	report.Entries = recorder.Entries()
	docs, report := m.buildDocuments(o.Document, objects, report)
	scan := objectScan{Report: report, gangs: []migratedGang{newMigratedGang(b.LabelMapping(), report.Outputs)}}
	scan.checkOwnSelectors("", tree)
	if used := m.runtimes.findUsed(o); used != nil {
		scan.checkOwnSelectors(used.Kind+"/"+used.Name, m.runtimes.findTree(used.Kind, o.Namespace, used.Name))
	}
	return docs, b.LabelMapping(), scan.Report
}

// buildDocuments encodes the objects and checks the workloads with the engine of the webhook.
func (m *migration) buildDocuments(
	from *manifest.Document, objects []runtime.Object, report Report,
) ([]*manifest.Document, Report) {
	engine := m.newEngine()
	var out []*manifest.Document
	for _, obj := range objects {
		tree, err := pruneEmptyFields(obj)
		if err != nil {
			report.Errors = append(report.Errors, err.Error())
			continue
		}
		doc, err := manifest.NewDocument(from.Source, tree)
		if err != nil {
			report.Errors = append(report.Errors, err.Error())
			continue
		}
		doc.Number = from.Number
		out = append(out, doc)
		report.Outputs = append(report.Outputs, kubectlName(obj))
		if w, err := gang.WorkloadOf(obj); err == nil {
			m.checkAdmission(engine, w, &report)
		}
	}
	if report.Failed() {
		report.Outputs = nil
		return nil, report
	}
	return out, report
}

// newEngine returns the engine of the webhook.
func (m Migrator) newEngine() *injectors.Engine {
	isServed := func(gang.Scheduler) string { return "" } // a note names what the cluster needs
	return injectors.NewEngine(injectors.Builtin(), m.Config).WithFacts(isServed, nil)
}

// checkAdmission adds the warnings and errors of the webhook for a workload.
func (m *migration) checkAdmission(engine *injectors.Engine, w gang.Workload, report *Report) {
	draft := m.inNamespace(w)
	result, err := engine.Inject(draft)
	report.Warnings = append(report.Warnings, result.Warnings.Strings()...)
	if err != nil {
		for _, cause := range injectors.DenialCauses(err) {
			report.Errors = append(report.Errors,
				fmt.Sprintf("the webhook would reject %s/%s: %s", w.Kind(), w.Meta().Name, cause))
		}
		return
	}
	m.services = append(m.services, gangService{name: result.Gang.ServiceName, workload: draft})
}

// inNamespace returns a copy of a workload with the namespace into which it is applied.
func (m Migrator) inNamespace(w gang.Workload) gang.Workload {
	w = w.DeepCopy()
	w.Meta().Namespace = m.namespaceOrDefault(w.Meta().Namespace)
	return w
}

// namespaceOrDefault returns the namespace into which an object is applied.
func (m Migrator) namespaceOrDefault(namespace string) string {
	return cmp.Or(namespace, m.Namespace, "default")
}

// kubectlName returns the name of an object as kubectl prints it: job.batch/train.
func kubectlName(obj runtime.Object) string {
	name, _ := meta.NewAccessor().Name(obj) // all objects have metadata
	return strings.ToLower(obj.GetObjectKind().GroupVersionKind().GroupKind().String()) + "/" + name
}
