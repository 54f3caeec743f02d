package gang

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations for the nodes of a gang in the network.
const (
	// AnnotationTopology is the label of nodes whose value all nodes of the gang share.
	AnnotationTopology = Prefix + "topology"
	// AnnotationSegment is a label of nodes, and the number of consecutive ranks whose nodes share its value.
	AnnotationSegment = Prefix + "segment"
	// AnnotationRankOrder lists the labels of nodes by which a launcher orders its hosts.
	AnnotationRankOrder = Prefix + "rank-order"
)

// Topology is the part of the network in which all ranks of a gang run. The zero value is the whole network.
type Topology struct {
	// Level is the label of nodes whose value all nodes of the gang share.
	Level string
	// Preferred is true if the gang also runs where not all nodes share the value.
	Preferred bool
	// Object is the name of the Topology of KAI that contains Level; empty for other schedulers.
	Object string
}

// The modes of a topology, after the label.
const (
	topologyRequired  = "required"
	topologyPreferred = "preferred"
)

// String returns the value of [AnnotationTopology]; empty for the zero value.
func (t Topology) String() string {
	if t.Preferred {
		return t.Level + ":" + topologyPreferred
	}
	return t.Level
}

// ParseTopology parses a value of [AnnotationTopology].
func ParseTopology(text string) (Topology, error) {
	level, mode, hasMode := strings.Cut(text, ":")
	if hasMode && mode != topologyRequired && mode != topologyPreferred {
		return Topology{}, fmt.Errorf("the label must be followed by :%s, :%s or nothing",
			topologyRequired, topologyPreferred)
	}
	if len(validation.IsQualifiedName(level)) > 0 {
		return Topology{}, errors.New("must be a label of nodes, such as topology.kubernetes.io/zone")
	}
	return Topology{Level: level, Preferred: mode == topologyPreferred}, nil
}

// Segment is the part of the network in which consecutive ranks of a gang run. The zero value is the whole network.
type Segment struct {
	// Level is the label of nodes whose value the nodes of a segment share.
	Level string
	// Ranks is the number of ranks of a segment.
	Ranks int32
}

// parseTopology parses the topology and the segments of a gang with a placement.
func (p *parser) parseTopology(g *Gang) {
	g.Placement.IsQueued = p.workload.QueueName() != "" && !p.workload.HasSeveralRoles() &&
		!p.workload.IsManagedExternally()
	if text, ok := p.meta.Annotations[AnnotationTopology]; ok {
		topology, err := ParseTopology(text)
		if err != nil {
			p.addInvalid(annotationsPath.Key(AnnotationTopology), text, err.Error())
		}
		if g.Placement.Scheduler == SchedulerKAI {
			topology.Object = cmp.Or(p.meta.Annotations[AnnotationKAITopology],
				p.workload.Template().Annotations[AnnotationKAITopology])
		}
		g.Placement.Topology = topology
	}
	text, ok := p.meta.Annotations[AnnotationSegment]
	if !ok {
		return
	}
	end := max(0, strings.LastIndex(text, "/"))
	ranks, err := strconv.ParseInt(strings.TrimPrefix(text[end:], "/"), 10, 32)
	switch {
	case err != nil || ranks < 1 || len(validation.IsQualifiedName(text[:end])) > 0:
		p.addInvalid(annotationsPath.Key(AnnotationSegment), text,
			"must be a label of nodes and a number of ranks, such as example.com/rack/16")
	case g.Size%int32(ranks) != 0:
		p.addInvalid(annotationsPath.Key(AnnotationSegment), text, fmt.Sprintf(
			"the gang has %d ranks, which is not a multiple of %d; set a divisor", g.Size, ranks))
	default:
		g.Placement.Segment = Segment{Level: text[:end], Ranks: int32(ranks)}
	}
}
