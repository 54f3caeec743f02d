package gang

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxOrderLabels is the maximum number of labels in [AnnotationRankOrder]. Networks have few levels, and the controller
// keeps one value of each label for each host.
const maxOrderLabels = 8

// maxOrderedHostsBytes limits the list of hosts in their order. Linux limits a variable to 128 KiB.
const maxOrderedHostsBytes = 120 * 1024

// parseRankOrder parses the labels by which a launcher orders its hosts. Only a launcher assigns ranks after the pods
// have nodes. The ranks of all other frameworks are part of the pods (docs/adr/0011-other-controllers.md).
func (p *parser) parseRankOrder(g Gang, cfg Config) []string {
	text, ok := p.meta.Annotations[AnnotationRankOrder]
	if !ok || g.Framework.Name == "" {
		return nil
	}
	labels, err := ParseRankOrder(text)
	bytes := 0
	for _, m := range g.Members {
		bytes += int(m.Size) * (len(m.WorkloadName) + len(" 100000 100000\n"))
	}
	problem := ""
	switch {
	case !g.Framework.HasLauncher || len(g.Members) == 1:
		problem = "only a launcher with workers assigns ranks after the pods have nodes; remove the annotation"
	case g.Elastic != nil:
		problem = "the hosts of an elastic gang change; remove the annotation"
	case err != nil:
		problem = err.Error()
	case bytes > maxOrderedHostsBytes:
		problem = fmt.Sprintf("the list of %d hosts exceeds the size of a variable; remove the annotation", g.Size)
	case cfg.DenyRankOrder:
		problem = "Rollcall does not order hosts in this cluster; an administrator can set the value " +
			"permissions.orderRanks of the chart"
	default:
		return labels
	}
	p.addInvalid(annotationsPath.Key(AnnotationRankOrder), text, problem)
	return nil
}

// ParseRankOrder parses a value of [AnnotationRankOrder].
func ParseRankOrder(text string) ([]string, error) {
	labels := strings.Split(text, ",")
	isInvalid := func(label string) bool { return len(validation.IsQualifiedName(label)) > 0 }
	switch {
	case len(labels) > maxOrderLabels:
		return nil, fmt.Errorf("must be at most %d labels", maxOrderLabels)
	case slices.ContainsFunc(labels, isInvalid):
		return nil, errors.New(
			"must be labels of nodes, separated by commas, such as topology.kubernetes.io/zone,example.com/rack")
	}
	return labels, nil
}

// HostMembers returns the members whose pods are hosts of the launcher, in the order of their ranks. The caller owns
// the slice.
func (g Gang) HostMembers() []Member {
	return slices.DeleteFunc(slices.Clone(g.Members), func(m Member) bool {
		return m.Role == RoleLauncher && !g.Launcher.RunAsWorker
	})
}
