package jobset

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// varying matches an index that a shell, the kubelet or a program puts in.
const varying = `\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_][A-Za-z0-9_]*|\{[^{}]*\}|%[ds]`

// rename puts the pods' new names in the place of the former ones in all texts.
//
// A pod of a set was called <set>-<job>-<index of the Job>-<index of the pod>, in the
// domain of the set (prior art: pkg/controllers/jobset_controller.go, GenPodName).
func (s *Set) rename() {
	changed := map[*Job]int{}
	for _, j := range s.Jobs {
		for _, c := range j.containers() {
			names := s.names(j, c)
			blueprint.Texts(c, func(text *string) {
				for _, n := range names {
					if next := n.replace(*text); next != *text {
						*text = next
						changed[n.of]++
					}
				}
			})
		}
	}
	for _, j := range s.Jobs {
		if changed[j] > 0 && (j.Role != "" || j.Alone) {
			j.pod().Remark(ledger.Changed, fmt.Sprintf("%s-<index>.%s", j.place, j.domain),
				"the pods have other names now; "+texts(changed[j])+s.former(j)+" was rewritten", "")
		}
	}
	s.elsewhere()
}

// texts counts texts that named something, for people.
func texts(n int) string {
	if n == 1 {
		return "1 text that called them "
	}
	return fmt.Sprintf("each of %d texts that called them ", n)
}

// former is the name that the pods of a job had, for people.
func (s *Set) former(j *Job) string {
	if j.Replicas == 1 {
		return fmt.Sprintf("%s-%s-0-<index>", s.Blueprint.Name, j.Name)
	}
	return fmt.Sprintf("%s-%s-<Job>-<index>", s.Blueprint.Name, j.Name)
}

// elsewhere names the texts beside the manifest that call pods by their former names.
func (s *Set) elsewhere() {
	for _, j := range s.Jobs {
		n := s.name(j, s.Blueprint.Name, s.subdomain())
		for _, text := range s.Around.Texts {
			if next := n.replace(text); next != text && (j.Role != "" || j.Alone) {
				j.pod().Remark(ledger.Lost, "", "a ConfigMap of the input calls the pods "+s.former(j)+", which they are no more",
					fmt.Sprintf("call them %s-<index>.%s there", j.place, j.domain))
				break
			}
		}
	}
}

// name matches the former names of a job's pods.
type name struct {
	of      *Job
	set     *Set
	pattern *regexp.Regexp
	domain  *regexp.Regexp
	unclear bool // some match could not be rewritten; said once
}

// names are those of all jobs, as a container writes them: a variable of its own may
// hold the name of the set.
func (s *Set) names(_ *Job, c *corev1.Container) []*name {
	set, domain := regexp.QuoteMeta(s.Blueprint.Name), regexp.QuoteMeta(s.subdomain())
	for _, e := range c.Env {
		if e.Value == s.Blueprint.Name && e.Name != "" {
			v := regexp.QuoteMeta(e.Name)
			refs := `|\$\{` + v + `\}|\$\(` + v + `\)|\$` + v + `\b`
			set += refs
			if s.subdomain() == s.Blueprint.Name {
				domain += refs
			}
		}
	}
	var out []*name
	for _, j := range s.Jobs {
		out = append(out, s.nameOf(j, set, domain))
	}
	return out
}

func (s *Set) name(j *Job, set, domain string) *name {
	return s.nameOf(j, regexp.QuoteMeta(set), regexp.QuoteMeta(domain))
}

func (s *Set) nameOf(j *Job, set, domain string) *name {
	index := `-([0-9]+|` + varying + `)`
	return &name{of: j, set: s,
		pattern: regexp.MustCompile(`(?:` + set + `)-` + regexp.QuoteMeta(j.Name) + index + index),
		domain:  regexp.MustCompile(`^\.(?:` + domain + `)`),
	}
}

// subdomain is where the set's pods had names.
func (s *Set) subdomain() string {
	if sub := s.Spec.At("network", "subdomain").String(); sub != "" {
		return sub
	}
	return s.Blueprint.Name
}

// replace is the text with the new names.
func (n *name) replace(text string) string {
	var out strings.Builder
	rest := text
	for {
		m := n.pattern.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		begin, end := m[0], m[1]
		inside := begin > 0 && word(rest[begin-1]) || end < len(rest) && word(rest[end])
		host, ok := n.host(rest[m[2]:m[3]], rest[m[4]:m[5]])
		if inside || !ok || blueprint.OfFile(rest, begin, end) {
			out.WriteString(rest[:end])
			rest = rest[end:]
			continue
		}
		out.WriteString(rest[:begin] + host)
		rest = rest[end:]
		if d := n.domain.FindString(rest); d != "" && (len(d) == len(rest) || !word(rest[len(d)])) {
			n.of.called = true
			out.WriteString("." + n.of.service(host))
			rest = rest[len(d):]
		}
	}
	return out.String() + rest
}

// service is the Service in whose domain a pod of the job has its name.
func (j *Job) service(host string) string {
	if j.domain != "" {
		return j.domain
	}
	return host[:strings.LastIndexByte(host, '-')] // each Job beside the gang has its own
}

// word reports whether a byte may be part of a host's name.
func word(b byte) bool {
	return b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// host is a pod's new name, by its two former indexes. It is false for a pod that does
// not exist, and for indexes of which the new one cannot be made.
func (n *name) host(job, pod string) (string, bool) {
	j := n.of
	if j.Role == "" && !j.Alone { // these keep their names
		return fmt.Sprintf("%s-%s-%s", j.place, job, pod), true
	}
	at, errJob := strconv.Atoi(job)
	index, errPod := strconv.Atoi(pod)
	if errJob != nil && j.Replicas == 1 {
		at, errJob = 0, nil // there is but one
	}
	begin := int(j.first) + at*int(j.Pods)
	switch {
	case errJob == nil && errPod == nil:
		if at >= int(j.Replicas) || index >= int(j.Pods) {
			return "", false
		}
		return fmt.Sprintf("%s-%d", j.place, begin+index), true
	case errJob == nil && begin == 0:
		return j.place + "-" + pod, true
	case errJob != nil && j.Pods == 1 && j.first == 0 && index == 0: // the only pod of each Job
		return j.place + "-" + job, true
	}
	n.refuse(job, pod)
	return "", false
}

// refuse names an address that cannot be rewritten, once.
func (n *name) refuse(job, pod string) {
	j := n.of
	if !n.unclear {
		n.unclear = true
		j.pod().Remark(ledger.Lost, "", fmt.Sprintf("a text puts the name %s-%s-%s-%s together, of whose indexes the new one cannot be made", n.set.Blueprint.Name, j.Name, job, pod),
			fmt.Sprintf("call the pods %s-<index>, where index = %d + Job x %d + pod", j.place, j.first, j.Pods))
	}
}

// renamed is a text of a container with the new names.
func (s *Set) renamed(j *Job, c *corev1.Container, text string) string {
	for _, n := range s.names(j, c) {
		text = n.replace(text)
	}
	return text
}
