package jobset

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// BuildGang fills in the Gang after the roles of the jobs are set.
func (s *Reader) BuildGang() {
	if len(s.Jobs) == 0 || len(s.Root.Recorder().Errors()) > 0 {
		return
	}
	s.Gang.SourceLabels = listSourceLabels(s.Gang.Name)
	s.convertSuspendAndTTL()
	s.convertNetwork()
	s.convertSuccessPolicy()
	s.convertFailurePolicy()
	s.createVolumeClaims()
	s.removeJobSetMetadata()
	s.assignWorkloads()
	for _, j := range s.Jobs {
		s.replaceConstantLabels(j)
	}
	s.rejectTPUSlices()
	for _, j := range s.listGangJobs() {
		s.chooseTrainingContainer(j)
		s.rejectPerJobIndex(j)
		s.convertSSH(j)
		s.removeInjectedVars(j)
	}
	s.inferSlotsPerWorker()
	s.rewriteHostnames()
	s.convertCoordinator()
	s.convertStartupOrder()
	for _, role := range s.listRoles() {
		s.Gang.Roles = append(s.Gang.Roles, s.buildRole(role))
	}
	for _, j := range s.Jobs {
		if j.Role == "" {
			s.addStandaloneJobs(j)
		}
	}
}

// assignWorkloads sets the workload, the first index and the Service of each job's pods.
func (s *Reader) assignWorkloads() {
	roles, next := s.listRoles(), map[string]int32{}
	for _, j := range s.Jobs {
		if j.Role == "" {
			j.workloadName = s.Gang.Name + "-" + j.Name // followed by the index of each Job
			continue
		}
		j.workloadName, j.serviceName = s.Gang.Name, s.Gang.Name
		if len(roles) > 1 {
			j.workloadName += "-" + j.Role
		} else if sub := j.podSpec().Subdomain; sub != "" {
			j.serviceName = sub
		}
		j.firstIndex = next[j.Role]
		next[j.Role] += j.Replicas * j.PodsPerJob
	}
}

// buildRole builds the role of all jobs with the given role. Their templates are equal.
func (s *Reader) buildRole(role string) ir.Role {
	first := s.findJobByRole(role)
	out := ir.Role{
		Name: role, Pods: s.countPods()[role], Template: first.Template.Spec.Template, Source: first.podTemplateField(),
		RollcallAnnotations: map[string]string{}, SourceNames: s.collectSourceNames(role),
		Labels: first.Template.Labels, Annotations: first.Template.Annotations,
	}
	if chosen := s.inject(first).TrainingContainers; len(chosen) > 0 && len(out.Template.Spec.Containers) > 1 &&
		!ir.IsDefaultTrainingContainer(chosen, out.Template, first.TrainingContainer) {
		out.RollcallAnnotations[gang.AnnotationContainers] = first.TrainingContainer
	}
	s.convertJobFields(first, &out)
	for _, j := range s.listGangJobs() {
		if j.Role == role && j != first {
			j.podTemplateField().MarkPreserved("the same workload as " + first.Name)
		}
	}
	return out
}

func (s *Reader) convertSuspendAndTTL() {
	s.Gang.ConvertSuspend(s.Spec.Get("suspend"))
	s.Gang.ConvertTTL(s.Spec.Get("ttlSecondsAfterFinished"))
	s.Gang.ConvertManagedBy(s.Spec.Get("managedBy"), controllerDomain)
}

// convertNetwork converts the settings of the headless Service.
func (s *Reader) convertNetwork() {
	network := s.Spec.Get("network")
	for _, setting := range []struct{ name, always string }{
		{"enableDNSHostnames", "the ranks always have hostnames"},
		{"publishNotReadyAddresses", "the Service of the gang always publishes them"},
	} {
		field := network.Get(setting.name)
		switch on := field.Bool(); {
		case on != nil && !*on:
			field.MarkChanged(setting.always, "ranks connect by hostname before they are ready", "")
		case on != nil:
			field.MarkPreserved(setting.always)
		}
	}
	subdomain := network.Get("subdomain")
	roles := s.listRoles()
	switch v := subdomain.String(); {
	case v == "":
	case len(roles) == 1:
		for _, j := range s.listGangJobs() {
			j.podSpec().Subdomain = v
		}
		subdomain.MarkPreserved("spec.template.spec.subdomain")
	default:
		subdomain.MarkChanged("Service "+s.Gang.Name,
			"all workloads of the gang share the Service with the name of the gang", "")
	}
	for _, j := range s.Jobs {
		// The controller overwrites it (jobset_controller.go, constructJob).
		if j.podSpec().Subdomain != "" && j.podSpec().Subdomain != subdomain.String() {
			j.podSpec().Subdomain = ""
			j.podTemplateField().At("spec", "subdomain").MarkLeftOut("JobSet overwrote it")
		}
	}
}

// convertJobFields converts the Job template of a role.
func (s *Reader) convertJobFields(j *ReplicatedJob, role *ir.Role) {
	field, from, to := j.Source.At("template", "spec"), &j.Template.Spec, s.Gang.JobSpec.DeepCopy()
	field.Get("parallelism").MarkPreserved("the number of pods of the workload")
	j.recordCompletions()
	if j.Replicas > 1 {
		j.Source.Get("replicas").MarkChanged("the number of pods of the workload",
			fmt.Sprintf("one workload has the pods of all %d Jobs, with one index instead of two", j.Replicas), "")
	}
	j.Source.Get("replicas").MarkPreserved("the number of pods of the workload")
	if mode := from.CompletionMode; mode != nil && *mode != batchv1.IndexedCompletion {
		field.Get("completionMode").MarkChanged("Indexed", "each rank has an index", "")
	}
	field.Get("completionMode").MarkPreserved("each rank has an index")
	s.convertTimeLimits(j, to)
	if from.Suspend != nil {
		field.Get("suspend").MarkLeftOut("suspend of the JobSet overrides it")
	}
	if from.ManagedBy != nil {
		to.ManagedBy = cmp.Or(to.ManagedBy, from.ManagedBy)
		field.Get("managedBy").MarkPreserved("spec.managedBy")
	}
	if from.PodReplacementPolicy != nil {
		to.PodReplacementPolicy = from.PodReplacementPolicy
		field.Get("podReplacementPolicy").MarkPreserved("spec.podReplacementPolicy")
	}
	if from.Scheduling != nil {
		to.Scheduling = from.Scheduling
		field.Get("scheduling").MarkPreserved("spec.scheduling")
	}
	for _, name := range []string{"selector", "manualSelector"} {
		field.Get(name).MarkDropped("the Job controller generates the selector of each Job", "")
	}
	role.PodFailurePolicy = s.convertPodFailurePolicy(j)
	for _, name := range []string{"backoffLimitPerIndex", "maxFailedIndexes"} {
		field.Get(name).MarkDropped("all ranks of a gang restart together", "see "+gang.AnnotationMaxRestarts)
	}
	field.Get("successPolicy").MarkDropped("indexes of a Job do not complete a gang", "see "+gang.AnnotationSuccessPolicy)
	role.JobSpec = to
}

// recordCompletions records the outcome of the completions. A Job starts the indexes above its parallelism
// after others have completed. A gang does not have such indexes.
func (j *ReplicatedJob) recordCompletions() {
	field, completions := j.Source.At("template", "spec", "completions"), ptr.Deref(j.Template.Spec.Completions, 0)
	if completions > j.PodsPerJob {
		field.MarkDropped(fmt.Sprintf("a gang runs all ranks at once, so %d of the %d indexes would never run",
			completions-j.PodsPerJob, completions), "set parallelism and completions to the same number")
		return
	}
	field.MarkPreserved("the number of pods of the workload")
}

// convertTimeLimits converts the deadline and the TTL of a Job.
func (s *Reader) convertTimeLimits(j *ReplicatedJob, to *batchv1.JobSpec) {
	field, from := j.Source.At("template", "spec"), &j.Template.Spec
	if from.ActiveDeadlineSeconds != nil {
		to.ActiveDeadlineSeconds = from.ActiveDeadlineSeconds
		field.Get("activeDeadlineSeconds").MarkPreserved("spec.activeDeadlineSeconds")
	}
	if from.TTLSecondsAfterFinished == nil {
		return
	}
	if to.TTLSecondsAfterFinished != nil {
		field.Get("ttlSecondsAfterFinished").MarkLeftOut("the TTL of the JobSet overrides it")
		return
	}
	to.TTLSecondsAfterFinished = from.TTLSecondsAfterFinished
	field.Get("ttlSecondsAfterFinished").MarkPreserved("spec.ttlSecondsAfterFinished")
}
