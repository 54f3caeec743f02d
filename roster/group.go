package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// party are the workloads of one gang, in the order of their ranks.
type party struct {
	namespace, name string
	workloads       []workload
}

// workload is one of them, and what it can be read as: nil when it cannot be, since it
// was written for another release or passed admission without Rollcall.
type workload struct {
	gang.Workload
	read *gang.Gang
}

func (w workload) injected() bool {
	_, ok := w.Meta().Annotations[gang.AnnotationInjected]
	return ok
}

// parties puts workloads together into gangs. As for the reconciler, those that bear
// the name of one gang are one when some of them call themselves one of several, and
// else a gang each, as the runs of a CronJob are.
func parties(engine *injectors.Engine, found []gang.Workload) []party {
	type key struct {
		namespace, name, workload string
		kind                      gang.Kind
	}
	several := map[key]bool{}
	keyOf := func(w gang.Workload) key {
		return key{namespace: w.Meta().Namespace, name: gang.NameOf(w, engine.Frameworks())}
	}
	for _, w := range found {
		if w.Several() {
			several[keyOf(w)] = true
		}
	}
	byKey := map[key]*party{}
	for _, w := range found {
		if !w.Labelled() || w.OptedOut() {
			continue
		}
		k := keyOf(w)
		if !several[k] || !gang.Joins(w, engine.Frameworks()) {
			k.kind, k.workload = w.Kind(), w.Meta().Name
		}
		p := byKey[k]
		if p == nil {
			p = &party{namespace: k.namespace, name: k.name}
			byKey[k] = p
		}
		p.workloads = append(p.workloads, read(engine, w))
	}
	var out []party
	for _, p := range byKey {
		slices.SortFunc(p.workloads, func(a, b workload) int {
			return cmp.Or(cmp.Compare(a.offset(), b.offset()), cmp.Compare(a.Meta().Name, b.Meta().Name), cmp.Compare(a.Kind(), b.Kind()))
		})
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b party) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name),
			a.created().Compare(b.created()), cmp.Compare(a.workloads[0].Meta().Name, b.workloads[0].Meta().Name))
	})
	return out
}

func read(engine *injectors.Engine, w gang.Workload) workload {
	if result, err := engine.Describe(w); err == nil {
		return workload{w, &result.Gang}
	}
	return workload{w, nil}
}

// offset is the rank of the workload's first pod.
func (w workload) offset() int32 {
	if n, err := strconv.ParseInt(w.Template().Labels[gang.LabelRankOffset], 10, 32); err == nil {
		return int32(n)
	}
	if w.read != nil && !w.injected() {
		return w.read.Offset
	}
	return 0
}

func (p party) created() time.Time {
	var first time.Time
	for _, w := range p.workloads {
		if at := w.Meta().CreationTimestamp.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// gang describes the gang without its ranks.
func (p party) gang() Gang {
	first := p.workloads[max(0, slices.IndexFunc(p.workloads, workload.injected))]
	word := gang.StatusOf(first.Workload)
	g := Gang{
		Name: p.name, Namespace: p.namespace, Framework: first.Meta().Labels[gang.LabelFramework],
		Phase:  cmp.Or(gang.Phase(first.Meta().Labels[gang.LabelPhase]), word.Phase),
		Reason: word.Reason, Message: word.Message, Attempt: word.Attempt, Cause: word.Cause,
		Created: p.created(), Members: p.members(),
	}
	if !word.Since.IsZero() {
		g.Since = &word.Since
	}
	if !word.NotBefore.IsZero() && g.Phase == gang.Restarting {
		g.NotBefore = &word.NotBefore
	}
	if first.read != nil && first.read.Lifecycle.Restart == gang.RestartGang {
		g.MaxRestarts = &first.read.Lifecycle.MaxRestarts
	}
	switch {
	case g.Message != "" || g.Phase != "":
	case first.injected():
		g.Message = "No phase was written yet: Rollcall's manager has not looked at the gang"
	default:
		g.Reason = gang.ReasonNotInjected
		g.Message = "The workload was admitted without Rollcall: nothing was injected"
	}
	for _, m := range g.Members {
		g.Size, g.Ready, g.Done = g.Size+m.Size, g.Ready+m.Ready, g.Done+m.Done
	}
	return g
}

// members are the workloads, and those that the first readable one misses.
func (p party) members() []Member {
	var out []Member
	for _, w := range p.workloads {
		out = append(out, w.member())
	}
	lead := slices.IndexFunc(p.workloads, func(w workload) bool { return w.read != nil })
	if lead < 0 {
		return out
	}
	var offset int32
	for _, m := range p.workloads[lead].read.Members {
		if !slices.ContainsFunc(out, func(o Member) bool { return o.Name == m.Workload }) {
			out = append(out, Member{Name: m.Workload, Role: m.Role, Offset: offset, Size: m.Size, Missing: true})
		}
		offset += m.Size
	}
	slices.SortStableFunc(out, func(a, b Member) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

func (w workload) member() Member {
	seen := gang.Observe(w.Workload)
	m := Member{
		Kind: w.Kind(), Name: w.Meta().Name, Role: cmp.Or(w.Template().Labels[gang.LabelRole], w.Meta().Labels[gang.LabelRole]),
		Offset: w.offset(), Size: seen.Size, Ready: seen.Ready, Suspended: seen.Suspended,
		uid: string(w.Meta().UID),
	}
	if job := w.Job; job != nil {
		m.Done = job.Status.Succeeded
		if u := job.Status.UncountedTerminatedPods; u != nil {
			m.Done += int32(len(u.Succeeded))
		}
	}
	if w.read != nil {
		m.Role, m.Size = w.read.Role, w.read.Own().Size
		for _, c := range w.read.Containers {
			m.Containers = append(m.Containers, c.Name)
		}
	} else if all := w.Template().Spec.Containers; len(all) > 0 {
		m.Containers = []string{cmp.Or(w.Template().Annotations["kubectl.kubernetes.io/default-container"], all[0].Name)}
	}
	return m
}

// withRanks adds the ranks, by the gang's pods.
func (g *Gang) withRanks(pods []corev1.Pod) {
	var fall *gang.Fall
	g.Ready, g.Done = 0, 0
	for i := range g.Members {
		m := &g.Members[i]
		own := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !m.owns(&pod) })
		if f := gang.FirstFall(own, m.Offset, gang.Watch{Attempt: g.Attempt, Trains: m.Containers}); f != nil && (m.Kind == gang.Job || f.Container != "") {
			fall = gang.Earlier(fall, f) // pods of a StatefulSet are taken away by rollouts, too
		}
		m.Ready, m.Done = 0, 0
		for index, pod := range byIndex(own, m.Size) {
			r := rankOf(m.Offset+int32(index), *m, pod)
			switch r.State {
			case Ready:
				m.Ready++
			case Done:
				m.Done++
			}
			g.Ranks = append(g.Ranks, r)
		}
		g.Ready, g.Done = g.Ready+m.Ready, g.Done+m.Done
	}
	// Pods of a gang that ends well, or is held back, are stopped on purpose.
	if g.Cause == nil && (g.Phase == gang.Pending || g.Phase == gang.Starting || g.Phase == gang.Running || g.Phase == gang.Failed) {
		g.Cause = fall
	}
}

// owns tells a member's own pods from those of another run that bears the gang's name.
func (m Member) owns(pod *corev1.Pod) bool {
	if c := metav1.GetControllerOf(pod); c != nil {
		return string(c.UID) == m.uid
	}
	return pod.Labels[gang.LabelRole] == m.Role
}

// byIndex picks the pod of each index: the newest, since a Job keeps the failed ones
// that it replaced. A pod beyond the size, of a gang that shrinks, has no rank.
func byIndex(pods []corev1.Pod, size int32) []*corev1.Pod {
	out := make([]*corev1.Pod, size)
	for i := range pods {
		pod, n := &pods[i], gang.IndexOf(&pods[i])
		if n < 0 || n >= size {
			continue
		}
		if have := out[n]; have == nil || newer(pod, have) {
			out[n] = pod
		}
	}
	return out
}

func newer(a, b *corev1.Pod) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c > 0
	}
	return a.DeletionTimestamp == nil && (b.DeletionTimestamp != nil || a.Name > b.Name)
}

// find picks the gang that a name means: that of the name, or of a workload of that
// name. Of several runs under one name it is the latest, and the others are told.
func find(all []party, name string) (party, []string, bool) {
	var named []party
	for _, p := range all {
		if slices.ContainsFunc(p.workloads, func(w workload) bool { return w.Meta().Name == name }) && len(p.workloads) == 1 {
			return p, nil, true
		}
		if p.name == name || slices.ContainsFunc(p.workloads, func(w workload) bool { return w.Meta().Name == name }) {
			named = append(named, p)
		}
	}
	if len(named) == 0 {
		return party{}, nil, false
	}
	latest := named[len(named)-1] // they are in the order of their creation
	var notes []string
	for _, p := range named[:len(named)-1] {
		w := p.workloads[0]
		notes = append(notes, fmt.Sprintf("the gang's name is also that of %s %s", w.Kind(), w.Meta().Name))
	}
	return latest, notes, true
}
