package gang

import (
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/progress"
)

// StallAction is the reaction to a rank without progress.
type StallAction string

// The actions.
const (
	// StallReport reports the rank, and does not change it. It is the default.
	StallReport StallAction = "report"
	// StallRestart terminates the rank, which is a failure of the gang.
	StallRestart StallAction = "restart"
)

const (
	// DefaultStallTimeout is the default of [AnnotationStallTimeout]: longer than most evaluations and checkpoints.
	DefaultStallTimeout = 30 * time.Minute
	// minStallTimeout is several times the shortest period of the probe.
	minStallTimeout = 10 * time.Second
	// maxProbePeriod is the longest time between two probes. Shorter timeouts have shorter periods.
	maxProbePeriod = 30 * time.Second
)

// StallRules determine how Rollcall finds ranks without progress. The zero value finds none.
type StallRules struct {
	// File is the file that the program writes while it makes progress; empty if no probe checks the ranks. It can contain
	// [RankReference].
	File string
	// Timeout is how long a rank may leave the file unwritten, or print no line that matches the pattern.
	Timeout time.Duration
	// Pattern matches the lines that rank 0 prints while it makes progress; nil if its log shows nothing.
	Pattern *progress.Pattern
	// Action is the reaction.
	Action StallAction
	// AgentImage is the image with the program of the probe.
	AgentImage AgentImage
}

// RankReference is the text that stands for the rank in the path of a progress file.
const RankReference = "$(ROLLCALL_RANK)"

// progressProgram and progressPart are the program of the probe and its part.
const (
	progressProgram = "/opt/rollcall/agent"
	progressPart    = "progress"
)

// ProbePeriod returns the time between two probes, in whole seconds.
func (s StallRules) ProbePeriod() time.Duration {
	return min(max(s.Timeout/10, time.Second), maxProbePeriod).Truncate(time.Second)
}

// ProbeCommand returns the command of the probe. The program aborts a rank exactly one period after the timeout. Each
// rank is probed in this period, so all ranks that stall together print their stacks together.
func (s StallRules) ProbeCommand() []string {
	command := []string{progressProgram, progressPart, s.File, s.Timeout.String()}
	if s.Action == StallRestart {
		command = append(command, s.ProbePeriod().String())
	}
	return command
}

// DescribeStall returns what a readiness probe of Rollcall finds in a container that is not ready. It returns an empty
// string for any other probe.
func DescribeStall(probe *corev1.Probe) string {
	if probe == nil || probe.Exec == nil || len(probe.Exec.Command) != 4 || probe.Exec.Command[0] != progressProgram {
		return ""
	}
	return fmt.Sprintf("%s: did not write %s for %s", ReasonStalled, probe.Exec.Command[2], probe.Exec.Command[3])
}

// parseStallRules parses the annotations about progress.
func (p *parser) parseStallRules(g Gang, cfg Config) StallRules {
	file, hasFile := p.meta.Annotations[AnnotationProgressFile]
	_, hasPattern := p.meta.Annotations[AnnotationProgressPattern]
	rules := StallRules{
		File: file, Timeout: p.parseDuration(AnnotationStallTimeout, minStallTimeout, DefaultStallTimeout),
		Pattern: p.parseProgressPattern(g, cfg),
		Action:  StallAction(p.parseEnum(AnnotationStallAction, string(StallReport), string(StallRestart))),
	}
	if !hasFile && !hasPattern {
		for _, key := range []string{AnnotationStallTimeout, AnnotationStallAction} {
			if _, ok := p.meta.Annotations[key]; ok {
				p.addWarning(annotationsPath.Key(key),
					"has no effect without "+AnnotationProgressFile+" or "+AnnotationProgressPattern)
			}
		}
		return StallRules{}
	}
	isFile := path.IsAbs(file) && path.Clean(file) == file && file != "/" && !strings.ContainsAny(file, "\r\n") &&
		!strings.Contains(strings.ReplaceAll(file, RankReference, ""), "$(")
	if hasFile && !isFile {
		p.addInvalid(annotationsPath.Key(AnnotationProgressFile), file, "must be the absolute path of a file, such as "+
			"/checkpoints/latest; the only variable is "+RankReference)
	}
	restartsByPattern := !hasFile && rules.Pattern != nil && rules.Action == StallRestart
	if restartsByPattern && g.RestartRules.RestartPolicy == RestartPolicyPod {
		p.addWarning(annotationsPath.Key(AnnotationStallAction),
			"has no effect with "+AnnotationRestartPolicy+": pod, so a stall is only reported")
	}
	rules.AgentImage = cfg.agentImage()
	return rules
}

// parseProgressPattern parses the pattern of the log of rank 0; nil without a pattern that has an effect.
func (p *parser) parseProgressPattern(g Gang, cfg Config) *progress.Pattern {
	text, ok := p.meta.Annotations[AnnotationProgressPattern]
	if !ok {
		return nil
	}
	path := annotationsPath.Key(AnnotationProgressPattern)
	pattern, err := progress.Compile(text)
	_, hasFile := p.meta.Annotations[AnnotationProgressFile]
	switch {
	case err != nil:
		p.addInvalid(path, text, fmt.Sprintf(`must be a regular expression of RE2, such as step (?P<step>\d+): %s`, err))
	case g.RankOffset > 0:
		p.addWarning(path, "has no effect, because only the log of rank 0 is read; set it on the workload "+
			g.Members[0].WorkloadName)
		return nil
	case cfg.OmitLogs && !hasFile:
		p.addWarning(path, "shows steps in rollcall status, but Rollcall does not read logs in this cluster, so it finds no "+
			"hang; an administrator can set the value permissions.readLogs of the chart, or set "+AnnotationProgressFile)
	}
	return pattern
}
