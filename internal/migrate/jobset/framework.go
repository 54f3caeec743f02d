package jobset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"
	"rollcall.training/internal/detection"
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
	s.Gang.Framework = cmp.Or(s.Gang.Labels[gang.LabelFramework], s.Context.Framework)
	if field := s.Root.At("metadata", "labels", gang.LabelFramework); field.Exists() {
		field.DiscardEntries()
		field.MarkPreserved("label " + gang.LabelFramework)
	}
	if s.Gang.Framework == "" {
		var pods []*corev1.PodSpec
		for _, j := range s.Jobs {
			pods = append(pods, j.podSpec())
		}
		s.Gang.Framework = ir.DetectFramework(s.Context.Frameworks, s.Spec, pods...)
	}
	s.assignRoles()
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
	for _, j := range jobs {
		j.Role = j.Name
		if !s.framework().AnyRoles {
			j.Role = ir.FrameworkRole(s.framework(), ir.SuggestRole(s.Context.Frameworks, j.Name))
		}
		if _, ok := s.framework().FindRole(j.Role); j.Role == "" || !ok {
			j.Source.Get("name").MarkInvalid(fmt.Sprintf(
				"must suggest a role of %s, because several jobs train; name the job worker or after another role of the "+
					"framework, or take it out of the JobSet if it does not train",
				s.Gang.Framework))
			return
		}
	}
	s.checkDuplicateRoles(jobs)
}

// findTrainingJobs returns the jobs whose program matches the framework or whose name suggests a role,
// or all jobs if there are none. Jobs that must be complete before others start are excluded. All jobs of
// a framework with any roles take part.
func (s *Reader) findTrainingJobs() []*ReplicatedJob {
	var known, all []*ReplicatedJob
	for _, j := range s.Jobs {
		if j.isPrerequisite {
			continue
		}
		all = append(all, j)
		_, evidence := detection.FindFramework(gang.Frameworks{s.framework()}, j.podSpec())
		if evidence != "" || ir.SuggestRole(s.Context.Frameworks, j.Name) != "" {
			known = append(known, j)
		}
	}
	if !s.framework().AnyRoles && (len(known) > 1 || len(known) == 1 && !s.hasLauncher()) {
		return known
	}
	return all // a launcher needs workers
}

// assignLauncher makes one job the launcher and the others workers. It returns false if no job is a
// launcher.
func (s *Reader) assignLauncher(jobs []*ReplicatedJob) bool {
	launcher := slices.IndexFunc(jobs, func(j *ReplicatedJob) bool {
		return ir.SuggestRole(s.Context.Frameworks, j.Name) == gang.RoleLauncher
	})
	if launcher < 0 {
		launcher = slices.IndexFunc(jobs, func(j *ReplicatedJob) bool {
			framework, _ := detection.FindLauncher(s.Context.Frameworks, j.podSpec())
			return j.Replicas*j.PodsPerJob == 1 && framework.HasLauncher
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

// trainingContainer returns the training container, or nil if there are no containers.
func (j *ReplicatedJob) trainingContainer() *corev1.Container {
	if all := j.podSpec().Containers; len(all) > 0 {
		return &all[max(0, ir.FindContainer(j.podSpec(), j.TrainingContainer))]
	}
	return nil
}

// removeInjectedVars removes the variables that Rollcall sets. It first sets the annotations for what the
// engine adopts from the user's values, such as a port.
func (s *Reader) removeInjectedVars(j *ReplicatedJob) {
	if s.hasLauncher() && len(s.listRoles()) > 1 {
		return // the launcher passes variables to the other ranks
	}
	draft := *j // with the new hostnames, which the engine compares
	draft.Template = *j.Template.DeepCopy()
	for _, c := range s.trainingContainers(&draft) {
		for i := range c.Env {
			draft.readIndexOfJob(&c.Env[i])
		}
		s.rewriteTexts(c, map[*ReplicatedJob]int{})
	}
	injection := s.inject(&draft)
	s.Gang.RollcallAnnotations = ir.MergeMaps(injection.Settings, s.Gang.RollcallAnnotations)
	ir.RemoveInjectedVars(s.trainingContainers(j), injection, j.FindEnvField)
}

// trainingContainers returns the containers that get Rollcall's variables.
func (s *Reader) trainingContainers(j *ReplicatedJob) []*corev1.Container {
	names := []string{}
	if c := j.trainingContainer(); c != nil {
		names = append(names, c.Name)
	}
	return ir.TrainingContainers(j.podSpec(), names)
}

// inject returns what Rollcall injects into the pods of a job.
func (s *Reader) inject(j *ReplicatedJob) source.Injection {
	return s.Gang.InjectTemplate(s.Context, j.Role, s.countPods(), s.Gang.RollcallAnnotations, j.Template.Spec.Template)
}

// readIndexOfJob makes a variable that reads the index of a Job with one pod read the index of that pod.
func (j *ReplicatedJob) readIndexOfJob(e *corev1.EnvVar) {
	if j.PodsPerJob == 1 && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil &&
		strings.Contains(e.ValueFrom.FieldRef.FieldPath, labelPrefix+"job-index'") {
		e.ValueFrom.FieldRef.FieldPath = "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"
	}
}

// inferSlotsPerWorker sets the number of processes on each host.
func (s *Reader) inferSlotsPerWorker() {
	launcher, worker := s.findJobByRole(gang.RoleLauncher), s.findJobByRole("worker")
	if !s.hasLauncher() || launcher == nil || worker == nil {
		return
	}
	training := max(0, ir.FindContainer(worker.podSpec(), worker.TrainingContainer))
	s.Gang.InferSlotsPerWorker(launcher.podSpec(), launcher.podTemplate, worker.podSpec().Containers[training:],
		int(s.countPods()["worker"]), true)
}
