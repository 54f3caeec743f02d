package gang

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Roll is what one look finds of all members of a gang, in any order. A gang has one
// phase, whichever of its members one asks.
type Roll []Entry

// Entry is one member as it is found.
type Entry struct {
	// Member is what the others expect; its zero value stands for a gang of one
	// workload that could not be read.
	Member
	// Here is false when there is no such workload. Nothing is seen of it then.
	Here bool
	// Least is the number of its ranks without which the gang does not run.
	Least int32
	// Decides is true when the end of this member is the end of the gang.
	Decides bool
	// First is true when the end of its first pod is its end.
	First bool
	// Serves is true when the gang ends without an end of this member.
	Serves bool
	// Seen is what its own status says.
	Seen Observation
}

// Alone is the roll of a gang of one workload.
func Alone(seen Observation) Roll {
	return Roll{{Here: true, Least: seen.Size, Seen: seen}}
}

// Call asks for each member of g, by its name.
func Call(g Gang, find func(workload string) (Observation, bool)) Roll {
	var out Roll
	for _, m := range g.Members {
		r, _ := g.Framework.Find(m.Role)
		e := Entry{Member: m, Least: m.Size, Decides: decides(g, m, r), First: g.EndsWithFirst(m), Serves: r.Serves}
		if seen, ok := find(m.Workload); ok {
			e.Here, e.Seen, e.Least = true, seen, seen.Size
		}
		if g.Elastic != nil && m.Role == g.Framework.Elastic {
			e.Least = min(e.Least, g.Elastic.Min)
		}
		out = append(out, e)
	}
	return out
}

// decides reports whether the end of a member is the end of the gang: as its user
// says, else as the framework has it.
func decides(g Gang, m Member, r Role) bool {
	switch g.Lifecycle.Success {
	case "":
		return r.Decides || g.EndsWithFirst(m)
	case SuccessAll:
		return false
	case SuccessRank0:
		return m.Role == g.Members[0].Role
	default:
		return m.Role == g.Lifecycle.Success
	}
}

// EndsWithFirst reports whether the end of a member's first pod is the end of the gang,
// whatever its other pods do.
func (g Gang) EndsWithFirst(m Member) bool {
	switch g.Lifecycle.Success {
	case SuccessRank0:
		return m.Role == g.Members[0].Role
	case "":
		return m.Role == g.Framework.First && !slices.ContainsFunc(g.Members, func(o Member) bool {
			r, _ := g.Framework.Find(o.Role)
			return r.Decides
		})
	default:
		return false
	}
}

// Next is the phase of a gang that was in phase now and is found as r.
func Next(now Phase, r Roll) Phase {
	if v := r.verdict(now); v != "" {
		return v
	}
	switch {
	case r.HeldBack() || len(r.Missing()) > 0:
		return Pending
	case r.all(func(e Entry) bool { return e.Seen.Ready >= e.Least }):
		return Running
	case now == Running && r.all(func(e Entry) bool { return e.Seen.Present >= e.Least }):
		return Running // some ranks are done before the others
	default:
		return Pending
	}
}

// verdict is the phase in which the gang has ended; empty while it has not.
//
// The verdicts are those of the workloads' own controllers, and final. A phase that
// was written is none, since anybody can write a label. It counts for two things that
// the workloads cannot tell: which of two verdicts within the same moment came first,
// and what became of one that was taken away when it was done, as a Job with a time
// to live is.
func (r Roll) verdict(now Phase) Phase {
	done, failed := r.done(), r.failed()
	switch {
	case now == Succeeded && r.rested(),
		done != nil && failed != nil && now.Terminal(),
		failed == nil && now == Failed && len(r.Missing()) > 0,
		done == nil && now == Succeeded && r.lost():
		return now
	case done != nil && failed != nil && failed.Ended.Before(done.Ended):
		return Failed
	case done != nil:
		return Succeeded
	case failed != nil:
		return Failed
	default:
		return ""
	}
}

// done returns what ended the gang well: the first end of a member that decides, or
// the last of all. It is nil while the gang goes on.
func (r Roll) done() *Observation {
	var first, last *Observation
	decided := false
	for i := range r {
		e, seen := &r[i], &r[i].Seen
		decided = decided || e.Decides
		if !e.Here || !seen.Complete {
			continue
		}
		if e.Decides && (first == nil || seen.Ended.Before(first.Ended)) {
			first = seen
		}
		if last == nil || last.Ended.Before(seen.Ended) {
			last = seen
		}
	}
	if decided {
		return first
	}
	if r.all(func(e Entry) bool { return e.Serves || e.Here && e.Seen.Complete }) {
		return last
	}
	return nil
}

// failed returns the first failure for good; nil when there is none.
func (r Roll) failed() *Observation {
	var first *Observation
	for i := range r {
		if seen := &r[i].Seen; r[i].Here && seen.Failed && (first == nil || seen.Ended.Before(first.Ended)) {
			first = seen
		}
	}
	return first
}

// rested reports whether what a StatefulSet's pods told is gone with them: it was
// scaled to 0 when its gang was done. Scaled up again, it begins another life.
func (r Roll) rested() bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.Here && e.Seen.Set }) &&
		r.all(func(e Entry) bool { return !e.Here || e.Seen.Complete || e.Seen.Suspended || e.Seen.Size == 0 })
}

// lost reports whether a member is gone without which nobody can tell any more that
// the gang was done.
func (r Roll) lost() bool {
	if deciding := slices.DeleteFunc(slices.Clone(r), func(e Entry) bool { return !e.Decides }); len(deciding) > 0 {
		return len(deciding.Missing()) > 0
	}
	return len(r.Missing()) > 0
}

// HeldBack reports whether the user or a queue keeps a member from running.
func (r Roll) HeldBack() bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.Here && (e.Seen.Suspended || e.Seen.Size == 0) })
}

// Missing are the members that are not there.
func (r Roll) Missing() []Member {
	var out []Member
	for _, e := range r {
		if !e.Here {
			out = append(out, e.Member)
		}
	}
	return out
}

func (r Roll) all(is func(Entry) bool) bool {
	return !slices.ContainsFunc(r, func(e Entry) bool { return !is(e) })
}

// Describe says the phase in a sentence for users. It holds no count that moves
// while the phase stays: each change of it would be one more write.
func (r Roll) Describe(p Phase) string {
	switch p {
	case Running:
		return fmt.Sprintf("A%s ready", r.ranks())
	case Succeeded:
		return "The gang is done"
	case Failed:
		return r.failure()
	}
	if missing := r.Missing(); len(missing) > 0 {
		return "Waiting for " + list(missing)
	}
	if r.HeldBack() {
		return "Held back: no rank is to run"
	}
	return fmt.Sprintf("Waiting until a%s ready", r.ranks())
}

// failure names the member, where there are several.
func (r Roll) failure() string {
	first := r.failed()
	if first == nil {
		return "The gang failed"
	}
	for i := range r {
		if &r[i].Seen == first && len(r) > 1 {
			return fmt.Sprintf("The gang failed: %s: %s", r[i].Workload, first.Message)
		}
	}
	return "The gang failed: " + first.Message
}

// ranks counts those without which the gang does not run, but for the first letter.
func (r Roll) ranks() string {
	var size, least int32
	for _, e := range r {
		size, least = size+e.Seen.Size, least+e.Least
	}
	if least < size {
		return fmt.Sprintf("t least %d ranks are", least)
	}
	return fmt.Sprintf("ll %d ranks are", size)
}

func list(members []Member) string {
	var out []string
	for _, m := range members {
		pods := "pods"
		if m.Size == 1 {
			pods = "pod"
		}
		out = append(out, fmt.Sprintf("%s (role %s, %d %s)", m.Workload, m.Role, m.Size, pods))
	}
	return strings.Join(out, " and ")
}

// End notes that a StatefulSet is done, which its own status never says: each of its
// ranks has ended well, or the first, where that counts. It is found in the pods, for as
// long as they are there. trains names the training containers, for [Done].
func (r Roll) End(workload string, pods []corev1.Pod, trains []string, told Status) {
	i := slices.IndexFunc(r, func(e Entry) bool { return e.Workload == workload || len(r) == 1 })
	if i < 0 || !r[i].Seen.Set || r[i].Seen.Size == 0 || told.Phase == Restarting {
		return
	}
	done := map[int32]bool{}
	for j := range pods {
		if pods[j].DeletionTimestamp == nil && Done(&pods[j], trains) {
			done[IndexOf(&pods[j])] = true
		}
	}
	r[i].Seen.Complete = int32(len(done)) >= r[i].Seen.Size || r[i].First && done[0]
}
