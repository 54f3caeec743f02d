package gang

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Elastic are the bounds of a gang whose number of pods may change while it runs.
type Elastic struct {
	// Min and Max are numbers of pods, 1 <= Min <= Max.
	Min, Max int32
}

// String is the form that users write, which torchrun reads too.
func (e Elastic) String() string { return fmt.Sprintf("%d:%d", e.Min, e.Max) }

// ParseElastic reads min:max.
func ParseElastic(text string) (Elastic, error) {
	low, high, ok := strings.Cut(text, ":")
	lo, err1 := strconv.ParseInt(low, 10, 32)
	hi, err2 := strconv.ParseInt(high, 10, 32)
	if !ok || err1 != nil || err2 != nil || lo < 1 || lo > hi || hi > maxPods {
		return Elastic{}, fmt.Errorf("must be min:max, two numbers of pods from 1 to %d, the smaller first, such as 2:4", maxPods)
	}
	return Elastic{Min: int32(lo), Max: int32(hi)}, nil
}

// elastic reads min:max, and holds the size of the role that may vary to it.
func (p *parser) elastic(all Frameworks, f Framework, role Role, roles []Member) *Elastic {
	text, ok := p.meta.Annotations[AnnotationElastic]
	if !ok || f.Name == "" {
		return nil
	}
	path := annotationsPath.Key(AnnotationElastic)
	if f.Elastic == "" {
		p.errs = append(p.errs, field.Forbidden(path, fmt.Sprintf(
			"a gang of %s cannot change its size while it runs; remove the annotation (those that can: %s)", f.Name, strings.Join(all.elastic(), ", "))))
		return nil
	}
	bounds, err := ParseElastic(text)
	if err != nil {
		p.invalid(path, text, err.Error())
		return nil
	}
	e := &bounds
	if role.Name == f.Elastic {
		p.within(e, p.sizePath(), p.workload.Ranks(), p.workload.Ranks())
		return e
	}
	for _, m := range roles {
		if m.Role == f.Elastic {
			p.within(e, annotationsPath.Key(AnnotationRoles), fmt.Sprintf("%s=%d", m.Role, m.Size), m.Size)
		}
	}
	return e
}

func (p *parser) within(e *Elastic, path *field.Path, value any, size int32) {
	if size < e.Min || size > e.Max {
		p.invalid(path, value, fmt.Sprintf("must be from %d to %d, the bounds of the annotation %s; change one of them", e.Min, e.Max, AnnotationElastic))
	}
}
