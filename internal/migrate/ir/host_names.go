package ir

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
				b.reportConfigMapReferences(w, role, first)
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

// reportConfigMapReferences reports former names in ConfigMaps, which are not rewritten.
func (b *Gang) reportConfigMapReferences(w *plannedWorkload, role Role, first int32) {
	isFound := func(text string) bool {
		return role.SourceNames.replaceHosts(text, func(hostReference) string { return "x" }) != text
	}
	if slices.ContainsFunc(b.ConfigMapTexts, isFound) {
		role.Source.MarkDropped("a ConfigMap of the input contains former names of pods, "+role.SourceNames.Prefix+"…",
			fmt.Sprintf("replace them by %s-<index>.%s; the first pod has index %d", w.workloadName, b.Name, first))
	}
}

// rewriteHostNames replaces the former names of a role's pods in all texts of the templates. A name of a Service was
// complete; a host in a subdomain keeps the domain that follows.
func (b *Gang) rewriteHostNames(workloads []plannedWorkload, w *plannedWorkload, role Role, first int32) {
	prefix, domain, changed := w.workloadName+"-", "", 0
	if role.SourceNames.PerPodService {
		domain = "." + b.Name
	}
	for i := range workloads {
		for _, c := range ListContainers(&workloads[i].Template.Spec) {
			VisitTexts(c, func(text *string) {
				after := role.SourceNames.replaceHosts(*text, func(ref hostReference) string {
					switch {
					case ref.computed && (first > 0 || domain != ""):
						role.Source.MarkDropped(fmt.Sprintf("a text computes the former name %s…", ref.quote),
							fmt.Sprintf("use the new names of the pods: %s<index + %d>.%s", prefix, first, b.Name))
						return ""
					case ref.computed:
						return prefix
					}
					return prefix + strconv.Itoa(int(first+ref.index)) + domain
				})
				if after != *text {
					*text = after
					changed++
				}
			})
		}
	}
	if changed > 0 {
		former, now := role.SourceNames.Prefix+"<index>", prefix+"<index>"
		if role.SourceNames.SinglePod {
			former, now = role.SourceNames.Prefix, fmt.Sprintf("%s%d", prefix, first)
		}
		role.Source.MarkChanged(now+domain,
			fmt.Sprintf("the pods have new names; %s was replaced in %s", former, FormatCount(changed, "text")), "")
	}
}

// FormatCount returns a number with its noun: "1 text", "2 texts".
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// VisitTexts visits the texts of a container that can contain hostnames: command, arguments, values
// of variables, probes and hooks. A visitor may change them.
func VisitTexts(c *corev1.Container, visit func(text *string)) {
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
