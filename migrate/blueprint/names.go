package blueprint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxAliases bounds the Services that stand for names which a text puts together from
// a variable. Above that many the user should say what is meant.
const maxAliases = 64

// rename goes through the pods' former names. A name that was a Service's own stays,
// by a Service; a host in a subdomain gets its new name wherever the manifest has the
// old one.
func (b *Blueprint) rename(members []member) []*corev1.Service {
	var services []*corev1.Service
	for i := range members {
		m := &members[i]
		first := int32(0)
		for _, part := range m.parts {
			if part.Former.Alone {
				services = append(services, b.aliases(members, m, part, first)...)
			} else {
				rewrite(members, m, part, first)
				b.elsewhere(m, part, first)
			}
			reindex(m, part)
			readsItself(m, part)
			b.reread(m, part)
			first += part.Pods
		}
	}
	return services
}

// aliases are Services under the former names of a role's pods.
func (b *Blueprint) aliases(members []member, m *member, part Role, first int32) []*corev1.Service {
	indexes := b.used(members, part)
	var out []*corev1.Service
	for _, i := range indexes {
		out = append(out, b.alias(m, part.Former.name(i), first+i))
	}
	if len(out) > 0 {
		names := part.Former.Prefix
		if !part.Former.Single {
			names += list(indexes)
		}
		part.Node.Changed("service/"+names,
			fmt.Sprintf("the manifest calls pods by their former names; these Services lead to the pods of %s", m.place()),
			fmt.Sprintf("call the pods by their own names, such as %s-%d.%s, and delete the Services", m.workload, first, b.Name))
	}
	return out
}

// used are the indexes of the pods whose former names are called.
func (b *Blueprint) used(members []member, part Role) []int32 {
	switch {
	case part.Former.Prefix == "", b.Aliases == AliasesNone:
		return nil
	case b.Aliases == AliasesAll:
		return all(part)
	}
	var found []int32
	for _, text := range append(texts(members), b.Texts...) {
		for _, c := range part.Former.calls(text) {
			switch {
			case c.computed && part.Pods > maxAliases:
				part.Node.Lost(fmt.Sprintf("the manifest puts former names together, %s…, and %d Services are too many", text[c.start:min(c.end+1, len(text))], part.Pods),
					fmt.Sprintf("call the pods by their own names, %s-<index>.%s", b.Name, b.Name))
				return nil
			case c.computed:
				return all(part)
			case c.index < part.Pods && !slices.Contains(found, c.index):
				found = append(found, c.index)
			}
		}
	}
	slices.Sort(found)
	return found
}

// all are the indexes of a role's pods.
func all(part Role) []int32 {
	out := make([]int32, part.Pods)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// alias is a Service that leads to one pod.
func (b *Blueprint) alias(m *member, name string, index int32) *corev1.Service {
	selector := map[string]string{
		batchv1.JobNameLabel:                 m.workload,
		batchv1.JobCompletionIndexAnnotation: strconv.Itoa(int(index)),
	}
	if m.Set {
		selector = map[string]string{appsv1.StatefulSetPodNameLabel: fmt.Sprintf("%s-%d", m.workload, index)}
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.Namespace, Labels: map[string]string{"app.kubernetes.io/part-of": b.Name}},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true, // ranks meet before any of them is ready
			Selector:                 selector,
		},
	}
}

// elsewhere names the texts beside the manifest that call pods by their former names,
// which cannot be rewritten.
func (b *Blueprint) elsewhere(m *member, part Role, first int32) {
	if !part.Former.Single && part.Former.Prefix == m.workload+"-" && first == 0 {
		return
	}
	for _, text := range b.Texts {
		if len(part.Former.calls(text)) > 0 {
			part.Node.Lost(fmt.Sprintf("a ConfigMap of the input calls pods by their former names, %s…, which they are no more", part.Former.Prefix),
				fmt.Sprintf("call them %s-<index>.%s there, the first with index %d", m.workload, b.Name, first))
			return
		}
	}
}

// rewrite puts the new names of a role's pods in the place of the former ones.
func rewrite(members []member, m *member, part Role, first int32) {
	prefix := m.workload + "-"
	if !part.Former.Single && part.Former.Prefix == prefix && first == 0 {
		return
	}
	changed := 0
	each(members, func(text *string) {
		var out strings.Builder
		from := 0
		for _, c := range part.Former.calls(*text) {
			if c.computed && first > 0 {
				part.Node.Lost(fmt.Sprintf("a text puts the former name %s… together, and the pods' indexes begin at %d now", (*text)[c.start:min(c.end+1, len(*text))], first),
					fmt.Sprintf("call the pods %s<index + %d>", prefix, first))
				continue
			}
			out.WriteString((*text)[from:c.start] + prefix)
			if !c.computed {
				out.WriteString(strconv.Itoa(int(first + c.index)))
			}
			from = c.end
		}
		if from > 0 {
			changed++
			*text = out.String() + (*text)[from:]
		}
	})
	if changed > 0 {
		former, now := part.Former.Prefix+"<index>", prefix+"<index>"
		if part.Former.Single {
			former, now = part.Former.Prefix, fmt.Sprintf("%s%d", prefix, first)
		}
		part.Node.Changed(now, fmt.Sprintf("the pods have other names now: %s was rewritten in %s", former, count(changed, "text")), "")
	}
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// texts are all texts of the templates in which a pod may be called.
func texts(members []member) []string {
	var out []string
	each(members, func(text *string) { out = append(out, *text) })
	return out
}

// each visits the commands, arguments and variables of all containers.
func each(members []member, visit func(text *string)) {
	for i := range members {
		spec := &members[i].Template.Spec
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for j := range containers {
				Texts(&containers[j], visit)
			}
		}
	}
}

// Texts visits the texts of a container that its user wrote to be read by programs: its
// command, its arguments, its variables' values, and what its probes and hooks run or
// ask. A visitor may change them.
func Texts(c *corev1.Container, visit func(text *string)) {
	each := func(list []string) {
		for i := range list {
			visit(&list[i])
		}
	}
	each(c.Command)
	each(c.Args)
	for i := range c.Env {
		visit(&c.Env[i].Value)
	}
	ask := func(exec *corev1.ExecAction, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) {
		if exec != nil {
			each(exec.Command)
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
			ask(p.Exec, p.HTTPGet, p.TCPSocket)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			ask(h.Exec, h.HTTPGet, h.TCPSocket)
		}
	}
}

// list writes indexes for people: "0", or "{0,2}".
func list(indexes []int32) string {
	words := make([]string, len(indexes))
	for i, n := range indexes {
		words[i] = strconv.Itoa(int(n))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "{" + strings.Join(words, ",") + "}"
}
