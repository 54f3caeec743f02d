package ir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/migrate/source"
)

// maxAliasServices bounds the Services for a name whose index a text computes. Larger roles need a
// decision of the user.
const maxAliasServices = 64

// replaceSourceNames replaces the former names of pods. A name of a Service stays valid, because the
// returned Services have it. A host in a subdomain is rewritten in all texts of the manifest.
func (b *Gang) replaceSourceNames(workloads []plannedWorkload) []*corev1.Service {
	var services []*corev1.Service
	for i := range workloads {
		w := &workloads[i]
		first := int32(0)
		for _, role := range w.roles {
			if role.SourceNames.PerPodService {
				services = append(services, b.buildAliasServices(workloads, w, role, first)...)
			} else {
				rewriteHostNames(workloads, w, role, first)
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
	return services
}

// buildAliasServices returns Services with the former names of a role's pods. The first pod of the
// role has the index first in its workload.
func (b *Gang) buildAliasServices(
	workloads []plannedWorkload, w *plannedWorkload, role Role, first int32,
) []*corev1.Service {
	indexes := b.referencedIndexes(workloads, role)
	var out []*corev1.Service
	for _, i := range indexes {
		out = append(out, b.buildAliasService(w, role.SourceNames.podName(i), first+i))
	}
	if len(out) > 0 {
		names := role.SourceNames.Prefix
		if !role.SourceNames.SinglePod {
			names += formatIndexes(indexes)
		}
		role.Source.MarkChanged("service/"+names,
			"the manifest contains former names of pods; the Services resolve them to the pods of "+w.workloadRef().String(),
			fmt.Sprintf("use the new names, for example %s-%d.%s, and delete the Services", w.workloadName, first, b.Name))
	}
	return out
}

// referencedIndexes returns the indexes of the pods that need a Service.
func (b *Gang) referencedIndexes(workloads []plannedWorkload, role Role) []int32 {
	switch {
	case role.SourceNames.Prefix == "", b.Aliases == source.AliasNone:
		return nil
	case b.Aliases == source.AliasAll:
		return allIndexes(role)
	}
	var found []int32
	for _, text := range append(collectTexts(workloads), b.ConfigMapTexts...) {
		for _, ref := range role.SourceNames.findHosts(text) {
			switch {
			case ref.computed && role.Pods > maxAliasServices:
				role.Source.MarkDropped(fmt.Sprintf("a text computes former names, %s…, which would need %d Services",
					ref.quote, role.Pods),
					fmt.Sprintf("use the new names of the pods: %s-<index>.%s", b.Name, b.Name))
				return nil
			case ref.computed:
				return allIndexes(role)
			case ref.index < role.Pods && !slices.Contains(found, ref.index):
				found = append(found, ref.index)
			}
		}
	}
	slices.Sort(found)
	return found
}

func allIndexes(role Role) []int32 {
	out := make([]int32, role.Pods)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// buildAliasService returns a Service that selects one pod.
func (b *Gang) buildAliasService(w *plannedWorkload, name string, index int32) *corev1.Service {
	selector := map[string]string{
		batchv1.JobNameLabel:                 w.workloadName,
		batchv1.JobCompletionIndexAnnotation: strconv.Itoa(int(index)),
	}
	if w.StatefulSet {
		selector = map[string]string{appsv1.StatefulSetPodNameLabel: fmt.Sprintf("%s-%d", w.workloadName, index)}
	}
	service := NewHeadlessService(name, b.Namespace, selector)
	service.Labels = map[string]string{"app.kubernetes.io/part-of": b.Name}
	return service
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
	if keepsNames(w, role, first) {
		return
	}
	for _, text := range b.ConfigMapTexts {
		if len(role.SourceNames.findHosts(text)) > 0 {
			role.Source.MarkDropped("a ConfigMap of the input contains former names of pods, "+role.SourceNames.Prefix+"…",
				fmt.Sprintf("replace them by %s-<index>.%s; the first pod has index %d", w.workloadName, b.Name, first))
			return
		}
	}
}

// rewriteHostNames replaces the former names of a role's pods in all texts of the templates.
func rewriteHostNames(workloads []plannedWorkload, w *plannedWorkload, role Role, first int32) {
	if keepsNames(w, role, first) {
		return
	}
	prefix, changed := w.workloadName+"-", 0
	visitTemplateTexts(workloads, func(text *string) {
		after := role.SourceNames.replaceHosts(*text, func(ref hostReference) string {
			switch {
			case ref.computed && first > 0:
				role.Source.MarkDropped(fmt.Sprintf("a text computes the former name %s…, and the new indexes start at %d",
					ref.quote, first), fmt.Sprintf("use the new names of the pods: %s<index + %d>", prefix, first))
				return ""
			case ref.computed:
				return prefix
			}
			return prefix + strconv.Itoa(int(first+ref.index))
		})
		if after != *text {
			*text = after
			changed++
		}
	})
	if changed > 0 {
		former, now := role.SourceNames.Prefix+"<index>", prefix+"<index>"
		if role.SourceNames.SinglePod {
			former, now = role.SourceNames.Prefix, fmt.Sprintf("%s%d", prefix, first)
		}
		role.Source.MarkChanged(now,
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

func collectTexts(workloads []plannedWorkload) []string {
	var out []string
	visitTemplateTexts(workloads, func(text *string) { out = append(out, *text) })
	return out
}

// visitTemplateTexts calls [VisitTexts] for all containers.
func visitTemplateTexts(workloads []plannedWorkload, visit func(text *string)) {
	for i := range workloads {
		for _, c := range ListContainers(&workloads[i].Template.Spec) {
			VisitTexts(c, visit)
		}
	}
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

// formatIndexes formats indexes as "0", or "{0,2}".
func formatIndexes(indexes []int32) string {
	words := make([]string, len(indexes))
	for i, n := range indexes {
		words[i] = strconv.Itoa(int(n))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "{" + strings.Join(words, ",") + "}"
}
