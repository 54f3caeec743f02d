package jobset

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// trainingContainer returns the training container, or nil if there are no containers.
func (j *ReplicatedJob) trainingContainer() *corev1.Container {
	if all := j.podSpec().Containers; len(all) > 0 {
		return &all[max(0, ir.FindContainer(j.podSpec(), j.TrainingContainer))]
	}
	return nil
}

// chooseTrainingContainer sets the training container of a job that has none to the one that Rollcall
// chooses.
func (s *Reader) chooseTrainingContainer(j *ReplicatedJob) {
	if chosen := s.inject(j).TrainingContainers; j.TrainingContainer == "" && len(chosen) > 0 {
		j.TrainingContainer = chosen[0]
	}
}

// moveContainerFirst moves a container to the front. The first of several training containers
// determines the number of processes.
func moveContainerFirst(all []corev1.Container, name string) {
	at := max(0, slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }))
	first := all[at]
	copy(all[1:at+1], all[:at])
	all[0] = first
}

// removeInjectedVars removes the variables that Rollcall sets. It first sets the annotations for what the
// engine adopts from the user's values, such as a port.
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

// inferSlotsPerWorker sets the number of processes on each host.
func (s *Reader) inferSlotsPerWorker() {
	launcher, worker := s.findJobByRole(gang.RoleLauncher), s.findJobByRole("worker")
	if !s.hasLauncher() || launcher == nil || worker == nil {
		return
	}
	var containers []corev1.Container
	if c := worker.trainingContainer(); c != nil {
		containers = append(containers, *c)
	}
	s.Gang.InferSlotsPerWorker(launcher.podSpec(), launcher.podTemplateField(), containers,
		int(s.countPods()["worker"]), true)
}

// convertSSH converts the command of a worker, and reports key files that a launcher names.
func (s *Reader) convertSSH(j *ReplicatedJob) {
	if c := j.trainingContainer(); c != nil && s.hasLauncher() && len(s.listRoles()) > 1 {
		ir.ConvertSSH(j.Role, j.podSpec(), ir.FindContainer(j.podSpec(), c.Name), j.podTemplateField(), s.framework())
	}
}

// convertWorkerKind requests a StatefulSet for the workers of a launcher that run until they are
// stopped.
func (s *Reader) convertWorkerKind(j *ReplicatedJob, role *ir.Role) {
	if role.Name != "worker" || s.findJobByRole(gang.RoleLauncher) == nil || !s.hasLauncher() {
		return
	}
	role.StatefulSet, role.JobReason = true, s.jobOnlyReason(j)
	if s.Gang.RoleJobReason(*role) == "" {
		j.podTemplateField().At("spec", "restartPolicy").MarkChanged("Always",
			"StatefulSets permit no other policy; if a rank fails, all ranks restart together", "")
	}
}

// jobOnlyFields are the fields of a Job that a StatefulSet does not have.
var jobOnlyFields = []string{
	"activeDeadlineSeconds", "ttlSecondsAfterFinished", "managedBy", "podFailurePolicy", "podReplacementPolicy",
	"scheduling",
}

// jobOnlyReason names the feature of Jobs that a worker requires, or returns "".
func (s *Reader) jobOnlyReason(j *ReplicatedJob) string {
	switch policy := s.Gang.RollcallAnnotations[gang.AnnotationSuccessPolicy]; {
	case policy != "" && policy != gang.RoleLauncher && policy != gang.SuccessPolicyRank0:
		return "the success of these pods counts for " + gang.AnnotationSuccessPolicy
	case !j.awaitsLauncher():
		return "its command does not run sshd and may finish"
	case j.readsJobMetadata():
		return "its template reads fields that only pods of Jobs have"
	}
	spec := j.Source.At("template", "spec")
	for _, name := range jobOnlyFields {
		if spec.Get(name).Exists() {
			return "only Jobs have " + name
		}
	}
	return ""
}

// awaitsLauncher reports whether the training container only waits for the launcher: it has no
// command, and runs the sshd of the gang, or its command runs sshd.
func (j *ReplicatedJob) awaitsLauncher() bool {
	c := j.trainingContainer()
	return c == nil || len(c.Command)+len(c.Args) == 0 || ir.StartsSSHD(slices.Concat(c.Command, c.Args))
}

// readsJobMetadata reports whether the template reads labels or variables of the Job controller.
func (j *ReplicatedJob) readsJobMetadata() bool {
	words := []string{"batch.kubernetes.io/", "JOB_COMPLETION_INDEX", "labels['job-name']"}
	return slices.ContainsFunc(words, func(word string) bool { return containsText(j.Template.Spec.Template, word) })
}
