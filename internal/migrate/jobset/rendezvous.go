package jobset

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// removeInjectedVars removes the variables that Rollcall sets. It first sets the annotations for a port
// and a number of processes that the user's values contain.
func (s *Reader) removeInjectedVars(j *ReplicatedJob) {
	if s.hasLauncher() && len(s.listRoles()) > 1 {
		return // the launcher passes variables to the other ranks
	}
	draft := *j // with the new hostnames, which the engine compares
	draft.Template = *j.Template.DeepCopy()
	containers := s.trainingContainers(&draft)
	for _, c := range containers {
		for i := range c.Env {
			draft.readIndexOfJob(&c.Env[i])
		}
		s.rewriteTexts(c)
	}
	if !s.hasLauncher() {
		ir.AdoptNumbers(s.Gang.RollcallAnnotations, s.framework(), containers)
	}
	injection := s.inject(&draft)
	injection.Adopt(s.Gang.RollcallAnnotations)
	ir.RemoveInjectedVars(s.trainingContainers(j), injection, j.FindEnvField)
}

// trainingContainers returns the containers that get Rollcall's variables.
func (s *Reader) trainingContainers(j *ReplicatedJob) []*corev1.Container {
	names := []string{}
	if c := j.trainingContainer(); c != nil {
		names = append(names, c.Name)
	}
	if list := s.Gang.RollcallAnnotations[gang.AnnotationContainers]; list != "" {
		names = strings.Split(strings.ReplaceAll(list, " ", ""), ",")
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

// isRank0Host reports whether a hostname is that of the gang's first pod.
func (s *Reader) isRank0Host(host string) bool {
	first := s.findJobByRole(s.listRoles()[0])
	return host == fmt.Sprintf("%s-0.%s", first.workloadName, first.serviceName)
}
