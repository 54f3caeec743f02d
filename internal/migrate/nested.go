package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

const argoGroup = "argoproj.io"

// nestedName is the name of a nested job during its migration. Katib and Argo choose the real name later.
const nestedName = "rollcall-nested-job"

// nestedJob is a job within an Experiment of Katib, or within an object of Argo Workflows.
type nestedJob struct {
	// path is that of the job in the outer object.
	path string
	// parent has the job in the field key, and the conditions for which the outer object waits.
	parent map[string]any
	key    string
	job    map[string]any
}

// isKatib reports whether Katib creates the job.
func (n nestedJob) isKatib() bool { return n.key == "trialSpec" }

// creator is the system that creates the job.
func (n nestedJob) creator() string {
	if n.isKatib() {
		return "Katib"
	}
	return "Argo"
}

// findNestedJobs returns the jobs within an object that the migration can replace. They are parts of the tree.
func findNestedJobs(o manifest.Object, tree map[string]any) []nestedJob {
	isExperiment := o.APIGroup() == kubeflow.Group && o.Kind == "Experiment"
	if !isExperiment && o.APIGroup() != argoGroup {
		return nil
	}
	var found []nestedJob
	walkTree("", tree, func(path string, value any) bool {
		parent, _ := value.(map[string]any)
		n := nestedJob{parent: parent}
		switch text, isText := parent["manifest"].(string); {
		case isExperiment && path == "spec.trialTemplate":
			n.key = "trialSpec"
			n.job, _ = parent[n.key].(map[string]any)
		case !isExperiment && strings.HasSuffix(path, ".resource") && isText:
			n.key = "manifest"
			if yaml.Unmarshal([]byte(text), &n.job) != nil {
				return true // the reference scan reports the text
			}
		}
		apiVersion, _ := n.job["apiVersion"].(string)
		kind, _ := n.job["kind"].(string)
		if isMigratable(manifest.Object{APIVersion: apiVersion, Kind: kind}) {
			n.path = path + "." + n.key
			found = append(found, n)
		}
		return true
	})
	return found
}

// hasNestedJobs reports whether the migration replaces jobs within an object.
func (m *migration) hasNestedJobs(o manifest.Object) bool {
	var tree map[string]any
	return m.Nested && o.Decode(&tree) == nil && len(findNestedJobs(o, tree)) > 0
}

// migrateNested replaces the jobs within the only object of a document. If one of them cannot be replaced, the object
// passes through unchanged.
func (m *migration) migrateNested(d *manifest.Document) {
	o := d.Objects()[0]
	tree := map[string]any{}
	_ = o.Decode(&tree) // hasNestedJobs decoded it
	report := Report{Source: d.Source, Document: d.Number, Object: DescribeObject(o)}
	jobs := findNestedJobs(o, tree)
	for _, n := range jobs {
		m.migrateNestedJob(d, n, &report)
	}
	out, err := manifest.NewDocument(d.Source, &unstructured.Unstructured{Object: tree})
	if err != nil {
		report.Errors = append(report.Errors, err.Error())
	}
	if report.Failed() {
		report.Passthrough, report.Entries, report.Warnings, report.Findings = true, nil, nil, nil
		out = d
	} else {
		out.Number = d.Number
		report.Outputs = []string{kubectlName(&unstructured.Unstructured{Object: tree})}
	}
	m.passThrough(out)
	m.nested[out] = nestedReport{report, jobs}
}

// nestedReport is the report of an object with nested jobs.
type nestedReport struct {
	Report
	jobs []nestedJob
}

// addReferences adds the report of the references in the object, without what it says about the nested jobs.
func (r nestedReport) addReferences(references Report) Report {
	r.Entries = append(r.Entries, references.Entries...)
	for _, text := range references.Errors {
		if !slices.ContainsFunc(r.jobs, func(n nestedJob) bool { return strings.HasPrefix(text, n.path+" holds ") }) {
			r.Errors = append(r.Errors, text)
		}
	}
	return r.Report
}

// migrateNestedJob replaces one job in its parent, and adds the outcomes to the report of the outer object.
func (m *migration) migrateNestedJob(d *manifest.Document, n nestedJob, report *Report) {
	fail := func(err error) { report.Errors = append(report.Errors, n.path+": "+err.Error()) }
	kind, _ := n.job["kind"].(string)
	name := n.takeName(report)
	from, err := manifest.NewDocument(d.Source, &unstructured.Unstructured{Object: n.job})
	if err != nil {
		fail(err)
		return
	}
	isolated := *m // the job has no name that other objects could use
	isolated.NameSuffix = ""
	docs, _, inner := isolated.migrateObject(from.Objects()[0], func(string) int { return 0 })
	for _, text := range inner.Errors {
		fail(errors.New(text))
	}
	if inner.Failed() {
		return
	}
	m.runtimes.recordUse(from.Objects()[0], Report{Object: report.Object, Entries: inner.Entries})
	job, err := n.onlyJob(docs, kind)
	if err != nil {
		fail(err)
		return
	}
	for _, e := range inner.Entries {
		e.Path = n.path + "." + e.Path
		e.To = strings.ReplaceAll(e.To, "job.batch/"+nestedName, "the Job")
		report.Entries = append(report.Entries, e)
	}
	report.Warnings = append(report.Warnings, inner.Warnings...)
	for _, f := range m.findBlocking(docs) {
		f.Field = n.path + "." + f.Field
		f.Object = report.Object
		report.Findings = append(report.Findings, newFinding(f))
	}
	if err := n.insert(job, name); err != nil {
		fail(err)
		return
	}
	n.adaptParent(kind, report)
}

// takeName replaces the name of the job by [nestedName], and returns the former one; empty if it has none. The webhook
// denies generateName, so the name of the Workflow takes its place.
func (n nestedJob) takeName(report *Report) string {
	metadata, _ := n.job["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		n.job["metadata"] = metadata
	}
	name, _ := metadata["name"].(string)
	prefix, _ := metadata["generateName"].(string)
	delete(metadata, "generateName")
	metadata["name"] = nestedName
	if name == "" && prefix != "" && !n.isKatib() {
		name = prefix + "{{workflow.name}}"
		report.Entries = append(report.Entries, source.Entry{
			Path: n.path + ".metadata.generateName", Outcome: source.Changed, To: "metadata.name: " + name,
			Reason: "Rollcall needs the name of a gang at admission",
			Action: "if a Workflow runs the template more than once, add a parameter to the name",
		})
	}
	return name
}

// onlyJob returns the only workload of a migrated job. Katib and Argo create one object, and wait for a Job.
func (n nestedJob) onlyJob(docs []*manifest.Document, kind string) (map[string]any, error) {
	objects := manifest.ListObjects(docs)
	var names []string
	for _, o := range objects {
		names = append(names, o.Kind)
	}
	if len(objects) != 1 || objects[0].Kind != "Job" {
		return nil, fmt.Errorf("the %s becomes %s, and %s creates one Job; let a step apply the result of rollcall migrate",
			kind, strings.Join(names, " and "), n.creator())
	}
	var job map[string]any
	if err := objects[0].Decode(&job); err != nil {
		return nil, err
	}
	return job, nil
}

// insert replaces the job in its parent.
func (n nestedJob) insert(job map[string]any, name string) error {
	metadata, _ := job["metadata"].(map[string]any)
	delete(metadata, "name")
	if name != "" {
		metadata["name"] = name
	}
	text, err := yaml.Marshal(job)
	switch {
	case err != nil:
		return fmt.Errorf("encoding the Job: %w", err)
	case strings.Contains(string(text), nestedName):
		return fmt.Errorf("the Job contains its own name, which %s chooses later; use ROLLCALL_GANG in its command",
			n.creator())
	case n.isKatib():
		n.parent[n.key] = job
	default:
		n.parent[n.key] = string(text)
	}
	return nil
}

// adaptParent makes the outer object wait for a Job. Katib has conditions for Jobs by default, and collects metrics
// from the pods with the primary labels. Argo compares fields, and a Job has a completionTime only if it succeeded.
func (n nestedJob) adaptParent(kind string, report *Report) {
	parentPath := strings.TrimSuffix(n.path, n.key)
	add := func(key string, e source.Entry) {
		e.Path, e.Reason = parentPath+key, "describes the status of the "+kind
		report.Entries = append(report.Entries, e)
	}
	hasSuccess, hasFailure := n.parent["successCondition"] != nil, n.parent["failureCondition"] != nil
	delete(n.parent, "failureCondition")
	switch {
	case n.isKatib():
		delete(n.parent, "successCondition")
		n.parent["primaryPodLabels"] = map[string]any{batchv1.JobCompletionIndexAnnotation: "0"}
		report.Entries = append(report.Entries, source.Entry{
			Path: parentPath + "primaryPodLabels", Outcome: source.Changed,
			To: batchv1.JobCompletionIndexAnnotation + ": \"0\"", Reason: "Katib collects the metrics of rank 0",
		})
		if hasSuccess || hasFailure {
			add("successCondition", source.Entry{Outcome: source.Changed, To: "the conditions of Katib for a Job"})
		}
		return
	case hasSuccess:
		n.parent["successCondition"] = "status.completionTime"
		add("successCondition", source.Entry{Outcome: source.Changed, To: "status.completionTime"})
	}
	if hasFailure {
		add("failureCondition", source.Entry{Outcome: source.Dropped, Action: "set activeDeadlineSeconds of the template; " +
			"status.failed > 0 is also true before a restart, so use it only with rollcall.training/restart-policy: never"})
	}
}
