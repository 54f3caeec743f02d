package gang

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Field paths of the workload's own metadata.
var (
	labelsPath      = field.NewPath("metadata", "labels")
	annotationsPath = field.NewPath("metadata", "annotations")

	templateAnnotationsPath = field.NewPath("spec", "template", "metadata", "annotations")
)

// The rendezvous runs as any user, so the port is above the privileged ones.
const (
	minPort = 1024
	maxPort = 65535
)

// Parse reads a labelled workload as a gang of one of the given frameworks. It
// reports every mistake that it finds, not the first alone; the Gang is usable
// only when the list is empty. The warnings say what was understood but is
// probably not meant, one line each.
//
// Parse expects what the API server hands to admission: kind-specific defaults
// may be absent (a Job without parallelism has one rank), but the workload needs
// a name, which is why generateName alone is refused: every rank's address is
// derived from it.
func Parse(w Workload, frameworks Frameworks, cfg Config) (Gang, []string, field.ErrorList) {
	p := parser{workload: w, meta: w.Meta()}
	g := Gang{
		Namespace:  p.meta.Namespace,
		Kind:       w.Kind(),
		Workload:   p.meta.Name,
		IndexLabel: w.IndexLabel(),
		Domain:     cmp.Or(cfg.ClusterDomain, DefaultClusterDomain),

		RestartRules: !cfg.NoRestartRules,
	}
	p.unknownKeys()
	p.injectLabel()
	g.Framework = p.framework(frameworks)
	role := p.role(g.Framework)
	g.Role = role.Name
	g.Port = p.port(g.Framework)
	p.size()
	roles := p.roles(g.Framework, role)
	if roles == nil {
		p.alone(g.Framework, role)
	}
	g.Elastic = p.elastic(frameworks, g.Framework, role, roles)
	g.Name = p.name(g.Role, roles != nil)
	g.Service = p.service(g.Name, roles != nil)
	g.Members = p.members(g, roles)
	for _, m := range g.Members {
		g.Size += m.Size
	}
	g.Offset = offset(g.Members, g.Role)
	g.RankLabel = g.IndexLabel
	if g.Offset > 0 {
		g.RankLabel = LabelRank
	}
	g.GPUs = p.gpus()
	g.Containers = p.containers(g.GPUs)
	g.Processes = p.processes(g.Containers)
	g.Launch = p.launch(g)
	g.Lifecycle = p.lifecycle(g)
	g.Shm = p.shm()
	p.network()
	if len(p.errs) == 0 {
		p.derivedNames(g)
	}
	return g, p.warnings, p.errs
}

// parser collects what is wrong with one workload.
type parser struct {
	workload Workload
	meta     *metav1.ObjectMeta
	warnings []string
	errs     field.ErrorList
}

func (p *parser) invalid(path *field.Path, value any, detail string) {
	p.errs = append(p.errs, field.Invalid(path, value, detail))
}

// unsupported refuses a value that is none of the allowed ones, and names the one
// that was probably meant. All of them are lower-case names.
func (p *parser) unsupported(path *field.Path, value string, allowed []string) {
	err := field.NotSupported(path, value, allowed)
	if near := nearest(strings.ToLower(value), allowed); near != "" {
		err.Detail += fmt.Sprintf("; did you mean %q?", near)
	}
	p.errs = append(p.errs, err)
}

func (p *parser) warn(path *field.Path, text string) {
	p.warnings = append(p.warnings, path.String()+": "+text)
}

// injectLabel checks the switch itself: a value that is neither true nor false
// would quietly mean true.
func (p *parser) injectLabel() {
	v, ok := p.meta.Labels[LabelInject]
	if ok && v != "true" && v != "false" {
		p.errs = append(p.errs, field.NotSupported(labelsPath.Key(LabelInject), v, []string{"true", "false"}))
	}
}

func (p *parser) framework(all Frameworks) Framework {
	path := labelsPath.Key(LabelFramework)
	name := p.meta.Labels[LabelFramework]
	f, ok := all.Find(name)
	if !ok {
		p.unsupported(path, name, all.Names())
	}
	return f
}

func (p *parser) port(f Framework) int32 {
	v, ok := p.meta.Annotations[AnnotationPort]
	if !ok {
		return f.Port
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < minPort || n > maxPort {
		detail := fmt.Sprintf("must be a port number from %d to %d", minPort, maxPort)
		if f.Port != 0 {
			detail += fmt.Sprintf("; remove the annotation for %d, the default of %s", f.Port, f.Name)
		}
		p.invalid(annotationsPath.Key(AnnotationPort), v, detail)
		return f.Port
	}
	return int32(n)
}

// name is the gang's name. It becomes a Service, hence DNS-1035. With roles, the
// workload is named after it and its role.
func (p *parser) name(role string, several bool) string {
	namePath := field.NewPath("metadata", "name")
	if p.meta.Name == "" {
		p.errs = append(p.errs, field.Required(namePath,
			"a gang needs a name at admission, because every rank's address is derived from it; replace metadata.generateName by a name"))
		return ""
	}
	name, path, fix := p.meta.Name, namePath, "rename the workload, or name the gang with the label "+LabelGang
	label, named := p.meta.Labels[LabelGang]
	if several {
		name, fix = strings.TrimSuffix(name, "-"+role), "rename the workload"
	}
	if named {
		name, path, fix = label, labelsPath.Key(LabelGang), "choose another value"
	}
	if want := memberName(name, role); several && p.meta.Name != want {
		p.invalid(namePath, p.meta.Name, fmt.Sprintf(
			"must be %q: each workload of a gang of several is named after the gang and its role, so that the others know its address; rename it", want))
	}
	if msgs := validation.IsDNS1035Label(name); len(msgs) > 0 {
		p.invalid(path, name, fmt.Sprintf("cannot name the gang's Service: %s; %s", strings.Join(msgs, "; "), fix))
	}
	return name
}

// unknownKeys warns about keys under our prefix that mean nothing here: most are
// misspelt, and a misspelt key is a wish that would silently not come true.
func (p *parser) unknownKeys() {
	check := func(kind KeyKind, path *field.Path, got map[string]string) {
		for _, name := range sortedKeys(got) {
			if !strings.HasPrefix(name, Prefix) {
				continue
			}
			if text := unknown(kind, name); text != "" {
				p.warn(path.Key(name), text)
			}
		}
	}
	check(KindLabel, labelsPath, p.meta.Labels)
	check(KindAnnotation, annotationsPath, p.meta.Annotations)
	for _, name := range sortedKeys(p.workload.Template().Annotations) {
		if strings.HasPrefix(name, Prefix) {
			p.warn(templateAnnotationsPath.Key(name), "has no effect on the pod template; move it to the metadata of the "+string(p.workload.Kind()))
		}
	}
}

// unknown explains what is wrong with a key of the given kind; "" when nothing is.
func unknown(kind KeyKind, name string) string {
	var names []string
	for _, k := range Keys() {
		if k.Name == name && k.Kind == kind {
			return ""
		}
		if k.Name == name {
			return fmt.Sprintf("has no effect: %q is read as %s %s", short(name), article(k.Kind), k.Kind)
		}
		if !WrittenBack(k.Name) {
			names = append(names, short(k.Name))
		}
	}
	if near := nearest(short(name), names); near != "" {
		return fmt.Sprintf("unknown key, has no effect; did you mean %q?", Prefix+near)
	}
	return "unknown key, has no effect; known: " + strings.Join(names, ", ")
}

func article(k KeyKind) string {
	if k == KindAnnotation {
		return "an"
	}
	return "a"
}
