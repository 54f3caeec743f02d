package jobset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Variables with numbers that Rollcall derives from annotations.
const (
	processesVar = "PET_NPROC_PER_NODE"
	worldSizeVar = "WORLD_SIZE"
	// jaxPortVar is a variable of MaxText. Rollcall does not set it.
	jaxPortVar = "JAX_COORDINATOR_PORT"
)

// removeInjectedVars removes the variables that Rollcall sets. It first sets the annotations for a port
// and a number of processes that the user's values contain. Then variables whose value equals that of
// the injector are preserved, and the others are changed.
func (s *Reader) removeInjectedVars(j *ReplicatedJob) {
	if s.hasLauncher() && len(s.listRoles()) > 1 {
		return // the launcher passes variables to the other ranks
	}
	containers := s.trainingContainers(j)
	s.adoptNumbers(j, containers)
	injected := s.requiredVars(j)
	for _, c := range containers {
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
			now, ok := injected[e.Name]
			if !ok || e.Name == processesVar && e.Value != now.Value {
				return false // the user's, or invalid, which the webhook reports
			}
			s.recordInjectedVar(j, c, e, now)
			return true
		})
	}
}

// trainingContainers returns the containers that get Rollcall's variables.
func (s *Reader) trainingContainers(j *ReplicatedJob) []*corev1.Container {
	var out []*corev1.Container
	for i := range j.podSpec().InitContainers {
		out = append(out, &j.podSpec().InitContainers[i])
	}
	if list := s.Gang.RollcallAnnotations[gang.AnnotationContainers]; list != "" {
		names := strings.Split(strings.ReplaceAll(list, " ", ""), ",")
		for i := range j.podSpec().Containers {
			if c := &j.podSpec().Containers[i]; slices.Contains(names, c.Name) {
				out = append(out, c)
			}
		}
		return out
	}
	if c := j.trainingContainer(); c != nil {
		out = append(out, c)
	}
	return out
}

// requiredVars returns the variables that Rollcall sets in the pods of a job, by name.
func (s *Reader) requiredVars(j *ReplicatedJob) map[string]corev1.EnvVar {
	out := map[string]corev1.EnvVar{}
	for _, e := range s.plan(j).RequiredVars {
		out[e.Name] = e
	}
	return out
}

// plan returns what Rollcall injects into the pods of a job.
func (s *Reader) plan(j *ReplicatedJob) source.Plan {
	if s.Context.Plan == nil {
		return source.Plan{}
	}
	return s.Context.Plan(source.Workload{
		Gang: s.Gang.Name, Namespace: s.Gang.Namespace, Framework: s.Gang.Framework, Role: j.Role,
		Pods: s.countPods(), Annotations: s.Gang.RollcallAnnotations, Template: j.Template.Spec.Template,
	})
}

// adoptNumbers sets the annotations for the number of processes and the port of the rendezvous.
func (s *Reader) adoptNumbers(j *ReplicatedJob, containers []*corev1.Container) {
	injected := s.requiredVars(j)
	s.adoptOtherNumbers(containers)
	for _, c := range containers {
		for _, e := range c.Env {
			now, ok := injected[e.Name]
			if !ok || e.ValueFrom != nil {
				continue
			}
			if e.Name == worldSizeVar {
				s.adoptWorldSize(e.Value, injected)
				continue
			}
			host, port := splitAddress(s.rewriteText(c, e.Value))
			nowHost, nowPort := splitAddress(now.Value)
			isPort := nowPort == strconv.Itoa(int(s.framework().Port)) && (host == "") == (nowHost == "")
			if isPort && (host == "" || s.isRank0Host(host)) {
				s.adoptPort(port)
			}
		}
	}
}

// adoptOtherNumbers sets the annotations for variables that have no equal in the injected ones.
func (s *Reader) adoptOtherNumbers(containers []*corev1.Container) {
	for _, c := range containers {
		for _, e := range c.Env {
			switch {
			case e.ValueFrom != nil:
			case e.Name == processesVar:
				s.adoptProcesses(e.Value)
			case e.Name == jaxPortVar && s.Gang.Framework == "jax":
				s.adoptPort(e.Value)
			}
		}
	}
}

// splitAddress splits host:port. A number is a port without a host, and other texts are a host.
func splitAddress(text string) (host, port string) {
	if _, err := strconv.Atoi(text); err == nil {
		return "", text
	}
	host, port, _ = strings.Cut(text, ":")
	return host, port
}

func (s *Reader) adoptProcesses(value string) {
	n, err := strconv.Atoi(value)
	if _, set := s.Gang.RollcallAnnotations[gang.AnnotationNprocPerNode]; set || s.hasLauncher() {
		return
	}
	if err == nil && n > 0 || slices.Contains([]string{"auto", "gpu", "cpu"}, value) {
		s.Gang.SetAnnotation(gang.AnnotationNprocPerNode, value)
	}
}

// adoptWorldSize sets the number of processes of each pod if a world size is a multiple of the number
// of pods. Only frameworks with several processes in each pod have this number.
func (s *Reader) adoptWorldSize(value string, injected map[string]corev1.EnvVar) {
	n, err := strconv.Atoi(value)
	_, set := s.Gang.RollcallAnnotations[gang.AnnotationNprocPerNode]
	_, hasProcesses := injected["PET_NNODES"]
	if pods := int(s.countGangPods()); err == nil && !set && hasProcesses && n > pods && n%pods == 0 {
		s.Gang.SetAnnotation(gang.AnnotationNprocPerNode, strconv.Itoa(n/pods))
	}
}

// adoptPort sets the port of the rendezvous, unless it is set or out of range.
func (s *Reader) adoptPort(port string) {
	n, err := strconv.Atoi(port)
	_, set := s.Gang.RollcallAnnotations[gang.AnnotationPort]
	if !set && err == nil && n >= gang.MinPort && n <= gang.MaxPort {
		s.Gang.SetAnnotation(gang.AnnotationPort, strconv.Itoa(n))
	}
}

// recordInjectedVar records the outcome of a removed variable.
func (s *Reader) recordInjectedVar(j *ReplicatedJob, c *corev1.Container, before, now corev1.EnvVar) {
	const to = "set by Rollcall"
	isRank := now.ValueFrom != nil
	reason := ""
	switch {
	case before.ValueFrom != nil && isRank && s.readsIndex(j, before):
		if j.firstIndex > 0 || s.listRoles()[0] != j.Role {
			reason = "was the index within the job; ranks count the pods of all roles"
		}
	case before.ValueFrom != nil:
		reason = "had a value from a source that cannot be compared with the value for this gang"
	case isRank && (before.Value != "0" || s.countGangPods() > 1):
		reason = fmt.Sprintf("was %q; for this gang it is the rank of the pod", before.Value)
	case !isRank && !s.equalValues(s.rewriteText(c, before.Value), now.Value):
		reason = fmt.Sprintf("was %q; for this gang it is %s", before.Value, describeValue(now.Value))
	}
	outcome := source.Preserved
	if reason != "" {
		outcome, reason = source.Changed, before.Name+" "+reason
	}
	j.findEnvField(before.Name).AddNoteWithOutcome(outcome, to, reason, "")
}

// describeValue quotes a value, or describes it if it is too long for a report.
func describeValue(value string) string {
	const longest = 100
	if len(value) > longest {
		return "derived from the hostnames of all ranks"
	}
	return strconv.Quote(value)
}

// readsIndex reports whether a variable reads the index of the pod among the pods of its job.
func (s *Reader) readsIndex(j *ReplicatedJob, e corev1.EnvVar) bool {
	if e.ValueFrom.FieldRef == nil {
		return false
	}
	path := e.ValueFrom.FieldRef.FieldPath
	return strings.Contains(path, "batch.kubernetes.io/job-completion-index") ||
		j.PodsPerJob == 1 && strings.Contains(path, labelPrefix+"job-index'")
}

// equalValues reports whether a value equals the injected one, or names the same address.
func (s *Reader) equalValues(value, injected string) bool {
	if value == injected {
		return true
	}
	host, port := splitAddress(value)
	injectedHost, injectedPort := splitAddress(injected)
	return host != "" && port == injectedPort && s.isRank0Host(host) && s.isRank0Host(injectedHost)
}

// isRank0Host reports whether a hostname is that of the gang's first pod.
func (s *Reader) isRank0Host(host string) bool {
	first := s.findJobByRole(s.listRoles()[0])
	name := fmt.Sprintf("%s-0.%s", first.workloadName, cmp.Or(first.serviceName, s.Gang.Name))
	isLocal := host == "localhost" || host == "127.0.0.1"
	return host == name || strings.HasPrefix(host, name+".") || s.countGangPods() == 1 && isLocal
}
