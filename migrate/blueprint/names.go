package blueprint

import (
	"fmt"
	"regexp"
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
			if part.Former.Prefix != "" && part.Former.Alone {
				services = append(services, b.aliases(members, m, part, first)...)
			} else if part.Former.Prefix != "" {
				rewrite(members, m, part, first)
			}
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
		out = append(out, b.alias(m, part.Former.Prefix+strconv.Itoa(int(i)), first+i))
	}
	if len(out) > 0 {
		part.Node.Changed(
			fmt.Sprintf("service/%s%s", part.Former.Prefix, list(indexes)),
			fmt.Sprintf("the manifest calls pods by their former names; these Services lead to the pods of %s", m.place()),
			fmt.Sprintf("call the pods by their own names, such as %s-%d.%s, and delete the Services", m.workload, first, b.Name))
	}
	return out
}

// used are the indexes of the pods whose former names are called.
func (b *Blueprint) used(members []member, part Role) []int32 {
	var all, found []int32
	for i := range part.Pods {
		all = append(all, i)
	}
	switch b.Aliases {
	case AliasesAll:
		return all
	case AliasesNone:
		return nil
	}
	pattern := regexp.MustCompile(`(?:^|[^a-z0-9-])` + regexp.QuoteMeta(part.Former.Prefix) + `([0-9]+|\$|\{|%)`)
	for _, text := range append(texts(members), b.Texts...) {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			n, err := strconv.ParseInt(match[1], 10, 32)
			switch {
			case err != nil && part.Pods > maxAliases:
				part.Node.Lost(fmt.Sprintf("the manifest puts former names together, %s%s…, and %d Services are too many", part.Former.Prefix, match[1], part.Pods),
					fmt.Sprintf("call the pods by their own names, %s-<index>.%s", b.Name, b.Name))
				return nil
			case err != nil:
				return all
			case int32(n) < part.Pods && !slices.Contains(found, int32(n)):
				found = append(found, int32(n))
			}
		}
	}
	slices.Sort(found)
	return found
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

// rewrite puts the new names of a role's pods in the place of the former ones.
func rewrite(members []member, m *member, part Role, first int32) {
	prefix := m.workload + "-"
	if part.Former.Prefix == prefix && first == 0 {
		return
	}
	pattern := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(part.Former.Prefix) + `([0-9]+|\$|\{|%)`)
	var changed []string
	each(members, func(text *string) {
		next := pattern.ReplaceAllStringFunc(*text, func(match string) string {
			groups := pattern.FindStringSubmatch(match)
			n, err := strconv.ParseInt(groups[2], 10, 32)
			switch {
			case err == nil:
				return groups[1] + prefix + strconv.Itoa(int(first)+int(n))
			case first == 0:
				return groups[1] + prefix + groups[2]
			}
			part.Node.Lost(fmt.Sprintf("a text puts the former name %s%s… together, and the pods' indexes begin at %d now", part.Former.Prefix, groups[2], first),
				fmt.Sprintf("call the pods %s<index + %d>", prefix, first))
			return match
		})
		if next != *text {
			changed = append(changed, *text)
			*text = next
		}
	})
	if len(changed) > 0 {
		part.Node.Changed(prefix+"<index>", fmt.Sprintf("the pods have other names now; %d texts that called them %s<index> were rewritten", len(changed), part.Former.Prefix), "")
	}
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
				c := &containers[j]
				for k := range c.Command {
					visit(&c.Command[k])
				}
				for k := range c.Args {
					visit(&c.Args[k])
				}
				for k := range c.Env {
					visit(&c.Env[k].Value)
				}
			}
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
