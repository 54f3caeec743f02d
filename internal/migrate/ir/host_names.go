package ir

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// replaceSourceNames replaces the former names of pods in all texts of the manifest. It reports what it cannot
// replace.
func (b *Gang) replaceSourceNames(workloads []plannedWorkload) {
	for i := range workloads {
		w := &workloads[i]
		first := int32(0)
		for _, role := range w.roles {
			if !keepsNames(w, role, first) || role.SourceNames.PerPodService {
				b.rewriteHostNames(workloads, w, role, first)
			}
			b.reportFieldRefs(w, role)
			if names := role.SourceNames; names.Prefix != "" && !keepsNames(w, role, first) {
				ReportHostnameReads(&role.Template.Spec, b.ConfigMapTexts, role.Source, names.podName(0),
					fmt.Sprintf("%s-%d", w.workloadName, first))
			}
			first += role.Pods
		}
	}
}

// NewHeadlessService returns a Service with the hostnames of the selected pods.
func NewHeadlessService(name, namespace string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true, // ranks connect before they are ready
			Selector:                 selector,
		},
	}
}

// keepsNames reports whether the pods of a role have the same names as before.
func keepsNames(w *plannedWorkload, role Role, first int32) bool {
	return !role.SourceNames.SinglePod && role.SourceNames.Prefix == w.workloadName+"-" && first == 0
}

// rewriteHostNames replaces the former names of a role's pods in all texts of the templates, and reports those in
// ConfigMaps. A name of a Service was complete; a host in a subdomain keeps the domain that follows.
func (b *Gang) rewriteHostNames(workloads []plannedWorkload, w *plannedWorkload, role Role, first int32) {
	prefix, domain, changed := w.workloadName+"-", "", 0
	if role.SourceNames.PerPodService {
		domain = "." + b.Name
	}
	hosts, ok := role.SourceNames.hosts(func(index int32, computed string) string {
		switch {
		case computed != "" && (first > 0 || domain != ""):
			role.Source.MarkDropped(fmt.Sprintf("a text computes the former name %s…", computed),
				fmt.Sprintf("use the new names of the pods: %s<index + %d>.%s", prefix, first, b.Name))
			return ""
		case computed != "":
			return prefix
		}
		return prefix + strconv.Itoa(int(first+index)) + domain
	})
	if !ok {
		return
	}
	for i := range workloads {
		for _, c := range ListContainers(&workloads[i].Template.Spec) {
			changed += hosts.ReplaceTexts(c)
		}
	}
	if changed > 0 {
		former, now := role.SourceNames.Prefix+"<index>", prefix+"<index>"
		if role.SourceNames.SinglePod {
			former, now = role.SourceNames.Prefix, fmt.Sprintf("%s%d", prefix, first)
		}
		role.Source.MarkChanged(now+domain,
			fmt.Sprintf("the pods have new names; %s was replaced in %s", former, gang.FormatCount(changed, "text")), "")
	}
	if slices.ContainsFunc(b.ConfigMapTexts, func(text string) bool { return hosts.Replace(text) != text }) {
		role.Source.MarkDropped("a ConfigMap of the input contains former names of pods, "+role.SourceNames.Prefix+"…",
			fmt.Sprintf("replace them by %s-<index>.%s; the first pod has index %d", w.workloadName, b.Name, first))
	}
}

// visitTexts visits the texts of a container that can contain hostnames: command, arguments, values
// of variables, probes and hooks. A visitor may change them.
func visitTexts(c *corev1.Container, visit func(text *string)) {
	visitAll := func(list []string) {
		for i := range list {
			visit(&list[i])
		}
	}
	visitAll(c.Command)
	visitAll(c.Args)
	for i := range c.Env {
		visit(&c.Env[i].Value)
	}
	visitHandler := func(exec *corev1.ExecAction, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) {
		if exec != nil {
			visitAll(exec.Command)
		}
		if get != nil {
			visit(&get.Host)
		}
		if socket != nil {
			visit(&socket.Host)
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			visitHandler(p.Exec, p.HTTPGet, p.TCPSocket)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			visitHandler(h.Exec, h.HTTPGet, h.TCPSocket)
		}
	}
}

// FindInTexts returns what a pattern matches in the texts of containers, or "".
func FindInTexts(pattern *regexp.Regexp, containers ...*corev1.Container) string {
	found := ""
	for _, c := range containers {
		visitTexts(c, func(text *string) { found = cmp.Or(found, pattern.FindString(*text)) })
	}
	return found
}

// SourceNames are the former names of the pods of a role. The zero value means that the pods had no hostnames.
type SourceNames struct {
	// Prefix precedes the index in a pod's name, for example "train-worker-".
	Prefix string
	// SinglePod is true if the only pod of the role had no index. Prefix is its name.
	SinglePod bool
	// PerPodService is true if each pod had a Service of the same name. Otherwise the pods were
	// hosts in the subdomain of one Service.
	PerPodService bool
	// Role is the role in the labels of the former system, or "".
	Role string
}

// podName returns the former name of the pod with the given index.
func (n SourceNames) podName(index int32) string {
	if n.SinglePod {
		return n.Prefix
	}
	return n.Prefix + strconv.Itoa(int(index))
}

// FormerHosts are the former hostnames of some pods.
type FormerHosts struct {
	// Pattern matches a hostname. Its groups are the indexes of the pod.
	Pattern *regexp.Regexp
	// Rename returns the new hostname for the indexes, or "" for a name that stays. The name is followed by rest.
	Rename func(indexes []string, rest string) string
	// Domain matches the former domain after a hostname, which is replaced by Service. Nil means that the domain stays.
	Domain  *regexp.Regexp
	Service func(host string) string
}

// Replace returns a text with the new hostnames. Longer names and files with the name of a pod stay.
func (h FormerHosts) Replace(text string) string {
	var out strings.Builder
	from := 0
	for _, match := range h.Pattern.FindAllStringSubmatchIndex(text, -1) {
		start, end := match[0], match[1]
		if isNameByteAt(text, start-1) || isNameByteAt(text, end) || isInFilePath(text, start, end) {
			continue
		}
		var indexes []string
		for i := 2; i < len(match); i += 2 {
			indexes = append(indexes, text[match[i]:match[i+1]])
		}
		host := h.Rename(indexes, text[end:])
		if host == "" {
			continue
		}
		out.WriteString(text[from:start] + host)
		from = end
		if h.Domain == nil {
			continue
		}
		if domain := h.Domain.FindString(text[end:]); domain != "" && !isNameByteAt(text, end+len(domain)) {
			out.WriteString("." + h.Service(host))
			from = end + len(domain)
		}
	}
	return out.String() + text[from:]
}

// ReplaceTexts replaces the hostnames in the texts of a container, and returns the number of changed texts.
func (h FormerHosts) ReplaceTexts(c *corev1.Container) int {
	changed := 0
	visitTexts(c, func(text *string) {
		if after := h.Replace(*text); after != *text {
			*text = after
			changed++
		}
	})
	return changed
}

// isNameByteAt reports whether a byte can be part of a DNS label. A name next to such a byte is
// part of a longer name.
func isNameByteAt(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	b := text[at] | 0x20 // in lower case
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || text[at] == '-'
}

// isInFilePath reports whether the given part of a text belongs to a file path instead of a host:
// /logs/train-worker-0, train-worker-0/out.log, train-worker-0.sh, run_train-worker-0. A host
// follows two slashes: http://train-worker-0/.
func isInFilePath(text string, start, end int) bool {
	before, after := text[:start], text[end:]
	isURL, isDirectory := strings.HasSuffix(before, "//"), strings.HasPrefix(after, "/") && !strings.HasSuffix(before, "@")
	return !isURL && (isDirectory || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "_") ||
		restOfFile.MatchString(after))
}

// restOfFile matches the rest of a file name that starts with the name of a pod. No Service of a gang has a name
// like these extensions.
var restOfFile = regexp.MustCompile(
	`^(?:_|\.(?:sh|py|log|txt|json|yaml|yml|pt|pth|ckpt|csv|out|err|tar|gz)(?:[^a-z0-9]|$))`)

// hosts returns the former hostnames of the role's pods, and false if the pods had none. For a name that a text
// completes with an index, as in train-worker-$i, rename gets the name with the first byte of the variable.
func (n SourceNames) hosts(rename func(index int32, computed string) string) (FormerHosts, bool) {
	hosts := FormerHosts{Pattern: regexp.MustCompile(regexp.QuoteMeta(n.Prefix) + `([0-9]*)`)}
	if n.SinglePod {
		hosts.Pattern = regexp.MustCompile(regexp.QuoteMeta(n.Prefix) + `()`)
	}
	hosts.Rename = func(indexes []string, rest string) string {
		// A shell or template variable, or a string that a program concatenates with a number.
		isComputed := rest == "" || strings.ContainsAny(rest[:1], "${%\"'")
		index, err := strconv.ParseInt(indexes[0], 10, 32)
		switch {
		case n.SinglePod || err == nil:
			return rename(int32(index), "")
		case indexes[0] == "" && isComputed:
			return rename(0, n.Prefix+rest[:min(1, len(rest))])
		}
		return ""
	}
	return hosts, n.Prefix != ""
}
