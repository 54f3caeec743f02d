package jobset

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
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
	if j.Role == "" {
		s.others(j)
	}
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

// podMarks are the labels that JobSet gives to pods, and those that the Job controller does.
func podMarks() map[string]blueprint.Mark {
	out := map[string]blueprint.Mark{
		prefix + "jobset-name": {Says: blueprint.SaysGang}, prefix + "replicatedjob-name": {Says: blueprint.SaysRole},
		batchv1.JobNameLabel: {Says: blueprint.SaysWorkload}, "job-name": {Says: blueprint.SaysWorkload},
	}
	for _, name := range []string{"jobset-uid", "job-key", "job-index", "job-global-index", "job-group-index", "replicatedjob-replicas", "global-replicas",
		"group-name", "group-replicas", "restart-attempt", "job-restart-attempt", "coordinator"} {
		out[prefix+name] = blueprint.Mark{}
	}
	return out
}

// labelled is how the pods of a role were known by their labels. Where several jobs play it,
// none of their names tells it.
func (s *Set) labelled(role string) blueprint.Former {
	var out blueprint.Former
	for _, j := range s.members() {
		switch {
		case j.Role != role:
			continue
		case out.Workloads == nil:
			out.Part = j.Name
		default:
			out.Part = ""
		}
		for i := range min(j.Replicas, maxBeside) {
			out.Workloads = append(out.Workloads, fmt.Sprintf("%s-%s-%d", s.Blueprint.Name, j.Name, i))
		}
	}
	return out
}

// groups puts the label of JobSet's with a job's group on the pods, if a term selects by it.
func (s *Set) groups() {
	selects := slices.ContainsFunc(s.members(), func(j *Job) bool {
		text, err := json.Marshal([]any{j.spec().Affinity, j.spec().TopologySpreadConstraints})
		return err == nil && strings.Contains(string(text), prefix+"group-name")
	})
	for _, j := range s.members() {
		if !selects || s.roleJob(j.Role).groupName() != j.groupName() {
			continue
		}
		if j.Template.Spec.Template.Labels == nil {
			j.Template.Spec.Template.Labels = map[string]string{}
		}
		j.Template.Spec.Template.Labels[prefix+"group-name"] = j.groupName()
		j.pod().Remark(ledger.Changed, "label "+prefix+"group-name of the pods", "pods are selected by it, and JobSet does not write it any more", "")
	}
}

// others looks for labels of JobSet's that what stands beside the gang reads in other ways.
func (s *Set) others(j *Job) {
	has := func(v any) bool {
		text, err := json.Marshal(v)
		return err == nil && strings.Contains(string(text), prefix)
	}
	if has(j.spec().Volumes) {
		j.pod().Remark(ledger.Lost, "", "a volume shows labels of JobSet's, which no pod has any more", "write their values into the program or a variable")
	}
	if has([]any{j.spec().Affinity, j.spec().TopologySpreadConstraints}) {
		do := "select the pods of this Job by " + batchv1.JobNameLabel
		if len(s.members()) > 0 {
			do += fmt.Sprintf(", and the gang by %s: %s", gang.LabelGang, s.Blueprint.Name)
		}
		j.pod().Remark(ledger.Lost, "", "a term selects pods by labels of JobSet's, which no pod has any more", do)
	}
}
