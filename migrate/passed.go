package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/manifest"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// passed looks at what passes through as it is, for what the migration of others breaks
// in it.
type passed struct {
	migrator Migrator
	// gangs are what became of the jobs, with the name that each had in its report.
	gangs []migratedGang
}

// migratedGang is a gang by its labels.
type migratedGang struct {
	blueprint.Labels
	into []string
}

// report says what is to be changed in an object by hand; it is nothing's where all holds.
func (p passed) report(o manifest.Object) (Report, bool) {
	l := look{near: p.near(o), gone: map[string]migratedGang{}, known: map[string]bool{}}
	l.Report = Report{Source: o.Document.Source, Document: o.Document.Number, Object: strings.TrimSpace(o.Kind + " " + o.Name), Through: true}
	if o.Namespace != "" {
		l.Object = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	var tree map[string]any
	if o.Decode(&tree) != nil {
		return l.Report, false // no object that a cluster would take
	}
	for _, g := range l.near {
		for _, key := range g.Keys() {
			l.known[key] = true
		}
		for _, key := range g.Gone() {
			if _, first := l.gone[key]; !first {
				l.gone[key] = g
			}
		}
	}
	walk("", tree, l.value)
	return l.Report, len(l.Entries)+len(l.Mistakes) > 0
}

// look is one object that passes through, with what was found in it.
type look struct {
	Report
	// near are the gangs whose pods it can select.
	near []migratedGang
	// known are the labels of their former systems, and gone those that no pod has any more,
	// each with the first gang that lost it.
	known map[string]bool
	gone  map[string]migratedGang
}

// walk visits the values of a tree, those that hold others first; it goes on below a value
// where visit says so. The order is that of the names.
func walk(path string, value any, visit func(path string, value any) bool) {
	if !visit(path, value) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := strings.TrimPrefix(path+"."+key, ".")
			if strings.ContainsAny(key, "./[]") {
				below = path + "[" + key + "]"
			}
			walk(below, v[key], visit)
		}
	case []any:
		for i, item := range v {
			walk(fmt.Sprintf("%s[%d]", path, i), item, visit)
		}
	}
}

// value judges one value.
func (l *look) value(path string, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		last := path[strings.LastIndexByte(path, '.')+1:]
		if last == "labels" || path == "metadata.annotations" || last == "managedFields" {
			return false // these select nothing
		}
		return !nested(&l.Report, path, v) && !l.selector(path, v)
	case string:
		within(&l.Report, path, v)
		l.text(path, v)
	}
	return true
}

// pair is a label that a selector names, and where. The value is empty for one that
// matters whatever its value.
type pair struct{ path, key, value string }

// pairs are the labels of a selector: of a map of them, or of a LabelSelector; nil for what
// is none.
func pairs(path string, v map[string]any) []pair {
	var out []pair
	plain := v
	if labels, ok := v["matchLabels"].(map[string]any); ok {
		plain, path = labels, path+".matchLabels"
	}
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		if text, ok := plain[key].(string); ok {
			out = append(out, pair{path, key, text})
		}
	}
	path = strings.TrimSuffix(path, ".matchLabels")
	list, _ := v["matchExpressions"].([]any)
	for i, item := range list {
		e, _ := item.(map[string]any)
		key, _ := e["key"].(string)
		at := fmt.Sprintf("%s.matchExpressions[%d]", path, i)
		values, _ := e["values"].([]any)
		if len(values) == 0 {
			out = append(out, pair{at, key, ""})
		}
		for _, value := range values {
			if text, ok := value.(string); ok {
				out = append(out, pair{at, key, text})
			}
		}
	}
	return out
}

// selector judges the labels by which an object selects pods; it is false for what is no
// selector, as far as any gang knows. Where it names no job, the gang is meant of which it
// names most.
func (l *look) selector(path string, v map[string]any) bool {
	named := slices.DeleteFunc(pairs(path, v), func(one pair) bool { return !l.known[one.key] })
	if len(named) == 0 {
		return false
	}
	var best *migratedGang
	most := 0
	for _, g := range l.near {
		n, others, its := 0, false, false
		for _, one := range named {
			m, ok := g.Mark(one.key, one.value)
			if !ok {
				continue
			}
			n++
			if _, _, told := g.Now(one.key, one.value); told {
				n += len(named)
			}
			if m.Says == blueprint.SaysGang && one.value != "" {
				its, others = its || one.value == g.Gang, others || one.value != g.Gang
			}
		}
		if n > most && (its || !others) { // else they are another job's pods
			best, most = &g, n
		}
	}
	if best == nil {
		return false
	}
	for _, one := range named {
		l.enter(*best, one)
	}
	return true
}

// enter says what a label of a selector has to be now, if it has to be another.
func (l *look) enter(g migratedGang, one pair) {
	if _, known := g.Mark(one.key, one.value); !known {
		return
	}
	key, value, ok := g.Now(one.key, one.value)
	if ok && key == one.key && value == one.value {
		return
	}
	do := g.Advice()
	if ok && one.value != "" {
		do = fmt.Sprintf("write %s: %s in its place", key, quoted(value))
	}
	was := strings.TrimSuffix(one.key+": "+one.value, ": ")
	l.Entries = append(l.Entries, ledger.Entry{Path: one.path, Outcome: ledger.Lost, Do: do,
		Reason: fmt.Sprintf("it selects pods by %s, which does not tell those of %s", was, strings.Join(workloads(g.into), ", "))})
}

// quoted writes a value as YAML needs it to be a text.
func quoted(value string) string {
	if _, err := strconv.Atoi(value); err == nil {
		return strconv.Quote(value)
	}
	return value
}

// workloads are those of the objects that have pods.
func workloads(into []string) []string {
	return slices.DeleteFunc(slices.Clone(into), func(title string) bool {
		return !strings.HasPrefix(title, "job.") && !strings.HasPrefix(title, "statefulset.")
	})
}

// text judges a text that may name labels, such as a command of kubectl or a query.
func (l *look) text(path, text string) {
	for _, key := range slices.Sorted(maps.Keys(l.gone)) {
		if g := l.gone[key]; names(text, key) {
			l.Entries = append(l.Entries, ledger.Entry{Path: path, Outcome: ledger.Lost, Do: g.Advice(),
				Reason: fmt.Sprintf("it names the label %s, which the pods of %s do not bear", key, strings.Join(workloads(g.into), ", "))})
		}
	}
}

// names reports whether a text names a label, and not a longer one. Words without a prefix
// of a domain may mean anything, unless something is compared with them.
func names(text, key string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], key)
		if at < 0 {
			return false
		}
		at += from
		from = at + len(key)
		rest := strings.TrimLeft(text[from:], " ")
		compared := strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "!=") || strings.HasPrefix(rest, "in (")
		inside := at > 0 && part(text[at-1]) || from < len(text) && part(text[from])
		if !inside && (compared || strings.Contains(key, "/")) {
			return true
		}
	}
}

func part(b byte) bool {
	return b == '-' || b == '_' || b == '.' || b == '/' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// near are the gangs whose pods an object can select: those of its namespace, and all where
// it chooses namespaces itself.
func (p passed) near(o manifest.Object) []migratedGang {
	in := func(ns string) string { return cmp.Or(ns, p.migrator.Namespace, "default") }
	if strings.Contains(string(o.Text), `"namespaceSelector"`) {
		return p.gangs
	}
	return slices.DeleteFunc(slices.Clone(p.gangs), func(g migratedGang) bool { return in(g.Namespace) != in(o.Namespace) })
}
