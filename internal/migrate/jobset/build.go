package jobset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// BuildGang fills in the Gang after the roles of the jobs are set.
func (s *Reader) BuildGang() {
	if len(s.Jobs) == 0 || len(s.Root.Recorder().Errors()) > 0 {
		return
	}
	s.Gang.SourceLabels = listSourceLabels(s.Gang.Name)
	s.Gang.ConvertSuspend(s.Spec.Get("suspend"))
	s.Gang.ConvertTTL(s.Spec.Get("ttlSecondsAfterFinished"))
	s.Gang.ConvertManagedBy(s.Spec.Get("managedBy"), controllerDomain)
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
		if chosen := s.inject(j).TrainingContainers; j.TrainingContainer == "" && len(chosen) > 0 {
			j.TrainingContainer = chosen[0]
		}
		s.rejectPerJobIndex(j)
		if c := j.trainingContainer(); c != nil && s.hasLauncher() && j.Role != gang.RoleLauncher && len(s.listRoles()) > 1 {
			ir.ConvertWorkerCommand(j.podSpec(), ir.FindContainer(j.podSpec(), c.Name), j.podTemplate, gang.LaunchSSH)
		}
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
		Name: role, Pods: s.countPods()[role], Template: first.Template.Spec.Template, Source: first.podTemplate,
		RollcallAnnotations: map[string]string{}, SourceNames: s.collectSourceNames(role),
		Labels: first.Template.Labels, Annotations: first.Template.Annotations,
	}
	if chosen := s.inject(first).TrainingContainers; len(chosen) > 0 {
		out.SetTrainingContainer(chosen, first.TrainingContainer)
	}
	s.convertJobFields(first, &out)
	for _, j := range s.listGangJobs() {
		if j.Role == role && j != first {
			j.podTemplate.MarkPreserved("the same workload as " + first.Name)
		}
	}
	return out
}

// convertNetwork converts the settings of the headless Service.
func (s *Reader) convertNetwork() {
	network := s.Spec.Get("network")
	for _, setting := range []struct{ name, always string }{
		{"enableDNSHostnames", "the ranks always have hostnames"},
		{"publishNotReadyAddresses", "the Service of the gang always publishes them"},
	} {
		field := network.Get(setting.name)
		if ptr.Deref(field.Bool(), true) {
			field.MarkPreserved(setting.always)
		} else {
			field.MarkChanged(setting.always, "ranks connect by hostname before they are ready", "")
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
			j.podTemplate.At("spec", "subdomain").MarkLeftOut("JobSet overwrote it")
		}
	}
}

// convertJobFields converts the Job template of a role.
func (s *Reader) convertJobFields(j *ReplicatedJob, role *ir.Role) {
	field, from, to := j.Source.At("template", "spec"), &j.Template.Spec, j.Template.Spec.DeepCopy()
	field.Get("parallelism").MarkPreserved("the number of pods of the workload")
	// A Job starts the indexes above its parallelism after others have completed. A gang has no such indexes.
	completions := ptr.Deref(from.Completions, 0)
	if rest := completions - j.PodsPerJob; rest > 0 {
		field.Get("completions").MarkDropped(fmt.Sprintf("a gang runs all ranks at once: %d of the %d indexes never run",
			rest, completions), "set parallelism and completions to the same number")
	} else {
		field.Get("completions").MarkPreserved("the number of pods of the workload")
	}
	if j.Replicas > 1 {
		j.Source.Get("replicas").MarkChanged("the number of pods of the workload",
			fmt.Sprintf("one workload has the pods of all %d Jobs, with one index instead of two", j.Replicas), "")
	}
	j.Source.Get("replicas").MarkPreserved("the number of pods of the workload")
	field.Get("completionMode").MarkPreserved("Indexed: each rank has an index")
	s.setJobFields(to)
	to.BackoffLimit, to.Selector, to.ManualSelector, to.SuccessPolicy = s.Gang.JobSpec.BackoffLimit, nil, nil, nil
	to.BackoffLimitPerIndex, to.MaxFailedIndexes = nil, nil
	field.Get("suspend").MarkLeftOut("suspend of the JobSet overrides it")
	if s.Gang.JobSpec.TTLSecondsAfterFinished != nil {
		field.Get("ttlSecondsAfterFinished").MarkLeftOut("the TTL of the JobSet overrides it")
	} else {
		field.Get("ttlSecondsAfterFinished").MarkPreserved("spec.ttlSecondsAfterFinished")
	}
	for _, name := range []string{"activeDeadlineSeconds", "managedBy", "podReplacementPolicy", "scheduling"} {
		field.Get(name).MarkPreserved("spec." + name)
	}
	role.PodFailurePolicy = s.convertPodFailurePolicy(j)
	for _, name := range strings.Fields("selector manualSelector backoffLimitPerIndex maxFailedIndexes successPolicy") {
		field.Get(name).MarkDropped("a gang completes and restarts as a unit, and its Jobs have generated selectors",
			"see "+gang.AnnotationMaxRestarts+" and "+gang.AnnotationSuccessPolicy)
	}
	role.JobSpec = to
}

// setJobFields sets the fields of a Job that the JobSet has too.
func (s *Reader) setJobFields(job *batchv1.JobSpec) {
	set := s.Gang.JobSpec
	job.Suspend, job.ManagedBy = set.Suspend, cmp.Or(set.ManagedBy, job.ManagedBy)
	if d := set.ActiveDeadlineSeconds; d != nil {
		job.ActiveDeadlineSeconds = ptr.To(min(*d, ptr.Deref(job.ActiveDeadlineSeconds, *d)))
	}
	job.TTLSecondsAfterFinished = cmp.Or(set.TTLSecondsAfterFinished, job.TTLSecondsAfterFinished)
}

// jobNames returns the names of the plain Jobs of a job outside the gang, as a shell expands them.
func (j *ReplicatedJob) jobNames() string {
	if j.Replicas == 1 {
		return fmt.Sprintf("job.batch/%s-0", j.workloadName)
	}
	return fmt.Sprintf("job.batch/%s-{0..%d}", j.workloadName, j.Replicas-1)
}

// addStandaloneJobs adds the plain Jobs of a job outside the gang. They keep the names of the Jobs.
func (s *Reader) addStandaloneJobs(j *ReplicatedJob) {
	if j.Replicas > maxStandaloneJobs {
		j.Source.Get("replicas").MarkInvalid(fmt.Sprintf("must be at most %d, because the job is not part of the gang",
			maxStandaloneJobs))
		return
	}
	for i := range j.Replicas {
		job := s.buildStandaloneJob(j, fmt.Sprintf("%s-%d", j.workloadName, i))
		if j.addressReferenced {
			job.Spec.Template.Spec.Subdomain = job.Name
			s.Gang.AdditionalObjects = append(s.Gang.AdditionalObjects,
				ir.NewHeadlessService(job.Name, job.Namespace, map[string]string{batchv1.JobNameLabel: job.Name}))
		}
		s.Gang.AdditionalObjects = append(s.Gang.AdditionalObjects, job)
	}
	to := j.jobNames()
	spec := j.Source.At("template", "spec")
	spec.Get("suspend").MarkLeftOut("suspend of the JobSet overrides it")
	for _, name := range spec.Keys() {
		if name != "suspend" {
			spec.Get(name).MarkPreserved(to)
		}
	}
	j.Source.Get("replicas").MarkPreserved("the number of plain Jobs")
	j.Source.AddNoteWithOutcome(source.Changed, to,
		"it is not part of the gang: a plain Job neither restarts with the gang nor completes it; "+
			"JobSet deleted it when the set finished, and now it runs until it finishes", "")
	if j.addressReferenced {
		j.Source.AddNoteWithOutcome(source.Changed, fmt.Sprintf("service/%s-<Job>", j.workloadName),
			"a text contains the hostnames of its pods, which are in a Service of each Job now; the texts were rewritten", "")
	}
}

func (s *Reader) buildStandaloneJob(j *ReplicatedJob, name string) *batchv1.Job {
	spec := *j.Template.Spec.DeepCopy()
	s.setJobFields(&spec)
	if spec.CompletionMode == nil { // the default of JobSet's webhook
		spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
	if spec.Completions == nil && *spec.CompletionMode == batchv1.IndexedCompletion {
		spec.Completions = ptr.To(j.PodsPerJob)
	}
	if spec.Template.Spec.RestartPolicy == "" {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Gang.Namespace, Labels: ir.MergeMaps(s.Gang.Labels, j.Template.Labels),
			Annotations: ir.MergeMaps(s.Gang.Annotations, j.Template.Annotations),
		},
		Spec: spec,
	}
}

// createVolumeClaims adds the claims that the JobSet controller created, with the same names, and adds
// their volumes to the jobs that mount them (JobSet pkg/controllers/volume_claim_policy.go).
func (s *Reader) createVolumeClaims() {
	namespace := ""
	if s.Gang.Namespace != "" {
		namespace = " -n " + s.Gang.Namespace
	}
	for _, policy := range s.Spec.Get("volumeClaimPolicies").Items() {
		var former []string
		for _, field := range policy.Get("templates").Items() {
			var claim corev1.PersistentVolumeClaim
			if field.Decode(&claim); claim.Name == "" {
				field.At("metadata", "name").MarkRequired("containers mount the volume by this name")
				continue
			}
			volume := claim.Name
			claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
			claim.Name, claim.Namespace = volume+"-"+s.Gang.Name, s.Gang.Namespace
			claim.Status = corev1.PersistentVolumeClaimStatus{}
			s.Gang.AdditionalObjects = append(s.Gang.AdditionalObjects, &claim)
			field.MarkPreserved("persistentvolumeclaim/" + claim.Name)
			for _, j := range s.Jobs {
				j.addClaimVolume(volume, claim.Name)
			}
			former = append(former, strings.TrimSuffix(claim.Name, s.Context.NameSuffix))
		}
		whenDeleted := policy.At("retentionPolicy", "whenDeleted")
		isRetained := whenDeleted.String() == "Retain"
		whenDeleted.MarkHandled()
		if len(former) > 0 && !isRetained {
			policy.AddNote(fmt.Sprintf("the %s owns the claims, so Kubernetes deletes them and their data with it, also "+
				"after a TTL; claims of a gang are never deleted automatically", s.Kind),
				"to keep the data, remove the owner before you delete the job: kubectl patch pvc "+strings.Join(former, " ")+
					namespace+` --type merge -p '{"metadata":{"ownerReferences":null}}'`)
		}
	}
}

// addClaimVolume adds the volume of a claim to a job that mounts it.
func (j *ReplicatedJob) addClaimVolume(volume, claim string) {
	isMounted := slices.ContainsFunc(ir.ListContainers(j.podSpec()), func(c *corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
	exists := slices.ContainsFunc(j.podSpec().Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if isMounted && !exists {
		j.podSpec().Volumes = append(j.podSpec().Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}
