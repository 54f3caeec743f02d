package jobset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// ChooseFrameworkAndRoles sets the framework of the gang and the roles of the jobs. The label on the
// JobSet has precedence over the option of the user, and the option over detection. Programs of no known
// framework form a generic gang.
func (s *Reader) ChooseFrameworkAndRoles() {
	if len(s.Jobs) == 0 {
		return
	}
	if s.applyExplicitFramework() || s.detectFramework() {
		s.assignRoles()
		return
	}
	s.Gang.Framework = s.Context.Frameworks.Fallback().Name
	s.assignRoles()
	s.listGangJobs()[0].podTemplateField().AddNoteWithOutcome(source.Changed,
		"label "+gang.LabelFramework+": "+s.Gang.Framework,
		"no variable or command belongs to a framework; every pod gets its rank and the addresses of all roles",
		"for the variables of a framework, name it with --framework")
}

// applyExplicitFramework sets the framework that the user named and reports whether there is one.
func (s *Reader) applyExplicitFramework() bool {
	for _, metadata := range []struct {
		field  string
		values map[string]string
	}{{"labels", s.Gang.Labels}, {"annotations", s.Gang.Annotations}} {
		if v := metadata.values[gang.LabelFramework]; v != "" {
			s.Gang.Framework = v
			delete(metadata.values, gang.LabelFramework)
			field := s.Root.At("metadata", metadata.field, gang.LabelFramework)
			field.DiscardEntries()
			field.MarkPreserved("label " + gang.LabelFramework)
			return true
		}
	}
	s.Gang.Framework = s.Context.Framework
	return s.Gang.Framework != ""
}

// detectFramework detects the framework from variables and commands and reports whether it could.
func (s *Reader) detectFramework() bool {
	pods := make([]*corev1.PodSpec, len(s.Jobs))
	for i, j := range s.Jobs {
		pods[i] = j.podSpec()
	}
	framework, evidence := ir.DetectFramework(s.Context.Frameworks, pods...)
	if evidence == "" {
		return false
	}
	s.Gang.Framework = framework.Name
	at := s.Jobs[slices.IndexFunc(pods, func(pod *corev1.PodSpec) bool {
		own, ownEvidence := ir.DetectFramework(s.Context.Frameworks, pod)
		return own.Name == framework.Name && ownEvidence == evidence
	})]
	ir.ReportDetection(at.podTemplateField(), framework.Name, evidence)
	return true
}

// assignRoles sets the roles of the training jobs.
func (s *Reader) assignRoles() {
	jobs := s.findTrainingJobs()
	if s.hasLauncher() && s.assignLauncher(jobs) {
		return
	}
	if len(jobs) == 1 {
		jobs[0].Role = "worker"
		return
	}
	if s.framework().AnyRoles {
		s.assignNamesAsRoles(jobs)
		return
	}
	for _, j := range jobs {
		j.Role = ir.FrameworkRole(s.framework(), ir.SuggestRole(s.Context.Frameworks, j.Name))
		if j.Role == "" {
			j.Source.Get("name").MarkInvalid(fmt.Sprintf(
				"must suggest a role of %s, because several jobs train; name the job worker or after another role of the "+
					"framework, or take it out of the JobSet if it does not train",
				s.Gang.Framework))
			return
		}
	}
	s.checkDuplicateRoles(jobs)
}

// assignNamesAsRoles makes the name of each job its role.
func (s *Reader) assignNamesAsRoles(jobs []*ReplicatedJob) {
	for _, j := range jobs {
		j.Role = j.Name
		if _, ok := s.framework().FindRole(j.Role); !ok {
			j.Source.Get("name").MarkInvalid("cannot be the name of a role; rename the job")
		}
	}
}

// findTrainingJobs returns the jobs whose program matches the framework or whose name suggests a role,
// or all jobs if there are none. Jobs that must be complete before others start are excluded. All jobs of
// a framework with any roles take part.
func (s *Reader) findTrainingJobs() []*ReplicatedJob {
	var known, all []*ReplicatedJob
	for _, j := range s.Jobs {
		if s.isPrerequisite(j) {
			continue
		}
		all = append(all, j)
		if ir.SuggestRole(s.Context.Frameworks, j.Name) != "" ||
			ir.Runs(s.Context.Frameworks, s.Gang.Framework, j.podSpec()) {
			known = append(known, j)
		}
	}
	if !s.framework().AnyRoles && (len(known) > 1 || len(known) == 1 && !s.hasLauncher()) {
		return known
	}
	return all // a launcher needs workers
}

// isPrerequisite reports whether another job starts after this one is complete.
func (s *Reader) isPrerequisite(j *ReplicatedJob) bool {
	return slices.ContainsFunc(s.Jobs, func(other *ReplicatedJob) bool {
		return slices.ContainsFunc(other.dependencies, func(d dependency) bool {
			return d.requiresCompletion && d.name == j.Name
		})
	})
}

// assignLauncher makes one job the launcher and the others workers. It returns false if no job is a
// launcher.
func (s *Reader) assignLauncher(jobs []*ReplicatedJob) bool {
	launcher := slices.IndexFunc(jobs, func(j *ReplicatedJob) bool {
		return ir.SuggestRole(s.Context.Frameworks, j.Name) == gang.RoleLauncher
	})
	if launcher < 0 {
		launcher = slices.IndexFunc(jobs, func(j *ReplicatedJob) bool {
			return j.Replicas*j.PodsPerJob == 1 && s.runsLauncher(j)
		})
	}
	if launcher < 0 || s.framework().LauncherNeedsWorkers() && len(jobs) == 1 {
		return false
	}
	for i, j := range jobs {
		j.Role = "worker"
		if i == launcher {
			j.Role = gang.RoleLauncher
		}
	}
	s.checkDuplicateRoles(jobs)
	return true
}

// runsLauncher reports whether a job runs the launcher of any framework.
func (s *Reader) runsLauncher(j *ReplicatedJob) bool {
	return slices.ContainsFunc(ir.ListContainers(j.podSpec()), func(c *corev1.Container) bool {
		return ir.RunsLauncher(s.Context.Frameworks, c)
	})
}

// checkDuplicateRoles rejects jobs of one role with different templates, because a role is one
// workload.
func (s *Reader) checkDuplicateRoles(jobs []*ReplicatedJob) {
	for i, j := range jobs {
		for _, other := range jobs[:i] {
			if other.Role != j.Role || equality.Semantic.DeepEqual(other.Template.Spec.Template, j.Template.Spec.Template) {
				continue
			}
			j.Source.Get("name").MarkInvalid(fmt.Sprintf(
				"must suggest another role than %s, because both are the role %s of %s and their templates differ; "+
					"use equal templates or names of different roles", other.Name, j.Role, s.Gang.Framework))
			return
		}
	}
}
