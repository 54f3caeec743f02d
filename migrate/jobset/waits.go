package jobset

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// serves makes a launcher's workers a StatefulSet, as an MPIJob's are: they wait for the
// launcher's orders and never end by themselves. They stay a Job, as they were, where they
// do end, or ask for what only a Job has.
func (s *Set) serves(j *Job, role *blueprint.Role) {
	if role.Name != "worker" || s.roleJob(gang.RoleLauncher) == nil || !launches(s.Blueprint.Framework) {
		return
	}
	role.Set, role.OnlyJob = true, s.onlyJob(j)
	if s.Blueprint.OnlyJob(*role) != "" {
		return
	}
	n := j.pod().At("spec", "restartPolicy")
	n.Changed("Always", "the only one that a StatefulSet has; when a rank fails, all restart together in any case", "")
}

// onlyJob says what a worker asks for that only a Job can do, its own fields among it;
// empty when there is nothing.
func (s *Set) onlyJob(j *Job) string {
	spec := &j.Template.Spec
	switch end := s.Blueprint.Keys[gang.AnnotationSuccessPolicy]; {
	case end != "" && end != gang.RoleLauncher && end != gang.SuccessRank0:
		return "the end of these pods counts for " + gang.AnnotationSuccessPolicy
	case !j.listens():
		return "its command is none that runs sshd, and may end"
	case spec.ActiveDeadlineSeconds != nil:
		return "activeDeadlineSeconds is for Jobs"
	case spec.TTLSecondsAfterFinished != nil:
		return "ttlSecondsAfterFinished is for Jobs"
	case spec.ManagedBy != nil:
		return "managedBy is for Jobs"
	case spec.PodFailurePolicy != nil:
		return "podFailurePolicy is for Jobs"
	case spec.PodReplacementPolicy != nil:
		return "podReplacementPolicy is for Jobs"
	case spec.Scheduling != nil:
		return "scheduling is for Jobs"
	case j.readsJob():
		return "its template reads what only the pods of a Job bear"
	}
	return ""
}

// listens reports whether the container that trains does nothing but wait for the
// launcher: it has no command of its own, and Rollcall runs sshd, or its command does.
func (j *Job) listens() bool {
	c := j.trainer()
	if c == nil || len(c.Command)+len(c.Args) == 0 {
		return true
	}
	words := slices.Concat(c.Command, c.Args)
	return strings.Contains(strings.Join(words, " "), "sshd") || path.Base(words[0]) == "sleep"
}

// readsJob reports whether the template names labels or variables that the Job controller
// gives to its pods.
func (j *Job) readsJob() bool {
	text, err := json.Marshal(j.Template.Spec.Template)
	if err != nil {
		return false // it came from JSON
	}
	return slices.ContainsFunc([]string{"batch.kubernetes.io/", "JOB_COMPLETION_INDEX", "labels['job-name']"}, func(word string) bool {
		return strings.Contains(string(text), word)
	})
}
