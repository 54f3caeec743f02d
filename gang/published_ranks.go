package gang

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PublishedRanks are the ranks whose addresses the headless Service of a gang publishes.
type PublishedRanks string

// The values of [AnnotationPublishedRanks].
const (
	// PublishAll publishes all ranks.
	PublishAll PublishedRanks = "all"
	// PublishRank0 publishes rank 0 only. The controllers of Kubernetes then write the addresses of one
	// pod instead of all (docs/adr/0010-connections.md).
	PublishRank0 PublishedRanks = "rank0"
)

// ServiceSelector returns the selector of the headless Service.
func (g Gang) ServiceSelector() map[string]string {
	selector := map[string]string{LabelGang: g.Name}
	if g.PublishedRanks == PublishRank0 {
		selector[g.IndexLabel] = "0"
	}
	return selector
}

// parsePublishedRanks parses the annotation. Without the annotation, the Service publishes only rank 0 if
// that is enough for the framework, and if the workload does not contain the name of another rank.
func (p *parser) parsePublishedRanks(g Gang) PublishedRanks {
	text, ok := p.meta.Annotations[AnnotationPublishedRanks]
	switch obstacle := findRank0Obstacle(g); {
	case ok && obstacle != "" && text == string(PublishRank0):
		p.addWarning(annotationsPath.Key(AnnotationPublishedRanks),
			fmt.Sprintf("has no effect: %s, so the Service publishes all ranks", obstacle))
		return PublishAll
	case ok:
		return PublishedRanks(p.parseEnum(AnnotationPublishedRanks, string(PublishAll), string(PublishRank0)))
	case obstacle != "" || containsPeerName(p.workload):
		return PublishAll
	default:
		return PublishRank0
	}
}

// findRank0Obstacle returns why the Service must publish all ranks of a gang; empty if rank 0 is enough.
//
// Kubernetes promises a name for each pod of a StatefulSet. In an elastic gang, torchrun can choose any
// pod as the first of its own ranks. Programs of several roles often address the other roles.
func findRank0Obstacle(g Gang) string {
	switch {
	case !g.Framework.NeedsOnlyRank0:
		return "the ranks of " + g.Framework.Name + " find each other by the names of all ranks"
	case g.Elastic != nil:
		return "any pod of an elastic gang can serve the others"
	case g.Kind != Job:
		return "the pods of a StatefulSet have DNS names"
	case len(g.Members) > 1:
		return "the roles of the gang find each other by name"
	default:
		return ""
	}
}

// peerNamePattern matches the hostname of a pod other than the first, or a hostname with a computed
// index, such as train-1.train or train-$i.train. The name of the workload replaces the word NAME.
const peerNamePattern = `(?:^|[^A-Za-z0-9._-])NAME-(?:[1-9][0-9]*(?:[^A-Za-z0-9_-]|$)|$|[$%{<\["'` + "`" + `])`

// containsPeerName reports whether a command or a variable of a workload contains the name of a pod other
// than the first. Text beyond [maxScannedBytes] is not searched.
func containsPeerName(w Workload) bool {
	prefix, budget := w.Meta().Name+"-", maxScannedBytes
	var pattern *regexp.Regexp
	contains := func(text string) bool {
		text = text[:min(len(text), budget)]
		budget -= len(text)
		if !strings.Contains(text, prefix) {
			return false
		}
		if pattern == nil {
			pattern = regexp.MustCompile(strings.Replace(peerNamePattern, "NAME", regexp.QuoteMeta(w.Meta().Name), 1))
		}
		return pattern.MatchString(text)
	}
	containerContains := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Command, contains) || slices.ContainsFunc(c.Args, contains) ||
			slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return contains(e.Value) })
	}
	spec := &w.Template().Spec
	return slices.ContainsFunc(spec.Containers, containerContains) ||
		slices.ContainsFunc(spec.InitContainers, containerContains)
}
