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
	switch key {
	case alphaLabelPrefix + "exclusive-topology":
		field.MarkDropped("Rollcall does not reserve topology domains for Jobs", fmt.Sprintf(
			"use the topology-aware scheduling of Kueue with annotations of the pod template: "+
				"kueue.x-k8s.io/podset-required-topology: %[1]q places all pods in one domain; "+
				"kueue.x-k8s.io/podset-slice-required-topology: %[1]q with kueue.x-k8s.io/podset-slice-size "+
				"set to the pods of one Job places each Job in one domain; neither keeps other pods out", field.String()))
	case alphaLabelPrefix + "node-selector":
		field.MarkDropped("it belongs to exclusive-topology", "")
	default:
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
