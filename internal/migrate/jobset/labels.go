package jobset

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// Prefixes of the labels, annotations and controllers of JobSet.
const (
	controllerDomain = "jobset.sigs.k8s.io"
	labelPrefix      = controllerDomain + "/"
	alphaLabelPrefix = "alpha." + labelPrefix
)

// jobSetLabelPath matches the downward API path of a label or an annotation of JobSet.
var jobSetLabelPath = regexp.MustCompile(
	`^metadata\.(?:labels|annotations)\['` + regexp.QuoteMeta(labelPrefix) + `([a-z-]+)'\]$`)

// listSourceLabels returns the labels that JobSet and the Job controller give to the pods of the
// JobSet of the given name.
func listSourceLabels(name string) map[string]ir.SourceLabel {
	out := map[string]ir.SourceLabel{
		labelPrefix + "jobset-name":        {Meaning: ir.MeaningGang},
		labelPrefix + "replicatedjob-name": {Meaning: ir.MeaningRole},
		batchv1.JobNameLabel:               {Preserved: true, ValuePrefix: name + "-"},
		"job-name":                         {Preserved: true, ValuePrefix: name + "-"},
	}
	for _, label := range []string{
		"jobset-uid", "job-key", "job-index", "job-global-index", "job-group-index", "replicatedjob-replicas",
		"global-replicas", "group-name", "group-replicas", "restart-attempt", "job-restart-attempt", "coordinator",
	} {
		out[labelPrefix+label] = ir.SourceLabel{}
	}
	return out
}

// collectSourceNames returns the labels of the pods of a role. If several jobs have the role, the name
// of one job does not select the pods of the role.
func (s *Reader) collectSourceNames(role string) ir.SourceNames {
	jobs := slices.DeleteFunc(s.listGangJobs(), func(j *ReplicatedJob) bool { return j.Role != role })
	if len(jobs) > 1 {
		return ir.SourceNames{}
	}
	return ir.SourceNames{Role: jobs[0].Name}
}

// removeJobSetMetadata removes the labels and annotations for JobSet's controllers from the templates
// and from the gang.
func (s *Reader) removeJobSetMetadata() {
	meta := s.Root.At("metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(s.Gang.Annotations)) {
		if isJobSetKey(key) {
			meta.Get(key).DiscardEntries()
		}
	}
	removeJobSetKeys(s.Gang.Annotations, meta)
	for _, j := range s.Jobs {
		meta := j.Source.At("template", "metadata")
		for name, values := range map[string]map[string]string{
			"labels": j.Template.Labels, "annotations": j.Template.Annotations,
		} {
			field := meta.Get(name)
			removeJobSetKeys(values, field)
			if len(values) > 0 {
				field.MarkPreserved(name + " of the workload")
			} else {
				field.MarkHandled() // the removed keys have entries
			}
		}
		for _, name := range meta.Keys() {
			if name != "labels" && name != "annotations" {
				meta.Get(name).MarkLeftOut("JobSet uses only labels and annotations of the metadata")
			}
		}
		pod := j.podTemplate.Get("metadata")
		removeJobSetKeys(j.Template.Spec.Template.Labels, pod.Get("labels"))
		removeJobSetKeys(j.Template.Spec.Template.Annotations, pod.Get("annotations"))
	}
}

func isJobSetKey(key string) bool {
	return strings.HasPrefix(key, alphaLabelPrefix) || strings.HasPrefix(key, labelPrefix)
}

func removeJobSetKeys(values map[string]string, field source.Field) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if isJobSetKey(key) {
			delete(values, key)
			recordDroppedKey(field.Get(key), key)
		}
	}
}

func recordDroppedKey(field source.Field, key string) {
	if key == alphaLabelPrefix+"exclusive-topology" {
		field.MarkDropped("Rollcall does not reserve topology domains for Jobs", fmt.Sprintf(
			"in a queue of Kueue, %s: %s places all pods in one domain, and %s: %[2]s/N each group of N pods; "+
				"neither keeps other pods out",
			gang.AnnotationTopology, field.String(), gang.AnnotationSegment))
	} else {
		field.MarkDropped("only the controllers of JobSet read it", "")
	}
}

// rejectPerJobIndex rejects a template that reads the index of a pod within its Job if one workload
// gets the pods of several Jobs. The program would read a wrong rank.
func (s *Reader) rejectPerJobIndex(j *ReplicatedJob) {
	if j.Replicas == 1 || j.PodsPerJob == 1 {
		return
	}
	for _, word := range []string{"job-completion-index", "JOB_COMPLETION_INDEX"} {
		if containsText(j.podSpec(), word) {
			j.Source.Get("replicas").MarkInvalid(fmt.Sprintf(
				"must be 1, because the template reads %s, the index within one of %d Jobs, "+
					"and the new workload has one index for all %d pods; set replicas to 1, or compute both numbers from that index "+
					"(index / %d is the Job, index %% %d is the pod)",
				word, j.Replicas, j.Replicas*j.PodsPerJob, j.PodsPerJob, j.PodsPerJob))
			return
		}
	}
}

// rejectTPUSlices rejects several Jobs of TPU pods. GKE assigns each Job of a JobSet to a slice, and sets
// TPU_WORKER_ID, TPU_WORKER_HOSTNAMES and MEGASCALE_* from its indexes. One Job has one slice.
func (s *Reader) rejectTPUSlices() {
	jobs := int32(0)
	for _, j := range s.listGangJobs() {
		if slices.ContainsFunc(j.podSpec().Containers, usesTPU) {
			jobs += j.Replicas
		}
	}
	if jobs < 2 {
		return
	}
	field := s.Spec.Get("replicatedJobs")
	field.MarkInvalid(fmt.Sprintf(
		"must have one Job of TPU pods: GKE assigns each of the %d Jobs to a slice, and one Job cannot have several slices; "+
			"keep the JobSet for several slices, or set replicas to 1 for one slice", jobs))
}

// usesTPU reports whether a container requests TPUs.
func usesTPU(c corev1.Container) bool {
	const resource = "google.com/tpu"
	_, limited := c.Resources.Limits[resource]
	_, requested := c.Resources.Requests[resource]
	return limited || requested
}

// replaceConstantLabels gives variables that read labels of JobSet the values that these labels had in
// all pods of the job. Package ir reports the other labels in the gang; in jobs outside the gang, this
// function does.
func (s *Reader) replaceConstantLabels(j *ReplicatedJob) {
	values := map[string]string{
		"jobset-name": s.Gang.Name, "replicatedjob-name": j.Name, "coordinator": s.resolveCoordinator(),
		"replicatedjob-replicas": strconv.Itoa(int(j.Replicas)),
	}
	if j.Replicas == 1 {
		values["job-index"] = "0"
	}
	var injection source.Injection
	if j.Role != "" {
		injection = s.inject(j)
	}
	for _, c := range ir.ListContainers(j.podSpec()) {
		for i := range c.Env {
			e := &c.Env[i]
			if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
				continue
			}
			match := jobSetLabelPath.FindStringSubmatch(e.ValueFrom.FieldRef.FieldPath)
			if match == nil || values[match[1]] == "" {
				continue
			}
			e.Value, e.ValueFrom = values[match[1]], nil
			if _, ok := injection.FindRequired(e.Name); !ok { // removeInjectedVars reports it otherwise
				j.FindEnvField(c.Name, e.Name).AddNoteWithOutcome(source.Changed, e.Value,
					e.Name+" read the label "+labelPrefix+match[1]+", which the new pods do not have; it now has the former value", "")
			}
		}
	}
	if j.Role != "" || !containsText(j.podSpec(), labelPrefix) {
		return
	}
	action := fmt.Sprintf("replace them: the label %s selects the pods of this Job, and %s: %s those of the gang",
		batchv1.JobNameLabel, gang.LabelGang, s.Gang.Name)
	j.podTemplate.AddNoteWithOutcome(source.Dropped, "",
		"the template refers to labels of JobSet, which the new pods do not have", action)
}

// containsText reports whether the JSON encoding of a value contains the text.
func containsText(value any, text string) bool {
	encoded, err := json.Marshal(value)
	return err == nil && strings.Contains(string(encoded), text)
}

// computedIndex matches an index that a shell, the kubelet or a program inserts.
const computedIndex = `\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_][A-Za-z0-9_]*|\{[^{}]*\}|%[ds]`

// rewriteHostnames replaces the former hostnames of pods in all texts.
//
// The hostname of a pod of a JobSet is <set>-<job>-<index of the Job>-<index of the pod>, in the
// subdomain of the set (JobSet pkg/controllers/jobset_controller.go, GenPodName).
func (s *Reader) rewriteHostnames() {
	changed := map[*ReplicatedJob]int{}
	for _, j := range s.Jobs {
		for _, c := range ir.ListContainers(j.podSpec()) {
			s.rewriteTexts(c, changed)
		}
	}
	for _, j := range s.Jobs {
		if j.Role == "" {
			continue // jobs outside the gang keep the names of their pods
		}
		if changed[j] > 0 {
			j.podTemplate.AddNoteWithOutcome(source.Changed, fmt.Sprintf("%s-<index>.%s", j.workloadName, j.serviceName),
				fmt.Sprintf("the pods have new names; %s was replaced in %s",
					s.describeFormerName(j), gang.FormatCount(changed[j], "text")), "")
		}
		now, _ := j.mapHost("0", "0")
		ir.ReportHostnameReads(j.podSpec(), s.Context.ConfigMapTexts, j.podTemplate,
			fmt.Sprintf("%s-%s-0-0", s.Gang.Name, j.Name), now)
		s.reportHostnamePrefixes(j)
	}
	s.recordExternalReferences()
}

// reportHostnamePrefixes reports variables with the beginning of former hostnames.
func (s *Reader) reportHostnamePrefixes(j *ReplicatedJob) {
	prefix := s.Gang.Name + "-" + j.Name + "-"
	for _, c := range ir.ListContainers(j.podSpec()) {
		for _, e := range c.Env {
			if rest, ok := strings.CutPrefix(e.Value, prefix); ok && strings.Trim(rest, "0123456789-") == "" {
				j.FindEnvField(c.Name, e.Name).AddNote(
					fmt.Sprintf("%s is %s, the beginning of the former hostnames; the pods are %s-<index>",
						e.Name, e.Value, j.workloadName), "change the variable and the program that completes the name")
			}
		}
	}
}

// describeFormerName describes the former names of a job's pods.
func (s *Reader) describeFormerName(j *ReplicatedJob) string {
	if j.Replicas == 1 {
		return fmt.Sprintf("%s-%s-0-<index>", s.Gang.Name, j.Name)
	}
	return fmt.Sprintf("%s-%s-<Job>-<index>", s.Gang.Name, j.Name)
}

// recordExternalReferences reports former hostnames in ConfigMaps, which are not rewritten.
func (s *Reader) recordExternalReferences() {
	for _, m := range s.listFormerHosts(&corev1.Container{}) {
		for _, text := range s.Context.ConfigMapTexts {
			if m.job.Role != "" && m.Replace(text) != text {
				m.job.podTemplate.AddNoteWithOutcome(source.Dropped, "",
					"a ConfigMap of the input contains former names of pods, "+s.describeFormerName(m.job),
					fmt.Sprintf("replace them by %s-<index>.%s", m.job.workloadName, m.job.serviceName))
				break
			}
		}
	}
}

// jobHosts are the former hostnames of a job's pods.
type jobHosts struct {
	ir.FormerHosts
	job *ReplicatedJob
}

// listFormerHosts returns the hostnames of all jobs in the texts of a container. A variable of the
// container can hold the name of the JobSet.
func (s *Reader) listFormerHosts(c *corev1.Container) []jobHosts {
	set, domain := regexp.QuoteMeta(s.Gang.Name), regexp.QuoteMeta(s.subdomainOrDefault())
	for _, e := range c.Env {
		if e.Value == s.Gang.Name && e.Name != "" {
			name := regexp.QuoteMeta(e.Name)
			references := `|\$\{` + name + `\}|\$\(` + name + `\)|\$` + name + `\b`
			set += references
			if s.subdomainOrDefault() == s.Gang.Name {
				domain += references
			}
		}
	}
	const index = `-([0-9]+|` + computedIndex + `)`
	var out []jobHosts
	for _, j := range s.Jobs {
		out = append(out, jobHosts{job: j, FormerHosts: ir.FormerHosts{
			Pattern: regexp.MustCompile(`(?:` + set + `)-` + regexp.QuoteMeta(j.Name) + index + index),
			Rename:  func(indexes []string, _ string) string { return s.renameHost(j, indexes[0], indexes[1]) },
			Domain:  regexp.MustCompile(`^\.(?:` + domain + `)`),
			Service: func(host string) string {
				j.addressReferenced = true
				return j.serviceOfHost(host)
			},
		}})
	}
	return out
}

// subdomainOrDefault returns the former subdomain of the pods.
func (s *Reader) subdomainOrDefault() string {
	if subdomain := s.Spec.At("network", "subdomain").String(); subdomain != "" {
		return subdomain
	}
	return s.Gang.Name
}

// serviceOfHost returns the Service in whose domain a pod of the job has its hostname. Each Job
// outside the gang has its own Service.
func (j *ReplicatedJob) serviceOfHost(host string) string {
	if j.serviceName != "" {
		return j.serviceName
	}
	return host[:strings.LastIndexByte(host, '-')]
}

// mapHost returns the new name of a pod for its two former indexes. The name is empty if the pod does
// not exist. It returns false if the new index cannot be computed from the former ones.
func (j *ReplicatedJob) mapHost(job, pod string) (host string, ok bool) {
	if j.Role == "" {
		return fmt.Sprintf("%s-%s-%s", j.workloadName, job, pod), true
	}
	jobIndex, jobErr := strconv.Atoi(job)
	podIndex, podErr := strconv.Atoi(pod)
	if jobErr != nil && j.Replicas == 1 {
		jobIndex, jobErr = 0, nil // the only Job
	}
	start := int(j.firstIndex) + jobIndex*int(j.PodsPerJob)
	switch {
	case jobErr == nil && podErr == nil:
		if jobIndex >= int(j.Replicas) || podIndex >= int(j.PodsPerJob) {
			return "", true
		}
		return fmt.Sprintf("%s-%d", j.workloadName, start+podIndex), true
	case jobErr == nil && start == 0:
		return j.workloadName + "-" + pod, true
	case jobErr != nil && j.PodsPerJob == 1 && j.firstIndex == 0 && podIndex == 0: // the only pod of each Job
		return j.workloadName + "-" + job, true
	}
	return "", false
}

// renameHost returns the new name of a pod, or "". It reports the first name of a job that cannot be
// rewritten.
func (s *Reader) renameHost(j *ReplicatedJob, job, pod string) string {
	host, ok := j.mapHost(job, pod)
	if !ok && !j.unmappableRecorded {
		j.unmappableRecorded = true
		j.podTemplate.AddNoteWithOutcome(source.Dropped, "",
			fmt.Sprintf("a text computes the name %s-%s-%s-%s, from whose indexes the new one cannot be computed",
				s.Gang.Name, j.Name, job, pod),
			fmt.Sprintf("use the new names of the pods: %s-<index>, where index = %d + Job x %d + pod",
				j.workloadName, j.firstIndex, j.PodsPerJob))
	}
	return host
}

// rewriteTexts replaces the former hostnames in the texts of a container. It counts the changed texts by the job whose
// pods they name.
func (s *Reader) rewriteTexts(c *corev1.Container, changed map[*ReplicatedJob]int) {
	for _, hosts := range s.listFormerHosts(c) {
		changed[hosts.job] += hosts.ReplaceTexts(c)
	}
}
