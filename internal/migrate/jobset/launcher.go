package jobset

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// Flags of a launcher with a number of processes: of each host, or of all hosts.
var (
	processesPerHostFlag = regexp.MustCompile(
		`(?:^|\s)(?:--?(?:npernode|ppn|perhost)[\s=]+|--map-by\s+ppr:|-pernode\s+)([0-9]+)\b`,
	)
	totalProcessesFlag = regexp.MustCompile(`(?:^|\s)(?:-np?|--np?)[\s=]+([0-9]+)\b`)
)

// inferSlotsPerWorker sets the number of processes on each host. Rollcall cannot derive it from the
// limits of the launcher.
func (s *Reader) inferSlotsPerWorker() {
	launcher, worker := s.findJobByRole(gang.RoleLauncher), s.findJobByRole("worker")
	_, set := s.Gang.RollcallAnnotations[gang.AnnotationSlotsPerWorker]
	if set || !s.hasLauncher() || launcher == nil || worker == nil {
		return
	}
	var command string
	for _, c := range ir.ListContainers(launcher.podSpec()) {
		command += strings.Join(slices.Concat(c.Command, c.Args), " ") + " "
	}
	slots, reason := 1, "no command or limit contains the number"
	hosts := int(s.countPods()["worker"])
	if m := processesPerHostFlag.FindStringSubmatch(command); m != nil {
		slots, reason = atoiOrOne(m[1]), "it is in the command"
	} else if m := totalProcessesFlag.FindStringSubmatch(command); m != nil {
		slots = (atoiOrOne(m[1]) + hosts - 1) / hosts
		reason = fmt.Sprintf("the command starts %s processes on %d hosts", m[1], hosts)
	} else if gpus := int(ir.CountAccelerators(worker.trainingContainer())); gpus > 0 {
		slots, reason = gpus, "it is the number of accelerators of a worker"
	}
	value := strconv.Itoa(min(max(slots, 1), gang.MaxProcessesPerPod))
	s.Gang.SetAnnotation(gang.AnnotationSlotsPerWorker, value)
	launcher.podTemplateField().AddNoteWithOutcome(source.Changed, "annotation "+gang.AnnotationSlotsPerWorker+": "+value,
		"the hostfile contains the number of processes of each host; "+reason, "change the annotation if the number is wrong")
}

func atoiOrOne(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return n
}

// convertSSH converts the command of a worker, and reports key files that a launcher names.
func (s *Reader) convertSSH(j *ReplicatedJob) {
	c := j.trainingContainer()
	if c == nil || !s.hasLauncher() || len(s.listRoles()) < 2 {
		return
	}
	index := slices.IndexFunc(j.podSpec().Containers, func(other corev1.Container) bool { return other.Name == c.Name })
	f := j.podTemplateField().At("spec", "containers").Item(index)
	if j.Role == gang.RoleLauncher {
		ir.ReportIdentityFiles(c, f)
	} else {
		ir.ConvertWorkerCommand(c, f, s.Context.Frameworks)
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
