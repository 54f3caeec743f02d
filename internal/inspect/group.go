package inspect

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// group is a gang of a cluster, with its workloads in the order of their ranks.
type group struct {
	roster.Gang
	sameName []string // warnings about other gangs of the name
}

// listGroups groups workloads into gangs, sorted by namespace, name and creation time.
func listGroups(engine *injectors.Engine, workloads []gang.Workload) []group {
	var out []group
	for _, g := range roster.ReadGangs(engine, workloads) {
		out = append(out, group{Gang: g})
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			a.creationTime().Compare(b.creationTime()), cmp.Compare(a.Members[0].Meta().Name, b.Members[0].Meta().Name))
	})
	return out
}

// creationTime returns the creation time of the oldest member.
func (g group) creationTime() time.Time {
	return slices.MinFunc(g.Members, func(a, b roster.Member) int {
		return a.Meta().CreationTimestamp.Compare(b.Meta().CreationTimestamp.Time)
	}).Meta().CreationTimestamp.Time
}

// hasWorkload reports whether a workload of the name has the name of the gang, as a member or not.
func (g group) hasWorkload(name string) bool {
	return slices.ContainsFunc(slices.Concat(g.Members, g.EarlierRun, g.Strangers), func(m roster.Member) bool {
		return m.Meta().Name == name
	})
}

// listWarnings describes the workloads and other gangs that have the name of the gang.
func (g group) listWarnings() []string {
	var out []string
	for _, m := range g.EarlierRun {
		out = append(out, m.Spec().String()+
			" finished before other workloads of the gang were created and belongs to an earlier run")
	}
	for _, m := range g.Strangers {
		out = append(out, m.Spec().String()+" has the name of the gang, but is not a member")
	}
	return append(out, g.sameName...)
}

// buildGangs returns gangs without their ranks.
func buildGangs(groups []group) []Gang {
	var gangs []Gang
	for _, g := range groups {
		gangs = append(gangs, g.buildGang())
	}
	return gangs
}

// buildGang returns the gang without its ranks.
func (g group) buildGang() Gang {
	first := g.StatusSource()
	status := lifecycle.ReadStatus(first.Workload)
	out := Gang{
		Name:              g.Name,
		Namespace:         g.Namespace,
		Framework:         first.Meta().Labels[gang.LabelFramework],
		Phase:             cmp.Or(lifecycle.Phase(first.Meta().Labels[gang.LabelPhase]), status.Phase),
		Reason:            status.Reason,
		Message:           status.Message,
		Restarts:          status.Restarts,
		Disruptions:       status.Disruptions,
		FirstFailure:      status.FirstFailure,
		FailedNodes:       status.FailedNodes,
		Seconds:           status.Seconds,
		CreationTimestamp: g.creationTime(),
		Members:           g.buildMembers(),
		Warnings:          g.listWarnings(),
		isQueued:          first.QueueName() != "",
		state:             status.State,
	}
	if !status.LastTransitionTime.IsZero() {
		out.LastTransitionTime = &status.LastTransitionTime
	}
	if !status.NextRestartTime.IsZero() && out.Phase == lifecycle.Restarting {
		out.NextRestartTime = &status.NextRestartTime
	}
	if first.Gang() != nil && first.Gang().RestartRules.RestartPolicy == gang.RestartPolicyGang {
		out.MaxRestarts = &first.Gang().RestartRules.MaxRestarts
		if limit := &first.Gang().RestartRules.MaxDisruptions; *limit != gang.UnlimitedDisruptions {
			out.MaxDisruptions = limit
		}
	}
	if out.Message == "" && out.Phase == "" {
		out.Reason, out.Message = explainMissingStatus(first)
	}
	for _, m := range out.Members {
		out.Size += m.Size
		out.Ready += m.Ready
		out.Succeeded += m.Succeeded
		out.minReady += minReady(first, m)
	}
	return out
}

// buildGangWithRanks returns the gang with its ranks, from pods as addRanks needs them.
func (g group) buildGangWithRanks(pods []corev1.Pod) Gang {
	out := g.buildGang()
	out.addRanks(pods)
	return out
}

// minReady returns the number of ranks of a member that must be ready for the gang of the workload to run.
func minReady(w roster.Member, m Member) int32 {
	if g := w.Gang(); g != nil && g.IsElasticRole(m.Role) {
		return min(m.Size, g.Elastic.Min)
	}
	return m.Size
}

// explainMissingStatus returns the reason and the message of a gang without a status.
func explainMissingStatus(w roster.Member) (gang.Reason, string) {
	switch {
	case !w.IsInjected():
		return gang.ReasonNotInjected, "The workload was admitted without Rollcall: nothing was injected"
	case w.IsCopiedByKueue():
		return "", "Kueue runs a copy of the Job in another cluster, which has the pods and the status"
	default:
		return "", "No phase is recorded: the Rollcall manager has not reconciled the gang"
	}
}

// buildMembers returns the workloads, and the missing workloads that the first valid workload
// declares.
func (g group) buildMembers() []Member {
	var members []Member
	for _, w := range g.Members {
		members = append(members, buildMember(w))
	}
	firstValid := slices.IndexFunc(g.Members, func(w roster.Member) bool { return w.Gang() != nil })
	if firstValid < 0 {
		return members
	}
	declared := lifecycle.ObserveMembers(*g.Members[firstValid].Gang(), func(name string) (lifecycle.Observation, bool) {
		return lifecycle.Observation{}, slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
	}).RestoreCompleted(lifecycle.ReadStatus(g.Members[firstValid].Workload).CompletedMembers)
	var offset int32
	for _, s := range declared {
		m := Member{Name: s.WorkloadName, Role: s.Role, Offset: offset, Size: s.Size}
		switch offset += s.Size; {
		case s.Exists:
			continue
		case s.Observed.Complete:
			m.Kind, m.Succeeded, m.Completed = gang.Job, m.Size, true
		default:
			m.Missing = true
		}
		members = append(members, m)
	}
	slices.SortStableFunc(members, func(a, b Member) int { return cmp.Compare(a.Offset, b.Offset) })
	return members
}

// buildMember returns the workload with the counts of its own status, which exist without pods.
func buildMember(w roster.Member) Member {
	observed := lifecycle.Observe(w.Workload)
	m := Member{
		Kind:      w.Kind(),
		Name:      w.Meta().Name,
		Role:      cmp.Or(w.Template().Labels[gang.LabelRole], w.Meta().Labels[gang.LabelRole]),
		Offset:    w.RankOffset(),
		Size:      observed.Size,
		Ready:     observed.ReadyPods,
		Suspended: observed.Suspended,
		Workload:  &w.Workload,
		uid:       string(w.Meta().UID),
	}
	if job := w.Job; job != nil {
		m.Succeeded = job.Status.Succeeded
		if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
			m.Succeeded += int32(len(uncounted.Succeeded))
		}
	}
	if w.Gang() != nil {
		m.Role, m.Size, m.pattern = w.Gang().Role, w.Gang().OwnMember().Size, w.Gang().StallRules.Pattern
		for _, c := range w.Gang().Containers {
			m.Containers = append(m.Containers, c.Name)
		}
	} else if all := w.Template().Spec.Containers; len(all) > 0 {
		defaultContainer := w.Template().Annotations[gang.AnnotationDefaultContainer]
		m.Containers = []string{cmp.Or(defaultContainer, all[0].Name)}
	}
	return m
}

// addRanks adds the ranks and counts the ready and the succeeded ranks from the given pods. The pods
// may include pods of other gangs of the same name. If the status has no first failure, addRanks
// sets the earliest failure among the pods.
func (g *Gang) addRanks(pods []corev1.Pod) {
	var failures []*failure.Failure
	g.Ready, g.Succeeded = 0, 0
	for i := range g.Members {
		m := &g.Members[i]
		own := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !m.ownsPod(&pod) })
		failureContext := failure.Context{
			Attempt: g.state.Attempt, AttemptStartTime: g.state.AttemptStartTime, TrainingContainers: m.Containers,
			IgnoresLostNodes: true, // the controller decides by the annotations of the gang
		}
		for _, f := range failureContext.List(own, m.Offset) {
			if m.canCauseFailure(f) {
				failures = append(failures, f)
			}
		}
		m.Ready, m.Succeeded = 0, 0
		newest := lifecycle.NewestPods(own, m.Size)
		for index := range m.Size {
			rank := newRank(m.Offset+index, *m, newest[index])
			switch rank.State {
			case lifecycle.RankReady:
				m.Ready++
			case lifecycle.RankSucceeded:
				m.Succeeded++
			}
			g.Ranks = append(g.Ranks, rank)
		}
		g.Ready += m.Ready
		g.Succeeded += m.Succeeded
	}
	if g.FirstFailure == nil && g.terminatesPodsOnlyByFailure() {
		g.FirstFailure = failure.Context{}.Select(failures)
	}
}

// newRank describes one rank by its pod, which may be nil.
func newRank(rank int32, m Member, pod *corev1.Pod) Rank {
	r := Rank{Rank: rank, Member: m.Name, Role: m.Role, Object: pod}
	r.State, r.Reason = lifecycle.DescribeRank(pod, m.Containers)
	if pod == nil {
		if m.Completed {
			r.State = lifecycle.RankSucceeded
		}
		return r
	}
	r.Pod, r.Node = pod.Name, pod.Spec.NodeName
	for _, c := range pod.Status.ContainerStatuses {
		r.ContainerRestarts += c.RestartCount
	}
	return r
}

// canCauseFailure reports whether a failure of a pod counts as a failure of the gang. Rollouts delete
// pods of StatefulSets, so only failures of their containers count.
func (m Member) canCauseFailure(f *failure.Failure) bool {
	return m.Kind == gang.Job || f.Container != ""
}

// terminatesPodsOnlyByFailure reports whether a terminated pod indicates a failure. In all other
// phases Rollcall deletes pods itself, for example when a gang succeeds or is suspended.
func (g *Gang) terminatesPodsOnlyByFailure() bool {
	switch g.Phase {
	case lifecycle.Pending, lifecycle.Starting, lifecycle.Running, lifecycle.Failed:
		return true
	default:
		return false
	}
}

// ownsPod reports whether a pod belongs to the member, and not to another run of a CronJob, which
// has the same gang name.
func (m Member) ownsPod(pod *corev1.Pod) bool {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return string(owner.UID) == m.uid
	}
	return pod.Labels[gang.LabelRole] == m.Role
}

// selectGang returns the gang of the given name, or the gang that has a workload of that name. The
// name of the only workload of a gang takes precedence, so that every run of a CronJob can be
// selected. If several gangs have the name, selectGang returns the latest with a warning for each of
// the others. The groups must be sorted by name and creation time.
func selectGang(groups []group, name string) (group, bool) {
	var matches []group
	for _, g := range groups {
		hasWorkload := g.hasWorkload(name)
		if hasWorkload && len(g.Members)+len(g.EarlierRun)+len(g.Strangers) == 1 {
			return g, true
		}
		if hasWorkload || g.Name == name {
			matches = append(matches, g)
		}
	}
	if len(matches) == 0 {
		return group{}, false
	}
	last := matches[len(matches)-1]
	for _, g := range matches[:len(matches)-1] {
		last.sameName = append(last.sameName, g.Members[0].Spec().String()+" is another gang with the same name")
	}
	return last, true
}
