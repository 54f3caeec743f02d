package jobset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

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

// jobOnlyReason names the feature of Jobs that a worker requires, or returns "".
func (s *Reader) jobOnlyReason(j *ReplicatedJob) string {
	spec := &j.Template.Spec
	switch policy := s.Gang.RollcallAnnotations[gang.AnnotationSuccessPolicy]; {
	case policy != "" && policy != gang.RoleLauncher && policy != gang.SuccessPolicyRank0:
		return "the success of these pods counts for " + gang.AnnotationSuccessPolicy
	case !j.awaitsLauncher():
		return "its command does not run sshd and may finish"
	case spec.ActiveDeadlineSeconds != nil:
		return "only Jobs have activeDeadlineSeconds"
	case spec.TTLSecondsAfterFinished != nil:
		return "only Jobs have ttlSecondsAfterFinished"
	case spec.ManagedBy != nil:
		return "only Jobs have managedBy"
	case spec.PodFailurePolicy != nil:
		return "only Jobs have podFailurePolicy"
	case spec.PodReplacementPolicy != nil:
		return "only Jobs have podReplacementPolicy"
	case spec.Scheduling != nil:
		return "only Jobs have scheduling"
	case j.readsJobMetadata():
		return "its template reads fields that only pods of Jobs have"
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
