package gang

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// RestartPolicy says what becomes of a gang when a rank fails.
type RestartPolicy string

// The restart policies.
const (
	// RestartGang starts all ranks anew, together. It is the default: ranks that met one
	// that is gone cannot go on without it.
	RestartGang RestartPolicy = "gang"
	// RestartPod leaves each rank to the rules of its workload.
	RestartPod RestartPolicy = "pod"
	// RestartNever ends the gang.
	RestartNever RestartPolicy = "never"
)

// CleanPods says which pods of an ended gang are taken away.
type CleanPods string

// The policies for the pods of an ended gang.
const (
	// CleanRunning takes away the pods that still run; those that ended keep their logs.
	CleanRunning CleanPods = "running"
	// CleanAll takes away all pods.
	CleanAll CleanPods = "all"
	// CleanNone leaves all as they are.
	CleanNone CleanPods = "none"
)

// Success policies beside the names of roles.
const (
	SuccessAll   = "all"
	SuccessRank0 = "rank0"
)

// DefaultMaxRestarts is how often a gang is restarted when its user names no number.
const DefaultMaxRestarts = 3

// maxMaxRestarts bounds that number: a gang that fell a thousand times falls always.
const maxMaxRestarts = 1000

// Lifecycle is what a user wants of a gang's life.
type Lifecycle struct {
	// Restart is what happens when a rank fails.
	Restart RestartPolicy
	// MaxRestarts is how often a gang is restarted; 0 means that its first failure ends it.
	MaxRestarts int32
	// Final are the exit codes after which it is not; of the rank that fell first.
	Final ExitCodes
	// Success names whose end is the gang's: a role, [SuccessAll] or [SuccessRank0];
	// empty leaves it to the framework.
	Success string
	// Clean says which pods of an ended gang are taken away.
	Clean CleanPods
	// StartTimeout bounds the time until all ranks are ready; 0 when nothing does.
	StartTimeout time.Duration
}

// lifecycle reads the annotations about the gang's life.
func (p *parser) lifecycle(g Gang) Lifecycle {
	l := Lifecycle{
		Restart:      p.restartPolicy(g.Elastic != nil),
		MaxRestarts:  p.maxRestarts(),
		Final:        p.finalExitCodes(),
		Success:      p.successPolicy(g),
		Clean:        CleanPods(p.oneOf(AnnotationCleanPods, string(CleanRunning), string(CleanAll), string(CleanNone))),
		StartTimeout: p.startTimeout(),
	}
	if l.Restart == RestartPod {
		for _, key := range []string{AnnotationMaxRestarts, AnnotationFinalCodes, AnnotationStartTimeout} {
			if _, ok := p.meta.Annotations[key]; ok {
				p.warn(annotationsPath.Key(key), "has no effect: each rank is left to the rules of its workload; set "+AnnotationRestartPolicy+" to gang or never")
			}
		}
	}
	if p.workload.Foreign() {
		l.Restart, l.Clean = RestartPod, CleanNone
	}
	return l
}

// oneOf reads an annotation that is one of some words, the first being the default.
func (p *parser) oneOf(key string, words ...string) string {
	v, ok := p.meta.Annotations[key]
	if !ok {
		return words[0]
	}
	for _, w := range words {
		if v == w {
			return v
		}
	}
	p.unsupported(annotationsPath.Key(key), v, words)
	return words[0]
}

// restartPolicy has two defaults beside the usual one. An elastic gang goes on without
// the rank that failed, and its framework takes the next one in. And whoever writes
// backoffLimit: 0, which the API server never does, wants no second try.
func (p *parser) restartPolicy(elastic bool) RestartPolicy {
	if _, named := p.meta.Annotations[AnnotationRestartPolicy]; !named {
		switch job := p.workload.Job; {
		case elastic:
			return RestartPod
		case job != nil && ptr.Deref(job.Spec.BackoffLimit, 1) == 0:
			return RestartNever
		}
	}
	return RestartPolicy(p.oneOf(AnnotationRestartPolicy, string(RestartGang), string(RestartPod), string(RestartNever)))
}

func (p *parser) maxRestarts() int32 {
	v, ok := p.meta.Annotations[AnnotationMaxRestarts]
	if !ok {
		return p.backoffLimit()
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 || n > maxMaxRestarts {
		p.invalid(annotationsPath.Key(AnnotationMaxRestarts), v, fmt.Sprintf(
			"must be a whole number from 0 to %d; 0 means that the first failure ends the gang", maxMaxRestarts))
		return DefaultMaxRestarts
	}
	return int32(n)
}

// backoffLimit is how often the user lets a Job's pods fail, which for a gang is how
// often it restarts.
func (p *parser) backoffLimit() int32 {
	if job := p.workload.Job; job != nil && !DefaultedBackoff(job.Spec.BackoffLimit) {
		return min(max(*job.Spec.BackoffLimit, 0), maxMaxRestarts)
	}
	return DefaultMaxRestarts
}

// NoLimit is the backoffLimit of a Job that is to end for no number of failed pods. The
// API server's default beside a backoffLimitPerIndex is the same.
const NoLimit int32 = math.MaxInt32

// DefaultedBackoff reports whether a Job's backoffLimit may be the API server's own
// (kubernetes pkg/apis/batch/v1/defaults.go), which cannot be told from a wish: absent,
// 6, or [NoLimit].
func DefaultedBackoff(limit *int32) bool {
	return limit == nil || *limit == 6 || *limit == NoLimit
}

// successPolicy reads whose end counts. rank0 is the first role's end where there are
// several, since that is where rank 0 is.
func (p *parser) successPolicy(g Gang) string {
	v, ok := p.meta.Annotations[AnnotationSuccessPolicy]
	if !ok || v == SuccessAll || v == SuccessRank0 || len(g.Members) == 0 {
		return v
	}
	allowed := []string{SuccessAll, SuccessRank0}
	for _, m := range g.Members {
		if m.Role == v {
			return v
		}
		allowed = append(allowed, m.Role)
	}
	p.unsupported(annotationsPath.Key(AnnotationSuccessPolicy), v, allowed)
	return ""
}

func (p *parser) startTimeout() time.Duration {
	v, ok := p.meta.Annotations[AnnotationStartTimeout]
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second {
		detail := "must be a duration of at least 1s, such as 30m or 2h"
		if strings.Trim(v, "0123456789") == "" && v != "" {
			detail += fmt.Sprintf("; for seconds write %ss", v)
		}
		p.invalid(annotationsPath.Key(AnnotationStartTimeout), v, detail)
		return 0
	}
	return d
}
