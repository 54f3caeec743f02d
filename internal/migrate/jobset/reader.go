package jobset

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// Group is the API group of JobSet.
const Group = "jobset.x-k8s.io"

// maxStandaloneJobs bounds the plain Jobs of one replicated job. A driver or a server has one Job, so
// hundreds of Jobs outside the gang are a mistake.
const maxStandaloneJobs = 64

// Reader converts a JobSet. [NewReader] reads its jobs, the caller or
// [Reader.ChooseFrameworkAndRoles] sets their roles, and [Reader.BuildGang] fills in Gang.
type Reader struct {
	source.Object
	// Gang is the result. Its Framework must be set before [Reader.BuildGang].
	Gang *ir.Gang
	// Spec is the spec of the JobSet.
	Spec source.Field
	// Jobs are the replicated jobs that have pods, in the order of the manifest.
	Jobs []*ReplicatedJob
}

// ReplicatedJob is a replicated job.
type ReplicatedJob struct {
	// Name is the name within the JobSet.
	Name string
	// Source is the place in the manifest.
	Source source.Field
	// Replicas is the number of Jobs, and PodsPerJob the number of pods of each. Both are at
	// least 1.
	Replicas, PodsPerJob int32
	// Template is the template of the Jobs.
	Template batchv1.JobTemplateSpec
	// Role is the role in the gang, or empty for a job outside the gang.
	Role string
	// TrainingContainer is the name of the training container, or empty for the first container.
	TrainingContainer string
	// EnvFields are further places of variables of the containers.
	EnvFields []source.Field

	podTemplate       source.Field // the place of the pod template
	dependencies      []dependency
	isPrerequisite    bool // another job starts after this one is complete
	workloadName      string
	firstIndex        int32  // the index of its first pod in the workload
	serviceName       string // the Service with the hostnames of its pods
	addressReferenced bool   // a text contains a hostname of its pods
	// unmappableRecorded is true after a hostname without a replacement was reported.
	unmappableRecorded bool
}

// dependency is an entry of dependsOn.
type dependency struct {
	field              source.Field
	on                 *ReplicatedJob
	requiresCompletion bool
}

// Read converts a JobSet. Errors of the manifest are in the Recorder. The returned error is for a
// kind or a version that cannot be migrated.
func Read(o source.Object) (*ir.Gang, error) {
	if err := o.CheckVersion(); err != nil {
		return nil, err
	}
	s := NewReader(o, ir.NewGang(o), o.Root.Get("spec"))
	s.ChooseFrameworkAndRoles()
	pods := int32(0)
	for _, n := range s.countPods() {
		pods += n
	}
	for _, j := range s.listGangJobs() {
		ir.ReportJoinedPods(s.framework(), j.podSpec(), j.podTemplate, pods)
	}
	s.BuildGang()
	return s.Gang, nil
}

// NewReader reads the replicated jobs of a JobSet.
func NewReader(o source.Object, b *ir.Gang, spec source.Field) *Reader {
	s := &Reader{Object: o, Gang: b, Spec: spec}
	list := spec.Get("replicatedJobs")
	if len(list.Items()) == 0 {
		list.MarkRequired("a gang needs at least one job")
	}
	for _, f := range list.Items() {
		if j := s.readReplicatedJob(f); j != nil {
			s.Jobs = append(s.Jobs, j)
		}
	}
	return s
}

// readReplicatedJob returns nil for a job that has no pods or is invalid.
func (s *Reader) readReplicatedJob(f source.Field) *ReplicatedJob {
	j := &ReplicatedJob{
		Name: f.Get("name").String(), Source: f, podTemplate: f.At("template", "spec", "template"),
		Replicas: ptr.Deref(f.Get("replicas").Int32(), 1),
	}
	if j.Name == "" {
		f.Get("name").MarkRequired("it identifies the job")
		return nil
	}
	if s.FindJob(j.Name) != nil {
		f.Get("name").MarkInvalid("must be unique")
		return nil
	}
	f.Get("name").MarkPreserved("identifies the job")
	f.Get("groupName").MarkLeftOut("it was only the value of a label, which the new pods do not have")
	template := f.Get("template")
	if !template.Get("spec").Get("template").Exists() {
		template.At("spec", "template").MarkRequired("it describes the pods")
		return nil
	}
	if !template.Decode(&j.Template) {
		return nil
	}
	j.PodsPerJob = ptr.Deref(j.Template.Spec.Parallelism, 1)
	if j.Replicas < 0 || j.PodsPerJob < 0 || int64(j.Replicas)*int64(j.PodsPerJob) > gang.MaxPods {
		f.MarkInvalid(fmt.Sprintf("replicas x parallelism is %d x %d; must be from 0 to %d pods",
			j.Replicas, j.PodsPerJob, gang.MaxPods))
		return nil
	}
	if j.Replicas*j.PodsPerJob == 0 {
		f.MarkLeftOut("it has no pods")
		return nil
	}
	if c := j.Template.Spec.Completions; c != nil && *c < j.PodsPerJob {
		j.PodsPerJob = max(*c, 1) // a Job never runs more pods than have to complete
	}
	for _, f := range f.Get("dependsOn").Items() {
		d := dependency{field: f, on: s.FindJob(f.Get("name").String())}
		d.requiresCompletion = f.Get("status").String() == "Complete"
		f.ReportUnreadExcept("name", "status")
		if d.on == nil {
			f.Get("name").MarkInvalid("must be the name of a replicated job before this one that has pods")
			continue
		}
		d.on.isPrerequisite = d.on.isPrerequisite || d.requiresCompletion
		j.dependencies = append(j.dependencies, d)
	}
	return j
}

// FindJob returns the replicated job of the given name, or nil.
func (s *Reader) FindJob(name string) *ReplicatedJob {
	if i := slices.IndexFunc(s.Jobs, func(j *ReplicatedJob) bool { return j.Name == name }); i >= 0 {
		return s.Jobs[i]
	}
	return nil
}

// findJobByRole returns the first job of a role, or nil.
func (s *Reader) findJobByRole(role string) *ReplicatedJob {
	if i := slices.IndexFunc(s.Jobs, func(j *ReplicatedJob) bool { return j.Role == role }); i >= 0 {
		return s.Jobs[i]
	}
	return nil
}

// listGangJobs returns the jobs of the gang.
func (s *Reader) listGangJobs() []*ReplicatedJob {
	return slices.DeleteFunc(slices.Clone(s.Jobs), func(j *ReplicatedJob) bool { return j.Role == "" })
}

// framework returns the framework of the gang, or the zero value if Rollcall does not support it.
func (s *Reader) framework() gang.Framework {
	f, _ := s.Context.Frameworks.Find(s.Gang.Framework)
	return f
}

// hasLauncher reports whether a launcher starts the processes of the gang's other pods.
func (s *Reader) hasLauncher() bool { return s.framework().HasLauncher }

// listRoles returns the roles of the gang in the order of their ranks.
func (s *Reader) listRoles() []string {
	var out []string
	for _, j := range s.listGangJobs() {
		if !slices.Contains(out, j.Role) {
			out = append(out, j.Role)
		}
	}
	slices.SortStableFunc(out, s.framework().CompareRoles)
	return out
}

// countPods returns the number of pods of each role.
func (s *Reader) countPods() map[string]int32 {
	out := map[string]int32{}
	for _, j := range s.listGangJobs() {
		out[j.Role] += j.Replicas * j.PodsPerJob
	}
	return out
}

func (j *ReplicatedJob) podSpec() *corev1.PodSpec { return &j.Template.Spec.Template.Spec }

// FindEnvField returns the place of a variable of the job's containers, or the pod template if no place has
// the variable. Of several places, the last one has the effective value.
func (j *ReplicatedJob) FindEnvField(container, name string) source.Field {
	found := ir.FindEnvField(j.podTemplate, container, name)
	for _, list := range j.EnvFields {
		for _, e := range list.Items() {
			if e.Get("name").String() == name {
				found = e
			}
		}
	}
	return found
}
