package gang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// RestartPolicy is the reaction to a failed rank.
type RestartPolicy string

// The restart policies.
const (
	// RestartPolicyGang restarts all ranks together. It is the default, because ranks that lost a
	// peer cannot continue.
	RestartPolicyGang RestartPolicy = "gang"
	// RestartPolicyPod leaves restarts to the controller of the workload, pod by pod.
	RestartPolicyPod RestartPolicy = "pod"
	// RestartPolicyNever fails the gang.
	RestartPolicyNever RestartPolicy = "never"
)

// CleanPodPolicy determines which pods are deleted after the gang finishes.
type CleanPodPolicy string

// The clean-up policies.
const (
	// CleanPodPolicyRunning deletes the running pods. Terminated pods stay, with their logs.
	CleanPodPolicyRunning CleanPodPolicy = "running"
	// CleanPodPolicyAll deletes all pods.
	CleanPodPolicyAll CleanPodPolicy = "all"
	// CleanPodPolicyNone deletes no pods.
	CleanPodPolicyNone CleanPodPolicy = "none"
)

// Success policies. The name of a role is also a success policy.
const (
	// SuccessPolicyAll requires all ranks to succeed.
	SuccessPolicyAll = "all"
	// SuccessPolicyRank0 requires only rank 0 to succeed.
	SuccessPolicyRank0 = "rank0"
)

// DefaultMaxRestarts is the default of [AnnotationMaxRestarts].
const DefaultMaxRestarts = 3

// UnlimitedDisruptions is the value of [RestartRules.MaxDisruptions] of a gang that restarts after any number
// of disruptions.
const UnlimitedDisruptions = -1

// RestartRules determine how a gang restarts and finishes.
type RestartRules struct {
	// RestartPolicy is the reaction to a failed rank.
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
	// MaxRestarts is the maximum number of restarts; with 0 the first failure fails the gang.
	MaxRestarts int32 `json:"maxRestarts,omitempty"`
	// MaxDisruptions is the maximum number of restarts after disruptions, which are not part of
	// MaxRestarts; with 0 the first disruption fails the gang. See also [UnlimitedDisruptions].
	MaxDisruptions int32 `json:"maxDisruptions,omitempty"`
	// NonRetriableExitCodes are exit codes of the first failure after which the gang fails.
	NonRetriableExitCodes ExitCodes `json:"nonRetriableExitCodes,omitempty"`
	// SuccessPolicy is the name of a role, [SuccessPolicyAll] or [SuccessPolicyRank0]; empty means the
	// default of the framework.
	SuccessPolicy string `json:"successPolicy,omitempty"`
	// CleanPodPolicy determines which pods are deleted after the gang finishes.
	CleanPodPolicy CleanPodPolicy `json:"cleanPodPolicy,omitempty"`
	// StartTimeout is the maximum time until all ranks are ready; 0 means no limit.
	StartTimeout time.Duration `json:"startTimeout,omitempty"`
	// ScheduleTimeout is the maximum time for which some ranks have nodes while others wait; 0 means no limit.
	ScheduleTimeout time.Duration `json:"scheduleTimeout,omitempty"`
	// RestartOnNodeLoss is true if the gang restarts without waiting for the pods of a lost node.
	RestartOnNodeLoss bool `json:"restartOnNodeLoss,omitempty"`
	// AvoidNodes is true if a restart excludes the nodes on which ranks failed.
	AvoidNodes bool `json:"avoidNodes,omitempty"`
	// Preflight is the init container that checks the node of each rank; empty if there is none.
	Preflight string `json:"preflight,omitempty"`
	// FailureOutput is true if the status may contain the output of a failed program.
	FailureOutput bool `json:"failureOutput,omitempty"`
}

const (
	// failuresPerAttempt is how often a rank may fail in each attempt, before its Job fails.
	failuresPerAttempt = 4
	// maxCountedDisruptions is how often in a row a rank may be disrupted before its Job fails, if the
	// disruptions of the gang are unlimited.
	maxCountedDisruptions = 100
)

// JobFailureLimit returns how often in a row a rank may fail before the Job fails by itself. While a
// manager runs, each failure of a rank costs the gang an attempt, so the gang fails first. While no
// manager runs, the Job replaces a failed pod without the others. A manager that starts again
// counts all of these failures as one, so the limit is a multiple of the attempts. A Job also counts
// disrupted pods as failed, except the first of each incident, which Rollcall untracks
// (docs/adr/0006-restart-limits.md).
func (p RestartRules) JobFailureLimit() int32 {
	disruptions := p.MaxDisruptions
	if disruptions < 0 {
		disruptions = maxCountedDisruptions
	}
	return failuresPerAttempt*(p.MaxRestarts+1) + disruptions
}

// parseRestartRules parses the annotations for the lifecycle of the gang.
func (p *parser) parseRestartRules(g Gang, cfg Config) RestartRules {
	policies := RestartRules{
		RestartPolicy:         p.parseRestartPolicy(g.Elastic != nil),
		MaxRestarts:           p.parseMaxRestarts(),
		MaxDisruptions:        p.parseMaxDisruptions(),
		NonRetriableExitCodes: p.parseNonRetriableExitCodes(),
		SuccessPolicy:         p.parseSuccessPolicy(g),
		CleanPodPolicy: CleanPodPolicy(p.parseEnum(AnnotationCleanPodPolicy,
			string(CleanPodPolicyRunning), string(CleanPodPolicyAll), string(CleanPodPolicyNone))),
		StartTimeout:      p.parseDuration(AnnotationStartTimeout, time.Second, 0),
		ScheduleTimeout:   p.parseDuration(AnnotationScheduleTimeout, time.Second, 0),
		RestartOnNodeLoss: p.parseEnum(AnnotationRestartOnNodeLoss, "true", "false") == "true",
		AvoidNodes:        p.parseEnum(AnnotationAvoidNodes, "off", "auto") == "auto",
		Preflight:         p.parsePreflight(),
		FailureOutput:     p.parseEnum(AnnotationFailureOutput, "true", "false") == "true" && !cfg.OmitFailureOutput,
	}
	if policies.AvoidNodes && p.workload.StatefulSet != nil {
		p.addWarning(annotationsPath.Key(AnnotationAvoidNodes),
			"has no effect: a changed pod template would start a rollout of the StatefulSet; use a Job")
	}
	if policies.RestartPolicy == RestartPolicyPod {
		for _, key := range []string{
			AnnotationMaxRestarts, AnnotationMaxDisruptions, AnnotationNonRetriableExitCodes, AnnotationStartTimeout,
			AnnotationScheduleTimeout, AnnotationAvoidNodes, AnnotationPreflight,
		} {
			if _, ok := p.meta.Annotations[key]; ok {
				p.addWarning(annotationsPath.Key(key),
					"has no effect: the workload controller restarts pods individually; set "+
						AnnotationRestartPolicy+" to gang or never")
			}
		}
	}
	// Kueue rejects a copy whose containers admission of the other cluster changes.
	if p.workload.IsManagedExternally() && !p.workload.IsCopiedByKueue() {
		policies.RestartPolicy, policies.CleanPodPolicy = RestartPolicyPod, CleanPodPolicyNone
	}
	return policies
}

// parseEnum parses an annotation with a fixed set of values. The first value is the default.
func (p *parser) parseEnum(key string, values ...string) string {
	text, ok := p.meta.Annotations[key]
	switch {
	case !ok:
		return values[0]
	case !slices.Contains(values, text):
		p.addUnsupported(annotationsPath.Key(key), text, values)
		return values[0]
	}
	return text
}

// parseRestartPolicy parses the annotation. Two kinds of workloads have another default than "gang":
// an elastic gang keeps training without the failed rank, until the framework admits its
// replacement. And a user who sets backoffLimit: 0, which is never the API server's default, does
// not want restarts.
func (p *parser) parseRestartPolicy(elastic bool) RestartPolicy {
	if _, ok := p.meta.Annotations[AnnotationRestartPolicy]; !ok {
		switch job := p.workload.Job; {
		case elastic:
			return RestartPolicyPod
		case job != nil && ptr.Deref(job.Spec.BackoffLimit, 1) == 0:
			return RestartPolicyNever
		}
	}
	return RestartPolicy(p.parseEnum(AnnotationRestartPolicy,
		string(RestartPolicyGang), string(RestartPolicyPod), string(RestartPolicyNever)))
}

func (p *parser) parseMaxRestarts() int32 {
	return int32(p.parseInt(AnnotationMaxRestarts, 0, MaxRestarts, int64(p.defaultMaxRestarts()),
		"; 0 means that the first failure fails the gang"))
}

// unlimited is the value of [AnnotationMaxDisruptions] that sets no limit.
const unlimited = "unlimited"

func (p *parser) parseMaxDisruptions() int32 {
	if p.meta.Annotations[AnnotationMaxDisruptions] == unlimited {
		return UnlimitedDisruptions
	}
	return int32(p.parseInt(AnnotationMaxDisruptions, 0, MaxRestarts, UnlimitedDisruptions,
		", or "+unlimited+"; 0 means that the first disruption fails the gang"))
}

// defaultMaxRestarts returns the Job's backoffLimit if the user has set it. The limit counts failed
// pods, and in a gang a failed pod causes a restart.
func (p *parser) defaultMaxRestarts() int32 {
	if job := p.workload.Job; job != nil && !IsDefaultBackoffLimit(job.Spec.BackoffLimit) {
		return min(max(*job.Spec.BackoffLimit, 0), MaxRestarts)
	}
	return DefaultMaxRestarts
}

// Defaults of a Job's backoffLimit (kubernetes pkg/apis/batch/v1/defaults.go).
const (
	defaultBackoffLimit int32 = 6
	// UnlimitedBackoffLimit is the backoffLimit of a Job that does not fail because of failed pods. It
	// is the default of the API server for a Job with backoffLimitPerIndex.
	UnlimitedBackoffLimit int32 = math.MaxInt32
)

// IsDefaultBackoffLimit reports whether a Job's backoffLimit is absent or can be a default of the API
// server: 6 or [UnlimitedBackoffLimit]. After defaulting, a value of the user cannot be distinguished.
func IsDefaultBackoffLimit(limit *int32) bool {
	return limit == nil || *limit == defaultBackoffLimit || *limit == UnlimitedBackoffLimit
}

// parseSuccessPolicy parses the annotation. It returns an empty string without a valid value.
func (p *parser) parseSuccessPolicy(g Gang) string {
	text, ok := p.meta.Annotations[AnnotationSuccessPolicy]
	if !ok || text == SuccessPolicyAll || text == SuccessPolicyRank0 || len(g.Members) == 0 {
		return text
	}
	allowed := []string{SuccessPolicyAll, SuccessPolicyRank0}
	for _, m := range g.Members {
		if m.Role == text {
			return text
		}
		allowed = append(allowed, m.Role)
	}
	p.addUnsupported(annotationsPath.Key(AnnotationSuccessPolicy), text, allowed)
	return ""
}

// parseDuration parses an annotation with a duration.
func (p *parser) parseDuration(key string, minimum, fallback time.Duration) time.Duration {
	text, ok := p.meta.Annotations[key]
	if !ok {
		return fallback
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < minimum {
		detail := fmt.Sprintf("must be a duration of at least %s, such as 30m or 2h", minimum)
		if isNumber := text != "" && strings.Trim(text, "0123456789") == ""; isNumber {
			detail += fmt.Sprintf("; for seconds, set %ss", text)
		}
		p.addInvalid(annotationsPath.Key(key), text, detail)
		return fallback
	}
	return duration
}

// CompletesWithFirstPod reports whether the success of a member's first pod is the success of the
// gang, regardless of the member's other pods.
func (g Gang) CompletesWithFirstPod(m Member) bool {
	switch g.RestartRules.SuccessPolicy {
	case SuccessPolicyRank0:
		return m.Role == g.Members[0].Role
	case "":
		return m.Role == g.Framework.FirstPodCompletionRole && !g.hasCompletionRole()
	default:
		return false
	}
}

// DeterminesCompletion reports whether the gang finishes when a member finishes. The success policy of the user
// overrides the framework.
func (g Gang) DeterminesCompletion(m Member) bool {
	switch g.RestartRules.SuccessPolicy {
	case "":
		role, _ := g.Framework.FindRole(m.Role)
		return role.DeterminesCompletion || g.CompletesWithFirstPod(m)
	case SuccessPolicyAll:
		return false
	case SuccessPolicyRank0:
		return m.Role == g.Members[0].Role
	default:
		return m.Role == g.RestartRules.SuccessPolicy
	}
}

// EndsWithout reports whether the gang finishes regardless of a member: because other members determine completion, or
// because the member serves the others and never terminates on its own.
func (g Gang) EndsWithout(m Member) bool {
	if slices.ContainsFunc(g.Members, g.DeterminesCompletion) {
		return !g.DeterminesCompletion(m)
	}
	isLongRunning := func(m Member) bool {
		role, _ := g.Framework.FindRole(m.Role)
		return role.LongRunning
	}
	return isLongRunning(m) && slices.ContainsFunc(g.Members, func(o Member) bool { return !isLongRunning(o) })
}

// hasCompletionRole reports whether a member's role determines completion.
func (g Gang) hasCompletionRole() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool {
		role, _ := g.Framework.FindRole(m.Role)
		return role.DeterminesCompletion
	})
}
