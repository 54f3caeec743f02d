package jobset

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// Finish turns the set into the blueprint, once it is known which jobs play which part.
func (s *Set) Finish() {
	if len(s.Jobs) == 0 || len(s.Root.Ledger().Mistakes()) > 0 {
		return
	}
	s.Blueprint.Marks = podMarks()
	s.holds()
	s.network()
	s.success()
	s.failure()
	s.claims()
	s.marks()
	s.placed()
	s.labels()
	for _, j := range s.members() {
		s.daemon(j)
		s.rendezvous(j)
	}
	s.slots()
	s.rename()
	s.coordinator()
	s.startup()
	s.prepare()
	for _, role := range s.roles() {
		s.Blueprint.Roles = append(s.Blueprint.Roles, s.build(role))
	}
	for _, j := range s.Jobs {
		if j.Role == "" && j.place != inside {
			s.beside(j)
		}
	}
}

// placed says where the pods of each job go: to which workload, from which index on, and
// under which Service they have names.
func (s *Set) placed() {
	roles, next := s.roles(), map[string]int32{}
	for _, j := range s.Jobs {
		switch {
		case j.Role == "" && j.Alone:
			s.Blueprint.Moved = map[string]string{fmt.Sprintf("%s-%s-0", s.Blueprint.Name, j.Name): s.Blueprint.Name}
			j.place, j.domain = s.Blueprint.Name, s.Blueprint.Name
		case j.Role == "":
			j.place = s.Blueprint.Name + "-" + j.Name // an index follows for each of its Jobs
		default:
			j.place, j.domain = s.Blueprint.Name, s.Blueprint.Name
			if len(roles) > 1 {
				j.place += "-" + j.Role
			} else if sub := j.spec().Subdomain; sub != "" {
				j.domain = sub
			}
			j.first = next[j.Role]
			next[j.Role] += j.Replicas * j.Pods
		}
	}
}

// build makes the blueprint's role of the jobs that play it.
func (s *Set) build(role string) blueprint.Role {
	var out blueprint.Role
	for _, j := range s.members() {
		if j.Role != role {
			continue
		}
		if out.Name != "" {
			j.pod().Carried("the same workload as " + s.roleJob(role).Name)
			out.Pods += j.Replicas * j.Pods
			continue
		}
		out = blueprint.Role{Name: role, Pods: s.pods(role), Template: j.Template.Spec.Template, Node: j.pod(), Keys: map[string]string{}, Former: s.labelled(role),
			Labels: j.Template.Labels, Annotations: j.Template.Annotations}
		out.Pods = j.Replicas * j.Pods
		if _, said := s.Blueprint.Keys[gang.AnnotationContainer]; said {
			first(out.Template.Spec.Containers, j.Container)
		} else if at := slices.IndexFunc(j.spec().Containers, func(c corev1.Container) bool { return c.Name == j.Container }); at > 0 {
			out.Keys[gang.AnnotationContainer] = j.Container
		}
		s.jobFields(j, &out)
	}
	return out
}

// first puts the container in front of all others: of several that train, the first tells
// how many processes there are.
func first(all []corev1.Container, name string) {
	slices.SortStableFunc(all, func(a, b corev1.Container) int {
		switch {
		case a.Name == name && b.Name != name:
			return -1
		case b.Name == name && a.Name != name:
			return 1
		}
		return 0
	})
}

// roleJob is the first job of a role.
func (s *Set) roleJob(role string) *Job {
	for _, j := range s.Jobs {
		if j.Role == role {
			return j
		}
	}
	return nil
}

// holds carries who lets the set begin, and when it goes away.
func (s *Set) holds() {
	if suspend := s.Spec.Get("suspend"); suspend.Exists() {
		if ptr.Deref(suspend.Bool(), false) {
			s.Blueprint.Job.Suspend = ptr.To(true)
		}
		suspend.Carried("spec.suspend of each Job")
	}
	if ttl := s.Spec.Get("ttlSecondsAfterFinished"); ttl.Exists() {
		s.Blueprint.Job.TTLSecondsAfterFinished, s.Blueprint.TimeToLive = ttl.Int32(), ttl
		ttl.Carried("spec.ttlSecondsAfterFinished of each Job")
	}
	managed := s.Spec.Get("managedBy")
	switch v := managed.String(); v {
	case "":
	case "jobset.sigs.k8s.io/jobset-controller":
		managed.Carried("the default")
	default:
		s.Blueprint.Job.ManagedBy = ptr.To(v)
		managed.Carried("spec.managedBy of each Job")
	}
}

// jobFields accounts for the fields of the Job template of a member, and makes the
// role's Job of them.
func (s *Set) jobFields(j *Job, role *blueprint.Role) {
	n, from, to := j.Node.At("template", "spec"), &j.Template.Spec, s.Blueprint.Job.DeepCopy()
	for _, name := range []string{"parallelism", "completions"} {
		n.Get(name).Carried("the workload's number of pods")
	}
	if j.Replicas > 1 {
		j.Node.Get("replicas").Changed("the workload's number of pods", fmt.Sprintf(
			"the pods of %d Jobs are in one workload, whose indexes go through; there is no index of a Job any more", j.Replicas), "")
	}
	j.Node.Get("replicas").Carried("the workload's number of pods")
	s.serves(j, role)
	if mode := from.CompletionMode; mode != nil && *mode != batchv1.IndexedCompletion {
		n.Get("completionMode").Changed("Indexed", "each rank has an index", "")
	}
	n.Get("completionMode").Carried("each rank has an index")
	s.limits(j, to)
	if from.Suspend != nil {
		n.Get("suspend").Changed("", "left out: the JobSet's own suspend overruled it", "")
	}
	if from.ManagedBy != nil {
		to.ManagedBy = cmp.Or(to.ManagedBy, from.ManagedBy)
		n.Get("managedBy").Carried("spec.managedBy")
	}
	if from.PodReplacementPolicy != nil {
		to.PodReplacementPolicy = from.PodReplacementPolicy
		n.Get("podReplacementPolicy").Carried("spec.podReplacementPolicy")
	}
	if from.Scheduling != nil {
		to.Scheduling = from.Scheduling
		n.Get("scheduling").Carried("spec.scheduling")
	}
	for _, name := range []string{"selector", "manualSelector"} {
		n.Get(name).Lost("the Job controller chooses the selector of a Job by itself", "")
	}
	role.PodFailurePolicy = from.PodFailurePolicy
	s.podFailurePolicy(j)
	for _, name := range []string{"backoffLimitPerIndex", "maxFailedIndexes"} {
		n.Get(name).Lost("the ranks of a gang fail together, not each by its own count", "see "+gang.AnnotationMaxRestarts)
	}
	n.Get("successPolicy").Lost("the indexes whose end is the end of the Job have no meaning for the gang", "see "+gang.AnnotationSuccessPolicy)
	role.Job = to
}

// limits carries how long a member's Job may run, and how long it stays.
func (s *Set) limits(j *Job, to *batchv1.JobSpec) {
	n, from := j.Node.At("template", "spec"), &j.Template.Spec
	if from.ActiveDeadlineSeconds != nil {
		to.ActiveDeadlineSeconds = from.ActiveDeadlineSeconds
		n.Get("activeDeadlineSeconds").Carried("spec.activeDeadlineSeconds")
	}
	if from.TTLSecondsAfterFinished == nil {
		return
	}
	if to.TTLSecondsAfterFinished != nil {
		n.Get("ttlSecondsAfterFinished").Changed("", "left out: the time of the whole set counts", "")
		return
	}
	to.TTLSecondsAfterFinished = from.TTLSecondsAfterFinished
	n.Get("ttlSecondsAfterFinished").Carried("spec.ttlSecondsAfterFinished")
}
