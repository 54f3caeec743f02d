package jobset

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"

	"rollcall.training/migrate/ledger"
)

// reading matches the path of a field that is a label or an annotation of JobSet's.
var reading = regexp.MustCompile(`^metadata\.(?:labels|annotations)\['` + regexp.QuoteMeta(prefix) + `([a-z-]+)'\]$`)

// literals replaces variables that read JobSet's labels from the pod.
func (s *Set) literals(j *Job, at index) {
	for _, c := range j.containers() {
		kept := c.Env[:0:0]
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				if m := reading.FindStringSubmatch(e.ValueFrom.FieldRef.FieldPath); m != nil {
					var ok bool
					if e, ok = s.literal(j, e, m[1], at); !ok {
						continue
					}
				}
			}
			kept = append(kept, e)
		}
		c.Env = kept
	}
	s.others(j)
}

// literal is a variable that no longer reads a label of JobSet's; false where nothing can
// stand for it.
func (s *Set) literal(j *Job, e corev1.EnvVar, label string, at index) (corev1.EnvVar, bool) {
	value, known := s.value(j, label, at)
	node := j.variable(e.Name)
	switch {
	case !known:
		node.Remark(ledger.Lost, "", fmt.Sprintf("%s reads the label %s, which no pod has any more", e.Name, prefix+label), "take the variable out of the program")
		return e, false
	case value == "":
		node.Invalid(fmt.Sprintf("reads the label %s, which counts Jobs: the pods of %d Jobs come into one workload with one index; compute it from batch.kubernetes.io/job-completion-index, of which a Job had %d",
			prefix+label, j.Replicas, j.Pods))
		return e, true
	case strings.HasPrefix(value, "metadata."):
		e.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: value}}
	default:
		e = corev1.EnvVar{Name: e.Name, Value: value}
	}
	if _, ours := given[s.Blueprint.Framework][e.Name]; ours && j.Role != "" {
		return e, true // left out by rendezvous, which says so
	}
	node.Remark(ledger.Changed, value, fmt.Sprintf("%s read the label %s, which no pod has any more", e.Name, prefix+label), "")
	return e, true
}

// value is what a pod of the job had in a label of JobSet's: a literal, or the path of a
// field. It is empty where it differs in a way that no field has, and false for labels
// that nothing stands for.
func (s *Set) value(j *Job, label string, at index) (string, bool) {
	attempt := "metadata.labels['" + gang.LabelAttempt + "']"
	if j.Role == "" {
		attempt = "0"
	}
	values := map[string]string{
		"jobset-name": s.Blueprint.Name, "replicatedjob-name": j.Name, "replicatedjob-replicas": fmt.Sprint(j.Replicas),
		"global-replicas": s.count(""), "group-name": j.groupName(), "group-replicas": s.count(j.groupName()),
		"job-index": at.job, "job-global-index": at.global, "job-group-index": at.group,
		"restart-attempt": attempt, "job-restart-attempt": attempt,
	}
	if c := s.coordinates(); c != "" {
		values["coordinator"] = c
	}
	v, ok := values[label]
	return v, ok
}

// selected keeps terms of affinity and of topology spread that select pods by JobSet's
// labels: those that are alike for all pods of the job are put on them.
func (s *Set) selected(j *Job) {
	spec := j.spec()
	text, err := json.Marshal([]any{spec.Affinity, spec.TopologySpreadConstraints})
	if err != nil {
		return // it came from JSON
	}
	for _, label := range []string{"jobset-name", "replicatedjob-name", "group-name"} {
		if !strings.Contains(string(text), prefix+label) {
			continue
		}
		if j.Template.Spec.Template.Labels == nil {
			j.Template.Spec.Template.Labels = map[string]string{}
		}
		j.Template.Spec.Template.Labels[prefix+label], _ = s.value(j, label, index{})
		j.pod().Remark(ledger.Changed, "label "+prefix+label+" of the pods", "the pods are selected by it, and JobSet does not write it any more", "")
	}
}

// others looks for labels of JobSet's that are read in other ways.
func (s *Set) others(j *Job) {
	text, err := json.Marshal(j.spec().Volumes)
	if err == nil && strings.Contains(string(text), prefix) {
		j.pod().Remark(ledger.Lost, "", "a volume shows labels of JobSet's, which no pod has any more", "write their values into the program or a variable")
	}
}
