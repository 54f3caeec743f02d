package vet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/command"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/suite"
	"rollcall.training/internal/roster"
)

// Options configures a run.
type Options struct {
	// Engine is the injection engine of the webhook. It is required.
	Engine *injectors.Engine
	// Namespace is the namespace of objects without a namespace. The zero value means "default".
	Namespace string
	// Policy is the policy that gangs must satisfy; nil means no policy.
	Policy *policy.Policy
	// Now is the time at which exemptions of the policy must hold.
	Now time.Time
	// Disabled are the codes of checks that do not run.
	Disabled []Code
	// Only are the codes of the only checks that run; empty for all checks.
	Only []Code
	// Admitted is true for the objects of a cluster. The webhook has admitted them already.
	Admitted bool
}

// isEnabled reports whether a check runs.
func (o Options) isEnabled(code Code) bool {
	return !slices.Contains(o.Disabled, code) && (len(o.Only) == 0 || slices.Contains(o.Only, code))
}

// Run runs all enabled checks on the documents of one input. It reports the documents that could
// not be parsed with CodeUnreadable. It does not modify its arguments.
func Run(docs []*manifest.Document, unreadable []*manifest.Error, opts Options) Report {
	in := readInput(docs, opts)
	r := Report{Findings: []Finding{}}
	for _, check := range Checks() {
		if !opts.isEnabled(check.Code) {
			continue
		}
		if check.Code == CodeUnreadable {
			for _, e := range unreadable {
				r.Findings = append(r.Findings, Finding{
					Code:     check.Code,
					Severity: check.Severity,
					Source:   e.Source,
					Document: e.Number,
					Line:     e.Line,
					Message:  e.Err.Error(),
				})
			}
		}
		for _, o := range in.objects {
			r.Findings = append(r.Findings, check.run(in, o)...)
		}
	}
	for _, o := range in.objects {
		if o.labeled != nil {
			r.Workloads++
		}
	}
	r.Unchecked = in.countUnchecked()
	r.suppressFindings(in, opts)
	sources := listSources(docs, unreadable)
	r.Findings, r.Suppressed = sortFindings(r.Findings, sources), sortFindings(r.Suppressed, sources)
	r.countFindings()
	return r
}

// listSources returns the files of the input in the given order, without duplicates.
func listSources(docs []*manifest.Document, unreadable []*manifest.Error) []string {
	var sources []string
	for _, d := range docs {
		if !slices.Contains(sources, d.Source) {
			sources = append(sources, d.Source)
		}
	}
	for _, e := range unreadable {
		if !slices.Contains(sources, e.Source) {
			sources = append(sources, e.Source)
		}
	}
	return sources
}

// input is the decoded input of a run.
type input struct {
	objects []*inputObject
	// admission is that of the webhook.
	admission suite.Options
	// launchers are those of all frameworks of the engine.
	launchers command.Launchers
	// objectsByKey has the first object of each kind, namespace and name.
	objectsByKey map[string]*inputObject
	// labeledByGangName has the labeled workloads that could be decoded, by namespace and gang name.
	// Different gangs can have the same name.
	labeledByGangName map[string][]*labeledWorkload
}

// inputObject is an object of the input.
type inputObject struct {
	manifest.Object
	// namespace is the namespace of the object or the default namespace. It is empty for a Namespace.
	namespace string
	// target is the object that the checks read. For a CronJob it is the Job of one run.
	target    manifest.Object
	isCronJob bool
	// workload is the decoded target. It is nil if the target is neither a Job nor a StatefulSet, or
	// cannot be decoded.
	workload *gang.Workload
	// decodeError is the error of decoding a Job or StatefulSet.
	decodeError error
	// unknownFields are the paths of the fields of the target that its type does not have.
	unknownFields []string
	// labeled is set for a workload that has the framework label and does not opt out of injection.
	labeled *labeledWorkload
}

// displayName returns kind/name with the kind in lower case.
func (o *inputObject) displayName() string { return strings.ToLower(o.Kind) + "/" + o.Name }

// fieldPath converts a path in the checked workload to the path in the object of the input. The two differ only
// for a CronJob, which is not a workload of a gang: the checks read it as the Job of one run.
func (o *inputObject) fieldPath(path string) string {
	if !o.isCronJob || path == "metadata.name" {
		return path
	}
	return strings.TrimSuffix(manifest.JobTemplatePrefix+path, ".")
}

// labeledWorkload is a workload that the webhook would inject. Only inputObject is set if the
// workload cannot be decoded.
type labeledWorkload struct {
	*inputObject
	// denial is the error with which the webhook would reject the workload, or nil.
	denial error
	// warnings are those of the injection.
	warnings gang.Warnings
	// admitted is the workload as the webhook would admit it. It is the workload as written if the
	// webhook would reject it. A workload with only a generateName has the name that the denial suggests.
	admitted gang.Workload
	// gang is the gang of the workload. It is nil if the gang cannot be parsed.
	gang *gang.Gang
	// group contains the workloads of the gang. It is nil if the workload cannot be decoded.
	group *workloadGroup
	// launchers are those of all frameworks.
	launchers command.Launchers
}

// workloadGroup is a gang of the input.
type workloadGroup struct {
	roster.Group
	// members are the workloads of the group in the order of the input.
	members []*labeledWorkload
}

func readInput(docs []*manifest.Document, opts Options) *input {
	in := &input{
		launchers:         opts.Engine.Frameworks().Launchers(),
		objectsByKey:      map[string]*inputObject{},
		labeledByGangName: map[string][]*labeledWorkload{},
		admission: suite.Options{
			Engine: opts.Engine, Policy: opts.Policy, Now: opts.Now, Admitted: opts.Admitted,
			Namespaces: suite.ReadNamespaces(docs),
		},
	}
	for _, d := range docs {
		for _, object := range d.Objects() {
			o := in.readObject(object, opts.Namespace)
			in.objects = append(in.objects, o)
			if in.findObject(o.Kind, o.namespace, o.Name) == nil {
				in.objectsByKey[objectKey(o.Kind, o.namespace, o.Name)] = o
			}
		}
	}
	in.groupWorkloads()
	return in
}

// groupWorkloads groups the labeled workloads that could be decoded into gangs.
func (in *input) groupWorkloads() {
	var workloads []gang.Workload
	labeledByObject := map[runtime.Object]*labeledWorkload{}
	for _, o := range in.objects {
		if o.labeled != nil && o.decodeError == nil {
			workloads = append(workloads, o.labeled.admitted)
			labeledByObject[o.labeled.admitted.Object()] = o.labeled
		}
	}
	for _, g := range roster.GroupWorkloads(workloads, in.admission.Engine.Frameworks()) {
		group := &workloadGroup{Group: g}
		for _, w := range g.Workloads {
			labeled := labeledByObject[w.Object()]
			labeled.group, group.members = group, append(group.members, labeled)
		}
		key := gangNameKey(g)
		in.labeledByGangName[key] = append(in.labeledByGangName[key], group.members...)
	}
}

func gangNameKey(g roster.Group) string { return g.Namespace + "/" + g.Name }

// readObject decodes an object and simulates its admission.
func (in *input) readObject(object manifest.Object, defaultNamespace string) *inputObject {
	o := &inputObject{Object: object, namespace: cmp.Or(object.Namespace, defaultNamespace, "default")}
	if o.Kind == "Namespace" {
		o.namespace = ""
	}
	o.target, o.isCronJob = object.JobOfCronJob()
	w, unknownFields, isWorkload, err := o.target.DecodeWorkload()
	switch {
	case !isWorkload:
	case err != nil:
		o.decodeError = err
		if o.target.HasFrameworkLabel() {
			o.labeled = &labeledWorkload{inputObject: o}
		}
	default:
		w.Meta().Namespace = o.namespace
		o.workload, o.unknownFields = &w, unknownFields
		o.labeled = in.admitWorkload(o, w)
	}
	return o
}

// admitWorkload simulates the webhook. It returns nil if the webhook would not inject the workload.
func (in *input) admitWorkload(o *inputObject, workload gang.Workload) *labeledWorkload {
	if !workload.HasFrameworkLabel() || workload.OptedOut() {
		return nil
	}
	w := &labeledWorkload{
		inputObject: o, admitted: workload.DeepCopy(), launchers: in.launchers,
	}
	g, warnings, err := in.admission.AdmitWorkload(w.admitted)
	if name := workload.SuggestedName(); g == nil && name != "" {
		w.admitted.Meta().Name = name // the checks then find what the denial hides
		g, warnings, _ = in.admission.AdmitWorkload(w.admitted)
	}
	if w.gang, w.warnings = g, warnings; !in.admission.Admitted {
		w.denial = err
	}
	return w
}

func objectKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// findObject returns the first object with the given kind, namespace and name. It returns nil if
// the input does not contain the object.
func (in *input) findObject(kind, namespace, name string) *inputObject {
	return in.objectsByKey[objectKey(kind, namespace, name)]
}
