package jobset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// removeInjectedVars removes the variables that Rollcall sets. It first sets the annotations for a port
// and a number of processes that the user's values contain. Then variables whose value has the meaning of
// the injected one are preserved, and the others are changed.
func (s *Reader) removeInjectedVars(j *ReplicatedJob) {
	if s.hasLauncher() && len(s.listRoles()) > 1 {
		return // the launcher passes variables to the other ranks
	}
	containers := s.trainingContainers(j)
	draft := *j // with the new hostnames, which the engine compares
	draft.Template = *j.Template.DeepCopy()
	for _, c := range s.trainingContainers(&draft) {
		for i := range c.Env {
			s.adoptNumber(c.Env[i])
			draft.readIndexOfJob(&c.Env[i])
		}
		s.rewriteTexts(c)
	}
	injection := s.inject(&draft)
	s.Gang.Adopt(injection)
	for _, c := range containers {
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
			now, ok := injection.FindRequired(e.Name)
			if ok {
				s.recordInjectedVar(j, e, now, injection.Conflicts[c.Name+"/"+e.Name])
			}
			return ok
		})
	}
}

// trainingContainers returns the containers that get Rollcall's variables.
func (s *Reader) trainingContainers(j *ReplicatedJob) []*corev1.Container {
	names := []string{j.TrainingContainer}
	if list := s.Gang.RollcallAnnotations[gang.AnnotationContainers]; list != "" {
		names = strings.Split(strings.ReplaceAll(list, " ", ""), ",")
	}
	return slices.DeleteFunc(ir.ListContainers(j.podSpec()), func(c *corev1.Container) bool {
		isInit := slices.ContainsFunc(j.podSpec().InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
		return !isInit && !slices.Contains(names, c.Name)
	})
}

// inject returns what Rollcall injects into the pods of a job.
func (s *Reader) inject(j *ReplicatedJob) source.Injection {
	return s.Gang.InjectTemplate(s.Context, j.Role, s.countPods(), s.Gang.RollcallAnnotations, j.Template.Spec.Template)
}

// adoptNumber sets the annotation for a number that a variable contains and that Rollcall sets only with
// the annotation: the number of processes of torchrun, and the port of MaxText.
func (s *Reader) adoptNumber(e corev1.EnvVar) {
	n, err := strconv.Atoi(e.Value)
	key, valid := "", false
	switch {
	case e.Name == "PET_NPROC_PER_NODE" && !s.hasLauncher():
		key = gang.AnnotationNprocPerNode
		valid = err == nil && n > 0 || slices.Contains([]string{"auto", "gpu", "cpu"}, e.Value)
	case e.Name == "JAX_COORDINATOR_PORT" && s.Gang.Framework == "jax":
		key, valid = gang.AnnotationPort, err == nil && n >= gang.MinPort && n <= gang.MaxPort
	}
	if valid && s.Gang.RollcallAnnotations[key] == "" {
		s.Gang.SetAnnotation(key, e.Value)
	}
}

// readIndexOfJob makes a variable that reads the index of a Job with one pod read the index of that pod.
func (j *ReplicatedJob) readIndexOfJob(e *corev1.EnvVar) {
	if j.PodsPerJob == 1 && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil &&
		strings.Contains(e.ValueFrom.FieldRef.FieldPath, labelPrefix+"job-index'") {
		e.ValueFrom.FieldRef.FieldPath = "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"
	}
}

// recordInjectedVar records the outcome of a removed variable.
func (s *Reader) recordInjectedVar(j *ReplicatedJob, before, now corev1.EnvVar, differs bool) {
	outcome, reason := source.Preserved, ""
	if differs {
		outcome, reason = source.Changed, fmt.Sprintf("%s was %q; for this gang it is ", before.Name, before.Value)
		switch {
		case before.ValueFrom != nil:
			reason = before.Name + " had a value that is not known before the pod runs, or that differs from the one of this gang"
		case now.ValueFrom != nil:
			reason += "the rank of the pod"
		case len(now.Value) > maxShownValue:
			reason += "derived from the hostnames of all ranks"
		default:
			reason += strconv.Quote(now.Value)
		}
	}
	j.findEnvField(before.Name).AddNoteWithOutcome(outcome, "set by Rollcall", reason, "")
}

// maxShownValue is the length of the longest value in a report.
const maxShownValue = 100

// isRank0Host reports whether a hostname is that of the gang's first pod.
func (s *Reader) isRank0Host(host string) bool {
	first := s.findJobByRole(s.listRoles()[0])
	return host == fmt.Sprintf("%s-0.%s", first.workloadName, first.serviceName)
}
