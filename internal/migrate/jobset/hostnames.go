package jobset

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

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
			for renamed, n := range s.rewriteTexts(c) {
				changed[renamed] += n
			}
		}
	}
	for _, j := range s.Jobs {
		if j.Role == "" {
			continue // jobs outside the gang keep the names of their pods
		}
		if changed[j] > 0 {
			j.podTemplate.AddNoteWithOutcome(source.Changed, fmt.Sprintf("%s-<index>.%s", j.workloadName, j.serviceName),
				fmt.Sprintf("the pods have new names; %s was replaced in %s",
					s.describeFormerName(j), ir.FormatCount(changed[j], "text")), "")
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

// rewriteTexts replaces the former hostnames in the texts of a container. It returns the number of changed
// texts by the job whose pods they name.
func (s *Reader) rewriteTexts(c *corev1.Container) map[*ReplicatedJob]int {
	changed, hosts := map[*ReplicatedJob]int{}, s.listFormerHosts(c)
	ir.VisitTexts(c, func(text *string) {
		for _, m := range hosts {
			if after := m.Replace(*text); after != *text {
				*text = after
				changed[m.job]++
			}
		}
	})
	return changed
}
