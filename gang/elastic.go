package gang

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ElasticBounds are the minimum and maximum number of pods of an elastic gang.
type ElasticBounds struct {
	// Min and Max satisfy 1 <= Min <= Max <= [MaxPods].
	Min, Max int32
}

// String returns "min:max", the format of [AnnotationElastic] and of torchrun's --nnodes.
func (e ElasticBounds) String() string { return fmt.Sprintf("%d:%d", e.Min, e.Max) }

// ParseElasticBounds parses "min:max".
func ParseElasticBounds(text string) (ElasticBounds, error) {
	low, high, ok := strings.Cut(text, ":")
	minimum, minOK := parseIntInRange(low, 1, MaxPods)
	maximum, maxOK := parseIntInRange(high, 1, MaxPods)
	if !ok || !minOK || !maxOK || minimum > maximum {
		return ElasticBounds{}, fmt.Errorf(
			"must be min:max, two numbers of pods from 1 to %d, the smaller number first, such as 2:4", MaxPods)
	}
	return ElasticBounds{Min: int32(minimum), Max: int32(maximum)}, nil
}

// IsElasticRole reports whether the number of pods of a role can change while the gang trains.
func (g Gang) IsElasticRole(role string) bool {
	return g.Elastic != nil && role == g.Framework.ElasticRole
}

// SizeBounds returns the smallest and the largest number of pods of members together. They differ only for the elastic
// role.
func (g Gang) SizeBounds(members ...Member) ElasticBounds {
	var bounds ElasticBounds
	for _, m := range members {
		size := ElasticBounds{Min: m.Size, Max: m.Size}
		if g.IsElasticRole(m.Role) {
			size = *g.Elastic
		}
		bounds.Min, bounds.Max = bounds.Min+size.Min, bounds.Max+size.Max
	}
	return bounds
}

// parseElasticBounds parses the annotation and checks that the size of the elastic role is within
// the bounds. It returns nil without a valid annotation.
func (p *parser) parseElasticBounds(f Framework, own Role, roles []Member) *ElasticBounds {
	text, ok := p.meta.Annotations[AnnotationElastic]
	if !ok || f.Name == "" {
		return nil
	}
	path := annotationsPath.Key(AnnotationElastic)
	if f.ElasticRole == "" {
		p.errs = append(p.errs, field.Forbidden(path, fmt.Sprintf(
			"framework %s is not elastic; remove the annotation (elastic frameworks: %s)",
			f.Name, strings.Join(p.frameworks.elasticNames(), ", "))))
		return nil
	}
	bounds, err := ParseElasticBounds(text)
	if err != nil {
		p.addInvalid(path, text, err.Error())
		return nil
	}
	if own.Name == f.ElasticRole {
		p.checkElasticBounds(bounds, p.sizePath(), p.workload.Ranks(), p.workload.Ranks())
		return &bounds
	}
	for _, m := range roles {
		if m.Role == f.ElasticRole {
			p.checkElasticBounds(bounds, annotationsPath.Key(AnnotationRoles), fmt.Sprintf("%s=%d", m.Role, m.Size), m.Size)
		}
	}
	return &bounds
}

func (p *parser) checkElasticBounds(bounds ElasticBounds, path *field.Path, value any, size int32) {
	if size < bounds.Min || size > bounds.Max {
		p.addInvalid(path, value, fmt.Sprintf(
			"must be from %d to %d, the bounds of the annotation %s; change the number or the bounds",
			bounds.Min, bounds.Max, AnnotationElastic))
	}
}
