package gang

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/internal/command"
	"rollcall.training/internal/fieldpath"
)

// Field paths of labels and annotations.
var (
	namePath        = fieldpath.Name
	labelsPath      = fieldpath.Labels
	annotationsPath = fieldpath.Annotations

	templateAnnotationsPath = field.NewPath("spec", "template", "metadata", "annotations")
)

// Parse parses a labeled workload as a gang of one of the given frameworks. It reports all mistakes,
// not only the first. The Gang is valid only if there are no denials. Warnings are about settings that
// are valid but probably a mistake.
//
// Parse expects a workload as the API server sends it to admission. Defaults of its kind can be
// absent: a Job without parallelism has one rank. The name is required, so a workload with only
// generateName is invalid: the address of every rank is derived from the name.
//
// Parse does not read a workload that exceeds a bound, such as [MaxContainers] or
// [MaxAnnotationLength]. The errors are then only those of the bounds, and the Gang is the zero value.
func Parse(w Workload, frameworks Frameworks, cfg Config) (Gang, Warnings, Denials) {
	p := parser{workload: w, meta: w.Meta(), frameworks: frameworks, errs: checkLimits(w)}
	if len(p.errs) > 0 {
		return Gang{}, nil, p.denials()
	}
	g := Gang{
		Namespace:     p.meta.Namespace,
		Kind:          w.Kind(),
		WorkloadName:  p.meta.Name,
		IndexLabel:    w.IndexLabel(),
		ClusterDomain: cmp.Or(cfg.ClusterDomain, DefaultClusterDomain),

		ContainerRestartRules: !cfg.DisableContainerRestartRules,
	}
	p.warnUnknownKeys()
	p.checkInjectLabel()
	g.Framework = p.parseFramework()
	role := p.parseRole(g.Framework)
	g.Role = role.Name
	g.Port = p.parsePort(g.Framework)
	p.checkSize()
	roles := p.parseRoles(g.Framework, role)
	if !w.HasRoles() {
		p.checkSingleWorkload(g.Framework, role)
	}
	g.Elastic = p.parseElasticBounds(g.Framework, role, roles)
	g.Name = p.parseName(g.Role, roles != nil)
	g.ServiceName = p.parseServiceName(g.Name, roles != nil)
	g.Members = p.buildMembers(g, roles)
	for _, m := range g.Members {
		g.Size += m.Size
	}
	if g.Size > MaxPods && roles != nil {
		p.addInvalid(annotationsPath.Key(AnnotationRoles), p.meta.Annotations[AnnotationRoles], fmt.Sprintf(
			"the gang has %d pods, the maximum is %d; reduce the sizes", g.Size, MaxPods))
	}
	g.RankOffset = computeRankOffset(g.Members, g.Role)
	g.RankLabel = g.IndexLabel
	if g.RankOffset > 0 {
		g.RankLabel = LabelRank
	}
	g.PublishedRanks = p.parsePublishedRanks(g)
	g.GPUs = p.parseGPUs()
	g.Containers = p.parseContainers(g.GPUs)
	g.Processes = p.parseProcesses(g.Containers)
	g.Launcher = p.parseLauncher(g, cfg)
	g.Hostfile = p.parseHostfile(g.Framework)
	g.RankOrder = p.parseRankOrder(g, cfg)
	g.HasKubeflowNames = p.parseCompatibility()
	g.RestartRules = p.parseRestartRules(g, cfg)
	g.StallRules = p.parseStallRules(g, cfg)
	g.Placement = p.parsePlacement(g, cfg)
	p.parseTopology(&g)
	g.Queue = p.parseQueue()
	g.Shm = p.parseShm()
	p.checkNetwork()
	if len(p.errs) == 0 {
		p.checkDerivedNames(g)
	}
	return g, p.warnings, p.denials()
}

// parser collects the mistakes in one workload.
type parser struct {
	workload Workload
	meta     *metav1.ObjectMeta
	// frameworks are those of the build.
	frameworks Frameworks
	// launchers finds the launchers of the frameworks; nil before it is needed.
	launchers command.Scanner
	warnings  Warnings
	errs      field.ErrorList
	// fixes are the remedies of errs.
	fixes map[*field.Error]Fix
}

// setFix sets the remedy of the latest error.
func (p *parser) setFix(fix Fix) {
	if p.fixes == nil {
		p.fixes = map[*field.Error]Fix{}
	}
	p.fixes[p.errs[len(p.errs)-1]] = fix
}

func (p *parser) denials() Denials {
	var denials Denials
	for _, err := range p.errs {
		denials = append(denials, Denial{Error: err, Fix: p.fixes[err]})
	}
	return denials
}

func (p *parser) addInvalid(path *field.Path, value any, detail string) {
	p.errs = append(p.errs, field.Invalid(path, value, detail))
}

// addUnsupported reports a value that is not one of the allowed values, and suggests the closest
// one. All allowed values are lower-case.
func (p *parser) addUnsupported(path *field.Path, value string, allowed []string) {
	listed := allowed[:min(len(allowed), maxListedValues)]
	err := field.NotSupported(path, value, listed)
	if omitted := len(allowed) - len(listed); omitted > 0 {
		err.Detail += fmt.Sprintf(" and %d more", omitted)
	}
	if suggestion := findClosestMatch(strings.ToLower(value), allowed); suggestion != "" {
		err.Detail += fmt.Sprintf("; did you mean %q?", suggestion)
	}
	p.errs = append(p.errs, err)
}

// hasMaxErrors reports whether a list has as many errors as users read. The parameter is the number of
// errors before the list.
func (p *parser) hasMaxErrors(errsBefore int) bool { return len(p.errs)-errsBefore >= MaxErrors }

func (p *parser) addWarning(path *field.Path, message string) {
	p.warnings = append(p.warnings, NewWarning(path, message))
}

// checkInjectLabel checks the value of the opt-out, because any value other than "false" injects.
func (p *parser) checkInjectLabel() {
	if text, ok := p.meta.Labels[LabelInject]; ok {
		p.parseBool(labelsPath.Key(LabelInject), text)
	}
}

func (p *parser) parseFramework() Framework {
	name := p.meta.Labels[LabelFramework]
	f, ok := p.frameworks.Find(name)
	if !ok {
		p.addUnsupported(labelsPath.Key(LabelFramework), name, p.frameworks.Names())
	}
	return f
}

func (p *parser) parsePort(f Framework) int32 {
	hint := ""
	if f.Port != 0 {
		hint = fmt.Sprintf("; remove the annotation to use %d, the default of %s", f.Port, f.Name)
	}
	return int32(p.parseInt(AnnotationPort, MinPort, MaxPort, int64(f.Port), hint))
}

// warnUnknownKeys warns about keys under [Prefix] without an effect, most of which are misspelled.
func (p *parser) warnUnknownKeys() {
	warn := func(kind KeyKind, path *field.Path, values map[string]string) {
		for _, name := range sortedKeys(values) {
			if !strings.HasPrefix(name, Prefix) || len(p.warnings) >= MaxErrors {
				continue
			}
			if problem := checkKey(kind, name); problem != "" {
				p.addWarning(path.Key(name), problem)
			}
		}
	}
	warn(KeyKindLabel, labelsPath, p.meta.Labels)
	warn(KeyKindAnnotation, annotationsPath, p.meta.Annotations)
	for _, name := range sortedKeys(p.workload.Template().Annotations) {
		_, isInPlace := p.meta.Annotations[name] // admission copies some annotations to the template
		if strings.HasPrefix(name, Prefix) && !isInPlace && len(p.warnings) < MaxErrors {
			p.addWarning(templateAnnotationsPath.Key(name),
				"has no effect on the pod template; move it to the metadata of the "+string(p.workload.Kind()))
		}
	}
}

// checkKey returns what is wrong with a key of the given kind; empty if the key is valid.
func checkKey(kind KeyKind, name string) string {
	for _, k := range keys {
		if k.Name == name && k.Kind == kind {
			return ""
		}
		if k.Name == name {
			article := map[KeyKind]string{KeyKindLabel: "a", KeyKindAnnotation: "an"}[k.Kind]
			return fmt.Sprintf("has no effect: %q must be %s %s", trimKeyPrefix(name), article, k.Kind)
		}
	}
	var names []string
	for _, k := range keys[:len(keys)-len(written)] {
		names = append(names, trimKeyPrefix(k.Name))
	}
	if suggestion := findClosestMatch(trimKeyPrefix(name), names); suggestion != "" {
		return fmt.Sprintf("unknown key, has no effect; did you mean %q?", Prefix+suggestion)
	}
	return "unknown key, has no effect; known: " + strings.Join(names, ", ")
}
