package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

func (l *FrameworksLimit) validate(r *reader, path string) {
	if len(l.Allow) == 0 {
		r.add(path+".allow", "is required; list the allowed frameworks")
	}
	for i, name := range l.Allow {
		r.checkFramework(fmt.Sprintf("%s.allow[%d]", path, i), name)
	}
}

func (l *FrameworksLimit) check(f Facts) []violation {
	if slices.Contains(l.Allow, f.Framework) {
		return nil
	}
	return []violation{{
		field: labelsPath.Key(gang.LabelFramework).String(), value: f.Framework, excess: 1,
		message: "is not allowed; allowed are " + joinNames(l.Allow),
	}}
}

func (l *LabelsLimit) validate(r *reader, path string) {
	if len(l.Require) == 0 && len(l.Forbid) == 0 {
		r.add(path, "has no effect; set require or forbid")
	}
	l.patterns = map[string]*regexp.Regexp{}
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		labelPath := fmt.Sprintf("%s.require[%s]", path, label)
		r.checkLabelName(labelPath, label)
		l.patterns[label] = r.compilePattern(labelPath, l.Require[label])
		if slices.Contains(l.Forbid, label) {
			r.add(labelPath, "is required and forbidden")
		}
	}
	for i, label := range l.Forbid {
		r.checkLabelName(fmt.Sprintf("%s.forbid[%d]", path, i), label)
	}
}

func (l *LabelsLimit) check(f Facts) []violation {
	var violations []violation
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		value, ok := f.Labels[label]
		switch {
		case ok && l.patterns[label].MatchString(value):
		case !ok:
			violations = append(violations, violation{
				field: labelsPath.Key(label).String(), excess: 1,
				message: fmt.Sprintf("is required; the value must match %s", l.Require[label]),
			})
		default:
			violations = append(violations, violation{
				field: labelsPath.Key(label).String(), value: value, excess: 1,
				message: fmt.Sprintf("must match %s", l.Require[label]),
			})
		}
	}
	for _, label := range l.Forbid {
		if value, ok := f.Labels[label]; ok {
			violations = append(violations, violation{
				field: labelsPath.Key(label).String(), value: value, excess: 1, message: "is forbidden; remove the label",
			})
		}
	}
	return violations
}

// anyFramework is the key of [ImagesLimit.Allow] for frameworks without a key.
const anyFramework = "*"

func (l *ImagesLimit) validate(r *reader, path string) {
	if len(l.Allow) == 0 && !l.Digests {
		r.add(path, "has no effect; set allow or digests")
	}
	for _, framework := range slices.Sorted(maps.Keys(l.Allow)) {
		frameworkPath := fmt.Sprintf("%s.allow[%s]", path, framework)
		if framework != anyFramework {
			r.checkFramework(frameworkPath, framework)
		}
		for i, entry := range l.Allow[framework] {
			if strings.TrimSuffix(entry, "/") == "" || strings.ContainsAny(entry, "*@ ") {
				r.add(fmt.Sprintf("%s[%d]", frameworkPath, i),
					"must be a registry or a repository without a pattern, such as registry.example.com/hpc")
			}
		}
	}
}

func (l *ImagesLimit) check(f Facts) []violation {
	allowed, restricted := l.Allow[f.Framework]
	if !restricted {
		allowed, restricted = l.Allow[anyFramework]
	}
	var violations []violation
	for _, image := range f.Images {
		named, err := reference.ParseNormalizedNamed(image.Name)
		if err != nil {
			continue // the API server accepts the image, and the kubelet reports that it is invalid
		}
		if restricted && !slices.ContainsFunc(allowed, func(entry string) bool { return containsImage(entry, named) }) {
			violations = append(violations, violation{
				field: image.Path, value: image.Name, excess: 1,
				message: fmt.Sprintf("is %s, which is not allowed; allowed are %s", named.Name(), joinNames(allowed)),
			})
			continue
		}
		if _, hasDigest := named.(reference.Digested); l.Digests && !hasDigest {
			violations = append(violations, violation{
				field: image.Path, value: image.Name, excess: 1, message: "must have a digest, such as image@sha256:…",
			})
		}
	}
	return violations
}

// containsImage reports whether an image belongs to a registry or repository. The entry matches entire
// components of the path.
func containsImage(entry string, image reference.Named) bool {
	entry = strings.TrimSuffix(entry, "/")
	return image.Name() == entry || strings.HasPrefix(image.Name(), entry+"/")
}

func (l *NameLimit) validate(r *reader, path string) {
	if !l.Required && len(l.Allow) == 0 {
		r.add(path, "has no effect; set required or allow")
	}
}

// check compares a name with the limit.
func (l *NameLimit) check(path, value, purpose string) []violation {
	switch {
	case value == "" && l.Required && len(l.Allow) > 0:
		return []violation{{
			field: path, message: fmt.Sprintf("is required: the %s; allowed are %s", purpose, joinNames(l.Allow)), excess: 1,
		}}
	case value == "" && l.Required:
		return []violation{{field: path, message: "is required: the " + purpose, excess: 1}}
	case value != "" && len(l.Allow) > 0 && !slices.Contains(l.Allow, value):
		return []violation{{
			field: path, value: value, excess: 1,
			message: fmt.Sprintf("is not allowed as the %s; allowed are %s", purpose, joinNames(l.Allow)),
		}}
	}
	return nil
}

// priorityClassLimit is the limit of the priority class.
type priorityClassLimit struct{ *NameLimit }

func (l priorityClassLimit) check(f Facts) []violation {
	return l.NameLimit.check(podSpecPath.Child("priorityClassName").String(), f.PriorityClass, "priority class")
}

// queueLimit is the limit of the queue.
type queueLimit struct{ *NameLimit }

func (l queueLimit) check(f Facts) []violation {
	return l.NameLimit.check(labelsPath.Key(gang.LabelQueueName).String(), f.Queue, "queue")
}

func (l *HiddenGPUsLimit) validate(*reader, string) {}

func (l *HiddenGPUsLimit) check(f Facts) []violation {
	var violations []violation
	for _, v := range f.HiddenGPUs {
		violations = append(violations, violation{
			field: v.Path, value: v.Value, excess: 1,
			message: fmt.Sprintf("%s exposes accelerators that the container does not request; "+
				"remove it, and request them in resources.limits", v.Name),
		})
	}
	return violations
}

// checkLabelName reports a name that no label can have.
func (r *reader) checkLabelName(path, name string) {
	for _, message := range validation.IsQualifiedName(name) {
		r.add(path, "is not the name of a label: %s", message)
	}
}
