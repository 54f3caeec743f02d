package jobset

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// jobName returns the name of a plain Job of a job outside the gang.
func (j *ReplicatedJob) jobName(index int32) string {
	return fmt.Sprintf("%s-%d", j.workloadName, index)
}

// addStandaloneJobs adds the plain Jobs of a job outside the gang. They keep the names of the Jobs.
func (s *Reader) addStandaloneJobs(j *ReplicatedJob) {
	if j.Replicas > maxStandaloneJobs {
		j.Source.Get("replicas").MarkInvalid(fmt.Sprintf("must be at most %d, because the job is not part of the gang",
			maxStandaloneJobs))
		return
	}
	for i := range j.Replicas {
		job := s.buildStandaloneJob(j, j.jobName(i))
		if j.addressReferenced {
			job.Spec.Template.Spec.Subdomain = job.Name
			s.Gang.AdditionalObjects = append(s.Gang.AdditionalObjects,
				ir.NewHeadlessService(job.Name, job.Namespace, map[string]string{batchv1.JobNameLabel: job.Name}))
		}
		s.Gang.AdditionalObjects = append(s.Gang.AdditionalObjects, job)
	}
	to := "job.batch/" + j.jobName(0)
	if j.Replicas > 1 {
		to = fmt.Sprintf("job.batch/%s-{0..%d}", j.workloadName, j.Replicas-1)
	}
	j.recordJobTemplate(to)
	j.Source.AddNoteWithOutcome(source.Changed, to,
		"it is not part of the gang: a plain Job neither restarts with the gang nor completes it; "+
			"JobSet deleted it when the set finished, and now it runs until it finishes", "")
	if j.addressReferenced {
		j.Source.AddNoteWithOutcome(source.Changed, fmt.Sprintf("service/%s-<Job>", j.workloadName),
			"a text contains the hostnames of its pods, which are in a Service of each Job now; the texts were rewritten", "")
	}
}

// recordJobTemplate records the outcome of the Job template of a plain Job.
func (j *ReplicatedJob) recordJobTemplate(to string) {
	spec := j.Source.At("template", "spec")
	for _, name := range spec.Keys() {
		if name != "suspend" {
			spec.Get(name).MarkPreserved(to)
		}
	}
	spec.Get("suspend").MarkLeftOut("suspend of the JobSet overrides it")
	j.Source.Get("replicas").MarkPreserved("the number of plain Jobs")
}

func (s *Reader) buildStandaloneJob(j *ReplicatedJob, name string) *batchv1.Job {
	spec := *j.Template.Spec.DeepCopy()
	spec.Suspend, spec.ManagedBy = s.Gang.JobSpec.Suspend, s.Gang.JobSpec.ManagedBy
	if s.Gang.JobSpec.TTLSecondsAfterFinished != nil {
		spec.TTLSecondsAfterFinished = s.Gang.JobSpec.TTLSecondsAfterFinished
	}
	if s.Gang.JobSpec.ActiveDeadlineSeconds != nil {
		spec.ActiveDeadlineSeconds = s.Gang.JobSpec.ActiveDeadlineSeconds
	}
	if spec.CompletionMode == nil { // the default of JobSet's webhook
		spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
	if spec.Completions == nil && *spec.CompletionMode == batchv1.IndexedCompletion {
		spec.Completions = ptr.To(j.PodsPerJob)
	}
	if spec.Template.Spec.RestartPolicy == "" {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, s.Gang.Labels)
	maps.Copy(labels, j.Template.Labels)
	maps.Copy(annotations, s.Gang.Annotations)
	maps.Copy(annotations, j.Template.Annotations)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Gang.Namespace, Labels: labels, Annotations: annotations},
		Spec:       spec,
	}
}

// createVolumeClaims adds the claims that the JobSet controller created, with the same names, and adds
// their volumes to the jobs that mount them (JobSet pkg/controllers/volume_claim_policy.go).
func (s *Reader) createVolumeClaims() {
	for _, policy := range s.Spec.Get("volumeClaimPolicies").Items() {
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
		}
		policy.At("retentionPolicy", "whenDeleted").MarkHandled()
		policy.AddNote("the claims are never deleted automatically", "delete the claims when you do not need their data")
	}
}

// addClaimVolume adds the volume of a claim to a job that mounts it.
func (j *ReplicatedJob) addClaimVolume(volume, claim string) {
	isMounted := slices.ContainsFunc(ir.ListContainers(j.podSpec()), func(c *corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
	exists := slices.ContainsFunc(j.podSpec().Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if isMounted && !exists {
		j.podSpec().Volumes = append(j.podSpec().Volumes, ir.NewClaimVolume(volume, claim))
	}
}
