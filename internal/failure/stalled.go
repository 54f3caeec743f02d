package failure

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// ReasonStalled means that the program of the rank made no progress, so that Rollcall terminated it. The rank is -1 if
// the log of rank 0 showed that, because any rank can be the cause.
const ReasonStalled = string(gang.ReasonStalled)

// stallReport matches what the probe of a stalled rank adds to the termination message (internal/agent/progress.go).
// The groups are the file, when it was written last, and when the probe found the stall.
var stallReport = regexp.MustCompile(`(?m)^rollcall: stalled: (.+) was not written since (\S+), found at (\S+)$`)

// maxStallAge is the longest time between the report of a stall and the exit of the container. It is longer than the
// default grace period of pods.
const maxStallAge = 10 * time.Minute

// stall is the report of a stall.
type stall struct {
	file string
	// lastWriteTime is when the file was written last, and foundTime when the probe found the stall.
	lastWriteTime, foundTime time.Time
}

// parseStallReport returns the report of a stall in the termination message of a container that exited at a time; nil
// if there is none, or if it is from another program.
func parseStallReport(text string, exitTime time.Time) *stall {
	if !strings.Contains(text, "rollcall: stalled: ") { // is much faster
		return nil
	}
	reports := stallReport.FindAllStringSubmatch(text, -1)
	if len(reports) == 0 {
		return nil
	}
	groups := reports[len(reports)-1] // the rank may have made progress after an earlier report
	last, lastErr := time.Parse(time.RFC3339, groups[2])
	found, foundErr := time.Parse(time.RFC3339, groups[3])
	if lastErr != nil || foundErr != nil || found.After(exitTime.Add(time.Second)) || exitTime.Sub(found) > maxStallAge {
		return nil
	}
	return &stall{file: groups[1], lastWriteTime: last, foundTime: found}
}

// markStalled sets the reason, the times, the position and the message of a failure whose termination message contains
// the report of a stall.
func (f *Failure) markStalled(text string) {
	s := parseStallReport(text, f.Time)
	if s == nil {
		return
	}
	f.Reason, f.Time, f.DetectedTime = ReasonStalled, s.foundTime.Truncate(time.Second), s.lastWriteTime
	f.LostPeer, f.MaybeTerminated = false, false
	stack := findStack(text)
	f.Position = describePosition(stack)
	age := s.foundTime.Sub(s.lastWriteTime).Truncate(time.Second)
	f.Message = TruncateMessage("did not write " + s.file + " for " + age.String())
	if len(stack) > 0 {
		f.Message = TruncateMessage(f.Message + ", and was in\n" + strings.Join(stack[:min(len(stack), maxFrames)], "\n"))
	}
}

// silentStall returns the failure of a training container that runs again after it exited with code 0; nil if none
// does. The program handled SIGTERM after its probe had failed, and the kubelet does not read the log of a container
// that exits with code 0. It restarts such a container of a Job only because of a probe.
func (c Context) silentStall(pod *corev1.Pod) *Failure {
	for _, s := range pod.Status.ContainerStatuses {
		isTraining, last := IsTrainingContainer(s.Name, c.TrainingContainers), s.LastTerminationState.Terminated
		if c.TerminatesStalled && isTraining && last != nil && last.ExitCode == 0 &&
			parseStallReport(last.Message, last.FinishedAt.Time) == nil {
			return &Failure{
				Container: s.Name, Reason: ReasonStalled, Time: last.FinishedAt.Time,
				Message: "was terminated by its probe, and handled SIGTERM; its log has the stack",
			}
		}
	}
	return nil
}

// maxFrames is the number of innermost frames in a message.
const maxFrames = 4

// findStack returns the frames of the main thread, which faulthandler of Python prints last, from the innermost. It
// returns nil without a stack. The beginning of a long message is missing.
func findStack(text string) []string {
	if i := strings.LastIndex(text, "(most recent call first):\n"); i >= 0 {
		_, text, _ = strings.Cut(text[i:], "\n")
	}
	var frames []string
	for line := range strings.Lines(text) {
		isFrame := strings.HasPrefix(line, `  File "`)
		if !isFrame && len(frames) > 0 {
			break
		}
		if isFrame {
			frames = append(frames, strings.TrimSpace(line))
		}
	}
	return frames
}

// libraryPath matches frames of packages and of Python itself.
var libraryPath = regexp.MustCompile(`/(site|dist)-packages/|/lib/python3`)

// describePosition returns where a rank was: the innermost frame, and the innermost frame of the program if it is
// another. Ranks that wait for each other have the same position. It is empty without a stack.
func describePosition(stack []string) string {
	if len(stack) == 0 {
		return ""
	}
	isOfProgram := func(frame string) bool { return !libraryPath.MatchString(frame) }
	if i := slices.IndexFunc(stack, isOfProgram); i > 0 {
		return stack[0] + ", " + stack[i]
	}
	return stack[0]
}

// selectStalled returns the stalled rank for which the others wait; nil if no rank is stalled. All ranks of a gang
// stall if one does. The rank that is at another position than most is the cause. If that is not known, the rank that
// wrote its file first is.
func selectStalled(failures []*Failure) *Failure {
	stalled := slices.DeleteFunc(slices.Clone(failures), func(f *Failure) bool { return f.Reason != ReasonStalled })
	if len(stalled) == 0 {
		return nil
	}
	count := map[string]int{}
	most := 0
	for _, f := range stalled {
		if f.Position != "" {
			count[f.Position]++
			most = max(most, count[f.Position])
		}
	}
	// countPeers returns how many ranks share the position. A rank whose position is unknown may wait for others.
	countPeers := func(f *Failure) int {
		if f.Position == "" {
			return most
		}
		return count[f.Position]
	}
	first := *slices.MinFunc(stalled, func(a, b *Failure) int {
		return cmp.Or(
			cmp.Compare(countPeers(a), countPeers(b)), a.DetectedTime.Compare(b.DetectedTime), cmp.Compare(a.Rank, b.Rank))
	})
	for _, f := range stalled {
		if f.Time.Before(first.Time) {
			first.Time = f.Time
		}
	}
	first.StalledRanks = int32(len(stalled))
	return &first
}
