package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

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
