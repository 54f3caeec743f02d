package migrate_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/migrate"
)

// recording is what an original operator made of a manifest; see
// testdata/operators/README.md.
type recording struct {
	Pods []recordedPod `json:"pods"`
}

type recordedPod struct {
	Name       string `json:"name"`
	Role       string `json:"role"`
	Index      int    `json:"index"`
	Hostname   string `json:"hostname"`
	Subdomain  string `json:"subdomain"`
	Containers []struct {
		Name string        `json:"name"`
		Env  []recordedVar `json:"env"`
	} `json:"containers"`
}

// recordedVar is a variable: a value, or a field of the pod.
type recordedVar struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	FieldRef string `json:"fieldRef"`
}

// rank is a pod of the migrated gang.
type rank struct {
	number int
	role   string
	host   string // complete name
	spec   *corev1.PodSpec
	env    map[string]map[string]string // by container
	// training are the containers that train.
	training []string
}

// TestOperators compares, variable by variable, what each rank received from the
// original operator with what it receives from Rollcall after the migration.
func TestOperators(t *testing.T) {
	paths, err := filepath.Glob("testdata/operators/*/*.recorded.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	used := map[*departure]bool{}
	for _, path := range paths {
		base := strings.TrimSuffix(path, ".recorded.json")
		name := strings.TrimPrefix(filepath.ToSlash(base), "testdata/operators/")
		t.Run(name, func(t *testing.T) { operator(t, base, name, used) })
	}
	for i := range departures {
		if d := &departures[i]; !used[d] && !t.Failed() {
			t.Errorf("no recording departs by %s of %q any more: %s", d.variable, d.cases, d.reason)
		}
	}
}

func operator(t *testing.T, base, name string, used map[*departure]bool) {
	text, err := os.ReadFile(base + ".recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded recording
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	m := migrate.Migrator{Namespace: "default", Config: config}
	if strings.HasPrefix(name, "jobset/") { // gives its pods no variables, and names no framework
		m.Framework = cmp.Or(map[string]string{"jobset/depends-on": "tensorflow"}[name], "pytorch")
	}
	if reason, ok := refused[name]; ok {
		for _, r := range m.Migrate(read(t, base+".yaml")).Reports {
			if r.Failed() {
				t.Logf("not migrated: %s: %q", reason, r.Mistakes)
				return
			}
		}
		t.Fatalf("it is migrated, though %s", reason)
	}
	result := m.Migrate(read(t, base+".yaml"))
	for _, r := range result.Reports {
		if r.Failed() || len(r.Warnings) > 0 {
			t.Fatalf("%s: mistakes %q, warnings %q", r.Object, r.Mistakes, r.Warnings)
		}
	}
	ranks := gangOf(t, result)
	former := inOrder(slices.DeleteFunc(recorded.Pods, func(p recordedPod) bool { return helpers[p.Role] != "" }), ranks)
	if reason, ok := sizes[name]; ok {
		t.Logf("%d pods became %d ranks: %s", len(former), len(ranks), reason)
		return
	}
	if len(former) != len(ranks) {
		t.Fatalf("the operator made %d pods, and there are %d ranks", len(former), len(ranks))
	}
	names := translate(former, ranks)
	for i, pod := range former {
		for _, c := range pod.Containers {
			have, ok := ranks[i].env[c.Name]
			if !ok {
				t.Errorf("%s: container %s is gone", pod.Name, c.Name)
				continue
			}
			if !slices.Contains(ranks[i].training, c.Name) {
				continue // a helper beside it, to which some operators gave everything too
			}
			for variable, value := range lastOf(c.Env, pod.Index) {
				value = names.in(value)
				got, set := have[variable]
				if set && alike(got, value) {
					continue
				}
				if d := departed(name, pod.Role, variable); d != nil && (d.want == nil || d.want(value, got, set)) {
					used[d] = true
					continue
				}
				t.Errorf("%s, container %s: %s was %q, and is %q (set: %v)", pod.Name, c.Name, variable, value, got, set)
			}
		}
	}
}

// alike reports whether two values mean the same: as text, or as JSON.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	var x, y map[string]any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && gocmp.Equal(x, y)
}

// gangOf has the webhook's engine look at the migrated workloads, and returns their
// pods in the order of their ranks.
func gangOf(t *testing.T, result migrate.Result) []rank {
	t.Helper()
	engine := injectors.New(injectors.Builtin(), config)
	var out []rank
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			w, _, ok, err := o.Workload()
			if err != nil {
				t.Fatal(err)
			}
			if !ok || !w.Labelled() {
				continue
			}
			w.Meta().Namespace = cmp.Or(w.Meta().Namespace, "default")
			r, err := engine.Inject(w)
			if err != nil {
				t.Fatal(err)
			}
			for i := range w.Ranks() {
				p := rank{number: int(r.Gang.Offset + i), role: r.Gang.Role, host: r.Gang.HostOf(r.Gang.Own(), i), spec: &w.Template().Spec}
				for _, c := range r.Gang.Containers {
					p.training = append(p.training, c.Name)
				}
				p.env = environments(p.spec, w.IndexLabel(), int(i), p.number)
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b rank) int { return a.number - b.number })
	return out
}

// environments are the variables of each container as the kubelet gives them.
func environments(spec *corev1.PodSpec, indexLabel string, index, number int) map[string]map[string]string {
	fields := map[string]string{
		"metadata.labels['" + indexLabel + "']":     strconv.Itoa(index),
		"metadata.labels['" + gang.LabelRank + "']": strconv.Itoa(number),
	}
	out := map[string]map[string]string{}
	for _, c := range spec.Containers {
		env := map[string]string{}
		for _, e := range c.Env {
			switch {
			case e.ValueFrom == nil:
				env[e.Name] = expanded(e.Value, env)
			case e.ValueFrom.FieldRef != nil:
				value, known := fields[e.ValueFrom.FieldRef.FieldPath]
				if !known {
					value = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
				}
				env[e.Name] = value
			}
		}
		out[c.Name] = env
	}
	return out
}

var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// expanded replaces $(NAME) by variables that stand before.
func expanded(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		if v, ok := env[match[2:len(match)-1]]; ok {
			return v
		}
		return match
	})
}

// lastOf are the values that a process of a pod sees: of a name that stands twice, the
// last. The Job controller's own variable is left out: it gives it to each Job, before
// and after.
func lastOf(env []recordedVar, index int) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		switch {
		case strings.HasSuffix(e.FieldRef, "['"+batchv1.JobCompletionIndexAnnotation+"']"):
			out[e.Name] = strconv.Itoa(index)
		case e.FieldRef != "":
			out[e.Name] = "<" + e.FieldRef + ">"
		default:
			out[e.Name] = expanded(e.Value, out)
		}
	}
	delete(out, "JOB_COMPLETION_INDEX")
	return out
}

// inOrder sorts the operator's pods by the ranks that they became: by role, in the order
// in which the gang has them, and by index.
func inOrder(pods []recordedPod, ranks []rank) []recordedPod {
	order := map[string]int{"launcher": -2, "chief": -1, "master": -1}
	for i := len(ranks) - 1; i >= 0; i-- {
		if _, fixed := order[ranks[i].role]; !fixed {
			order[ranks[i].role] = i
		}
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b recordedPod) int {
		return cmp.Or(cmp.Compare(order[a.Role], order[b.Role]), cmp.Compare(a.Index, b.Index))
	})
	return out
}

// names translates the pods' former names into the present ones.
type names struct {
	pattern *regexp.Regexp
	to      map[string]string
}

func translate(former []recordedPod, ranks []rank) names {
	n := names{to: map[string]string{}}
	for i, pod := range former {
		n.to[cmp.Or(pod.Hostname, pod.Name)] = ranks[i].host
	}
	var all []string
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(n.to))) { // longer ones first
		all = append(all, regexp.QuoteMeta(name))
	}
	n.pattern = regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)((?:\.[a-z0-9-]+)*)`)
	return n
}

func (n names) in(value string) string {
	return n.pattern.ReplaceAllStringFunc(value, func(match string) string {
		return n.to[n.pattern.FindStringSubmatch(match)[1]]
	})
}
