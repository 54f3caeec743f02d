package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
)

const (
	// progressLines is the number of lines at the end of a log that are read, and progressBytes the maximum size of them.
	// The kubelet omits the last lines beyond that size, so it is larger than what is searched.
	progressLines = 500
	progressBytes = 8 * progress.MaxLogBytes
	// progressTimeout is how long a log is read. A node that does not respond must not delay the rest of the status.
	progressTimeout = 5 * time.Second
)

// progressLog is the log that shows the progress of a gang.
type progressLog struct {
	pattern        *progress.Pattern
	pod, container string
}

// findProgressLog returns the log that shows the progress of a gang; false if the gang has no pattern, and if rank 0
// does not run.
func (g *Gang) findProgressLog() (progressLog, bool) {
	if len(g.Ranks) == 0 || g.Ranks[0].Rank != 0 || g.Ranks[0].Object == nil || g.Phase.Terminal() {
		return progressLog{}, false
	}
	for _, m := range g.Members {
		if m.Offset == 0 && m.pattern != nil && lifecycle.IsContainerRunning(g.Ranks[0].Object, m.Containers[0]) {
			return progressLog{pattern: m.pattern, pod: g.Ranks[0].Pod, container: m.Containers[0]}, true
		}
	}
	return progressLog{}, false
}

// addProgress sets the progress of a gang with a pattern from the end of the log of rank 0. It sets nothing if the log
// does not show the progress.
func (r Reader) addProgress(ctx context.Context, g *Gang) {
	source, ok := g.findProgressLog()
	if !ok {
		return
	}
	log, err := r.readLogEnd(ctx, g.Namespace, source.pod, corev1.PodLogOptions{
		Container: source.container, Timestamps: true, TailLines: ptr.To[int64](progressLines),
	})
	if apierrors.IsForbidden(err) {
		g.Warnings = append(g.Warnings, "The progress is not shown: you are not allowed to read logs in this namespace")
	}
	if p := source.pattern.Read(log, time.Time{}); err == nil && p.Matches > 0 {
		g.Progress = &p
	}
}

// readLogEnd returns the last lines of a log.
func (r Reader) readLogEnd(ctx context.Context, namespace, pod string, o corev1.PodLogOptions) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	o.LimitBytes = ptr.To[int64](progressBytes)
	log, err := r.Client.CoreV1().Pods(namespace).GetLogs(pod, &o).DoRaw(ctx)
	return string(log), err
}

// formatProgress returns the progress of a gang, such as "Step 1200 of 5000, 34m left (printed 5s ago)".
func (o PrintOptions) formatProgress(p progress.Progress) string {
	text, unit := "Progress", "line"
	formatStep := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	if p.Step != nil {
		text, unit = "Step "+formatStep(*p.Step), "step"
	}
	if p.Step != nil && p.Total != nil {
		text += " of " + formatStep(*p.Total)
	}
	switch {
	case p.RemainingSeconds != nil:
		text += ", " + duration.HumanDuration(time.Duration(*p.RemainingSeconds)*time.Second) + " left"
	case p.Rate >= 1:
		text += fmt.Sprintf(", %s %ss per second", formatNumber(p.Rate), unit)
	case p.Rate > 0:
		text += fmt.Sprintf(", one %s in %ss", unit, formatNumber(1/p.Rate))
	}
	return fmt.Sprintf("%s (printed %s ago)", text, o.formatAge(p.LastTime))
}

// tailLines is the number of lines of a log that a live view shows.
const tailLines = 10

// LogTail is the end of the log of a rank.
type LogTail struct {
	Rank int32
	// Lines are the last lines, without control characters and blank lines.
	Lines []string
}

// addLogTail sets the end of the log of [Reader.LogRank], from its first training container. It sets no lines if the
// log cannot be read now.
func (r Reader) addLogTail(ctx context.Context, g *Gang) {
	if r.LogRank == nil {
		return
	}
	i := slices.IndexFunc(g.Ranks, func(rank Rank) bool { return rank.Rank == *r.LogRank })
	if i < 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("The gang has no rank %d", *r.LogRank))
		return
	}
	g.LogTail = &LogTail{Rank: *r.LogRank}
	containers := g.TrainingContainers(g.Ranks[i])
	if g.Ranks[i].Object == nil || len(containers) == 0 {
		return
	}
	text, err := r.readLogEnd(ctx, g.Namespace, g.Ranks[i].Pod, corev1.PodLogOptions{
		Container: containers[0], TailLines: ptr.To[int64](tailLines),
	})
	if apierrors.IsForbidden(err) {
		g.LogTail = nil
		g.Warnings = append(g.Warnings, fmt.Sprintf(
			"The log of rank %d is not shown: you are not allowed to read logs in this namespace", *r.LogRank))
	}
	if err == nil {
		lines := splitLines(text)
		g.LogTail.Lines = lines[max(0, len(lines)-tailLines):] // a progress bar has many lines in one
	}
}

func printLogTail(out io.Writer, o PrintOptions, tail *LogTail) {
	if tail == nil {
		return
	}
	if len(tail.Lines) == 0 {
		fmt.Fprintf(out, "\nLog of rank %d: empty\n", tail.Rank)
		return
	}
	fmt.Fprintf(out, "\nLog of rank %d\n", tail.Rank)
	for _, line := range tail.Lines {
		fmt.Fprintln(out, o.truncateLine("  "+line))
	}
}
