package gang

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Reasons of a fall that are none of the kubelet's.
const (
	// FallDeleted: somebody or something took the pod away.
	FallDeleted = "Deleted"
	// FallUnseen: the workload counts a pod that failed, and that is gone by now.
	FallUnseen = "Unseen"
	// FallLate: the gang was not whole in time.
	FallLate = "StartTimeout"
)

// Fall is the first cause for which a gang cannot go on: one rank's end.
type Fall struct {
	// Rank is the rank in the gang, -1 when no one rank is to blame.
	Rank int32 `json:"rank"`
	// Pod and Node are where it ran.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Container is the one that ended; empty when the pod was taken away.
	Container string `json:"container,omitempty"`
	// Helper is true when that container does not train: a sidecar, or an init container.
	Helper bool `json:"helper,omitempty"`
	// ExitCode is the container's; 0 when none ended.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Reason is the kubelet's or the control plane's word, such as Error, OOMKilled,
	// Evicted, EvictionByEvictionAPI, or one of those above.
	Reason string `json:"reason"`
	// Peer is true when its container's last words tell that it lost another rank.
	Peer bool `json:"peer,omitempty"`
	// Told is true when it may have ended since it was told to, or since another was: within
	// the second in which its gang was stopped, or later.
	Told bool `json:"told,omitempty"`
	// Message is the end of the container's termination message or log.
	Message string `json:"message,omitempty"`
	// At is when it ended, to the second.
	At time.Time `json:"at"`
	// Noticed is when its launcher noticed that the training had ended, to the millisecond;
	// zero when there is none that tells.
	Noticed time.Time `json:"noticed,omitzero"`
}

// String says the cause in a sentence.
func (f Fall) String() string {
	var out strings.Builder
	if f.Rank >= 0 {
		fmt.Fprintf(&out, "rank %d (pod %s", f.Rank, f.Pod)
		if f.Node != "" {
			fmt.Fprintf(&out, " on node %s", f.Node)
		}
		out.WriteString("): ")
	}
	out.WriteString(f.Reason)
	if f.Container != "" {
		fmt.Fprintf(&out, ", container %s ended with exit code %d", f.Container, f.ExitCode)
	}
	if f.Message != "" {
		fmt.Fprintf(&out, ": %s", f.Message)
	}
	return out.String()
}

// lead is how much earlier than it is dated a fall counts that befell a rank from
// outside, and how much later one that may be the work of another: times are kept to the
// second and come from different clocks, peers that lose a rank fail within the same second,
// or the next, and a program may take longer to end than its peers do to miss it.
const lead = time.Second

// outside reports whether the fall was none of the program's doing: no peer's failure
// can be its cause, while it can be theirs.
func (f *Fall) outside() bool {
	return f.Container == "" && f.Rank >= 0 || f.Reason == reasonOOM
}

// reasonOOM is the kubelet's word for a container that was killed for its memory.
const reasonOOM = "OOMKilled"

// Codes of containers that a signal ended: 128 and its number.
const (
	codeInterrupted = 128 + 2
	codeAborted     = 128 + 6
	codeTerminated  = 128 + 15
)

// toldTo reports whether the code is that of a signal by which a container is asked to end.
func (f *Fall) toldTo() bool { return f.ExitCode == codeInterrupted || f.ExitCode == codeTerminated }

// killed reports whether a signal ended the container from which peers of a rank do not end:
// they are asked to, or abort by themselves, as those of NCCL and JAX do.
func (f *Fall) killed() bool { return f.ExitCode > 128 && f.ExitCode != codeAborted && !f.toldTo() }

// telling reports whether the program ended with a code of its own choice: 1 is the code of
// all that nobody foresaw in Python and most other languages, which is how peers fail.
func (f *Fall) telling() bool { return f.ExitCode > 1 && f.ExitCode < 128 }

// order compares falls by which of them led to the others: the earlier, by [lead] and
// class. Kubernetes keeps times to the second, and most peers of a rank fall within the same
// one. It is a total order, so the first of many does not depend on the order in which they
// were reported.
func (f *Fall) order(o *Fall) int {
	return cmp.Or(f.when().Compare(o.when()), cmp.Compare(f.class(), o.class()), f.noticed().Compare(o.noticed()),
		cmp.Compare(f.Rank, o.Rank), cmp.Compare(f.Pod, o.Pod), cmp.Compare(f.Container, o.Container))
}

// noticed is when the fall was noticed, as far as is known: within its second.
func (f *Fall) noticed() time.Time {
	if f.Noticed.IsZero() {
		return f.At.Add(time.Second)
	}
	return f.Noticed
}

// when is the time that counts, to the second.
func (f *Fall) when() time.Time {
	switch {
	case f.outside():
		return f.At.Add(-lead)
	case f.Peer || f.Told:
		return f.At.Add(lead)
	}
	return f.At
}

// class orders falls of one time: the likelier a fall led to the others, the lower.
func (f *Fall) class() int {
	switch {
	case f.outside():
		return 0
	case f.Rank < 0: // nobody's: a rank that is known says more, unless it speaks of another
		return 4
	case f.Peer:
		return 6
	case f.Told:
		return 5
	case f.killed():
		return 1
	case f.telling():
		return 2
	default:
		return 3
	}
}

// Same reports whether two falls, of which either may be nil, are one.
func (f *Fall) Same(o *Fall) bool {
	if f == nil || o == nil {
		return f == o
	}
	return f.Rank == o.Rank && f.Pod == o.Pod && f.Container == o.Container && f.Reason == o.Reason && f.At.Equal(o.At)
}

// Earlier returns of two falls the one that led to the other, of which either may be
// nil: the earlier. Of two within about a second it is the one that befell its rank from
// outside, as a pod that was evicted or a container that was killed for its memory, and not
// one that says that it lost another rank.
func Earlier(a, b *Fall) *Fall {
	switch {
	case a == nil:
		return b
	case b == nil || a.order(b) <= 0:
		return a
	default:
		return b
	}
}
