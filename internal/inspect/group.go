package inspect

import (
	"cmp"
	"fmt"
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

// workloadGroup holds the workloads of one gang, in the order of their ranks. It has at least one.
type workloadGroup struct {
	namespace, name string
	workloads       []workload
	// stateSource is the workload whose status is the state of the gang; nil if it is not known.
	stateSource *workload
	// leftOut are workloads with the name of the gang that are not members. warnings describes them.
	leftOut  []workload
	warnings []string
}

// workload is a workload of a cluster together with the gang that it declares.
type workload struct{ roster.Member }

func parseWorkload(engine *injectors.Engine, w gang.Workload) workload {
	return workload{Member: roster.ReadMember(engine, w)}
}

// groupWorkloads groups workloads into gangs and parses them. Gangs are sorted by namespace, name
// and creation time, the workloads of a gang by rank.
func groupWorkloads(engine *injectors.Engine, found []gang.Workload) []workloadGroup {
	var out []workloadGroup
	for _, g := range roster.GroupWorkloads(found, engine.Frameworks()) {
		p := workloadGroup{namespace: g.Namespace, name: g.Name}
		for _, w := range g.Workloads {
			p.workloads = append(p.workloads, parseWorkload(engine, w))
		}
		slices.SortFunc(p.workloads, func(a, b workload) int { return roster.CompareRanks(a.Member, b.Member) })
		if g.MultiWorkload {
			p.identifyMembers()
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b workloadGroup) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name),
			a.creationTime().Compare(b.creationTime()), cmp.Compare(a.workloads[0].Meta().Name, b.workloads[0].Meta().Name))
	})
	return out
}

// creationTime returns the creation time of the oldest workload.
func (g workloadGroup) creationTime() time.Time {
	var oldest time.Time
	for _, w := range g.workloads {
		if created := w.Meta().CreationTimestamp.Time; oldest.IsZero() || created.Before(oldest) {
			oldest = created
		}
	}
	return oldest
}

// buildGang returns the gang without its ranks.
func (g workloadGroup) buildGang() Gang {
	first := g.statusSource()
	status := lifecycle.ReadStatus(first.Workload)
	out := Gang{
		Name:              g.name,
		Namespace:         g.namespace,
		Framework:         first.Meta().Labels[gang.LabelFramework],
		Phase:             cmp.Or(lifecycle.Phase(first.Meta().Labels[gang.LabelPhase]), status.Phase),
		Reason:            status.Reason,
		Message:           status.Message,
		Restarts:          status.Restarts,
		Disruptions:       status.Disruptions,
		FirstFailure:      status.FirstFailure,
		Seconds:           status.Seconds,
		CreationTimestamp: g.creationTime(),
		Members:           g.buildMembers(),
		Warnings:          slices.Clone(g.warnings),
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
		out.Reason, out.Message = first.explainMissingStatus()
	}
	for _, m := range out.Members {
		out.Size += m.Size
		out.Ready += m.Ready
		out.Succeeded += m.Succeeded
		out.minReady += first.minReady(m)
	}
	return out
}

// minReady returns the number of ranks of a member that must be ready for the gang of the workload to run.
func (w workload) minReady(m Member) int32 {
	if g := w.Gang(); g != nil && g.Elastic != nil && m.Role == g.Framework.ElasticRole {
		return min(m.Size, g.Elastic.Min)
	}
	return m.Size
}

// explainMissingStatus returns the reason and the message of a gang without a status.
func (w workload) explainMissingStatus() (gang.Reason, string) {
	if w.IsInjected() {
		return "", "No phase is recorded: the Rollcall manager has not reconciled the gang"
	}
	return gang.ReasonNotInjected, "The workload was admitted without Rollcall: nothing was injected"
}

// buildMembers returns the workloads, and the missing workloads that the first valid workload
// declares.
func (g workloadGroup) buildMembers() []Member {
	var members []Member
	for _, w := range g.workloads {
		members = append(members, w.buildMember())
	}
	firstValid := slices.IndexFunc(g.workloads, func(w workload) bool { return w.Gang() != nil })
	if firstValid < 0 {
		return members
	}
	completed := lifecycle.ReadStatus(g.workloads[firstValid].Workload).CompletedMembers
	var offset int32
	for _, declared := range g.workloads[firstValid].Gang().Members {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Name == declared.WorkloadName }) {
			m := Member{Name: declared.WorkloadName, Role: declared.Role, Offset: offset, Size: declared.Size}
			if _, m.Completed = completed[m.Name]; m.Completed {
				m.Kind, m.Succeeded = gang.Job, m.Size
			}
			m.Missing = !m.Completed
			members = append(members, m)
		}
		offset += declared.Size
	}
	slices.SortStableFunc(members, func(a, b Member) int { return cmp.Compare(a.Offset, b.Offset) })
	return members
}

// buildMember returns the workload with the counts of its own status, which exist without pods.
func (w workload) buildMember() Member {
	observed := lifecycle.Observe(w.Workload)
	m := Member{
		Kind:      w.Kind(),
		Name:      w.Meta().Name,
		Role:      cmp.Or(w.Template().Labels[gang.LabelRole], w.Meta().Labels[gang.LabelRole]),
		Offset:    w.RankOffset(),
		Size:      observed.Size,
		Ready:     observed.ReadyPods,
		Suspended: observed.Suspended,
		uid:       string(w.Meta().UID),
	}
	if job := w.Job; job != nil {
		m.Succeeded = job.Status.Succeeded
		if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
			m.Succeeded += int32(len(uncounted.Succeeded))
		}
	}
	if w.Gang() != nil {
		m.Role, m.Size = w.Gang().Role, w.Gang().OwnMember().Size
		for _, c := range w.Gang().Containers {
			m.Containers = append(m.Containers, c.Name)
		}
	} else if all := w.Template().Spec.Containers; len(all) > 0 {
		defaultContainer := w.Template().Annotations["kubectl.kubernetes.io/default-container"]
		m.Containers = []string{cmp.Or(defaultContainer, all[0].Name)}
	}
	return m
}

// addRanks adds the ranks and counts the ready and the succeeded ranks from the given pods. The pods
// may include pods of other gangs of the same name. If the status has no first failure, addRanks
// sets the earliest failure among the pods.
func (g *Gang) addRanks(pods []corev1.Pod) {
	var observedFailure *failure.Failure
	g.Ready, g.Succeeded = 0, 0
	for i := range g.Members {
		m := &g.Members[i]
		own := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !m.ownsPod(&pod) })
		failureContext := failure.Context{
			Attempt: g.state.Attempt, AttemptStartTime: g.state.AttemptStartTime, TrainingContainers: m.Containers,
			IgnoresLostNodes: true, // the controller decides by the annotations of the gang
		}
		if f := failure.First(own, m.Offset, failureContext); f != nil && m.canCauseFailure(f) {
			observedFailure = failure.EarlierOf(observedFailure, f)
		}
		m.Ready, m.Succeeded = 0, 0
		for index, pod := range podsByIndex(own, m.Size) {
			rank := newRank(m.Offset+int32(index), *m, pod)
			switch rank.State {
			case RankReady:
				m.Ready++
			case RankSucceeded:
				m.Succeeded++
			}
			g.Ranks = append(g.Ranks, rank)
		}
		g.Ready += m.Ready
		g.Succeeded += m.Succeeded
	}
	if g.FirstFailure == nil && g.terminatesPodsOnlyByFailure() {
		g.FirstFailure = observedFailure
	}
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

// podsByIndex returns the newest pod of each index, or nil. A Job keeps the failed pods that it
// replaced. A pod with an index beyond the size has no rank: it is deleted when an elastic gang
// shrinks.
func podsByIndex(pods []corev1.Pod, size int32) []*corev1.Pod {
	byIndex := make([]*corev1.Pod, size)
	for i := range pods {
		pod, index := &pods[i], gang.PodIndex(&pods[i])
		if index < 0 || index >= size {
			continue
		}
		if current := byIndex[index]; current == nil || isNewerPod(pod, current) {
			byIndex[index] = pod
		}
	}
	return byIndex
}

// isNewerPod reports whether a replaced b. Creation times have a resolution of one second. If they
// are equal, a pod that is not being deleted is newer than a pod that is.
func isNewerPod(a, b *corev1.Pod) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c > 0
	}
	return a.DeletionTimestamp == nil && (b.DeletionTimestamp != nil || a.Name > b.Name)
}

// selectGang returns the gang of the given name, or the gang that has a workload of that name. The
// name of the only workload of a gang takes precedence, so that every run of a CronJob can be
// selected. If several gangs have the name, selectGang returns the latest and a warning for each of
// the others. The groups must be sorted by name and creation time.
func selectGang(groups []workloadGroup, name string) (workloadGroup, []string, bool) {
	var matches []workloadGroup
	for _, g := range groups {
		hasWorkload := g.hasWorkload(name)
		if hasWorkload && len(g.workloads)+len(g.leftOut) == 1 {
			return g, nil, true
		}
		if hasWorkload || g.name == name {
			matches = append(matches, g)
		}
	}
	if len(matches) == 0 {
		return workloadGroup{}, nil, false
	}
	last := len(matches) - 1
	var warnings []string
	for _, g := range matches[:last] {
		first := g.workloads[0]
		warnings = append(warnings, fmt.Sprintf("%s %s is another gang with the same name", first.Kind(), first.Meta().Name))
	}
	return matches[last], warnings, true
}
