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
	"rollcall.training/internal/migrate"
)

// recording contains the pods that an original operator created for a manifest; see
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

// recordedVar is a variable with a value or a field of the pod.
type recordedVar struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	FieldRef string `json:"fieldRef"`
}

// migratedPod is a pod of the migrated gang.
type migratedPod struct {
	rank int
	role string
	host string // complete name
	spec *corev1.PodSpec
	env  map[string]map[string]string // by container
	// trainingContainers are the containers that train.
	trainingContainers []string
}

// TestOperators compares the variables that each rank got from the original operator with those that it
// gets from Rollcall after the migration.
func TestOperators(t *testing.T) {
	paths, err := filepath.Glob("testdata/operators/*/*.recorded.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	used := map[*expectedDifference]bool{}
	for _, path := range paths {
		base := strings.TrimSuffix(path, ".recorded.json")
		name := strings.TrimPrefix(filepath.ToSlash(base), "testdata/operators/")
		t.Run(name, func(t *testing.T) { checkOperator(t, base, name, used) })
	}
	for i := range expectedDifferences {
		if d := &expectedDifferences[i]; !used[d] && !t.Failed() {
			t.Errorf("no recording departs by %s of %q any more: %s", d.variable, d.casePrefix, d.reason)
		}
	}
}

func checkOperator(t *testing.T, base, name string, used map[*expectedDifference]bool) {
	text, err := os.ReadFile(base + ".recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded recording
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	m := migrate.Migrator{Namespace: "default", Config: webhookConfig}
	if strings.HasPrefix(name, "jobset/") { // gives its pods no variables, and names no framework
		m.Framework = cmp.Or(map[string]string{"jobset/depends-on": "tensorflow"}[name], "pytorch")
	}
	if reason, ok := rejectedCases[name]; ok {
		for _, r := range m.Migrate(readDocuments(t, base+".yaml")).Reports {
			if r.Failed() {
				t.Logf("not migrated: %s: %q", reason, r.Errors)
				return
			}
		}
		t.Fatalf("migrate accepted it, although %s", reason)
	}
	result := m.Migrate(readDocuments(t, base+".yaml"))
	for _, r := range result.Reports {
		if r.Failed() || len(r.Warnings) > 0 {
			t.Fatalf("%s: errors %q, warnings %q", r.Object, r.Errors, r.Warnings)
		}
	}
	ranks := injectedPods(t, result)
	isAuxiliary := func(p recordedPod) bool { return auxiliaryRoles[p.Role] != "" }
	former := sortByRank(slices.DeleteFunc(recorded.Pods, isAuxiliary), ranks)
	if reason, ok := differentSizes[name]; ok {
		t.Logf("%d pods became %d ranks: %s", len(former), len(ranks), reason)
		return
	}
	if len(former) != len(ranks) {
		t.Fatalf("the operator made %d pods, and there are %d ranks", len(former), len(ranks))
	}
	names := newHostTranslation(former, ranks)
	for i, pod := range former {
		for _, c := range pod.Containers {
			have, ok := ranks[i].env[c.Name]
			if !ok {
				t.Errorf("%s: container %s is gone", pod.Name, c.Name)
				continue
			}
			if !slices.Contains(ranks[i].trainingContainers, c.Name) {
				continue // a sidecar, which some operators gave the variables too
			}
			for variable, value := range effectiveEnv(c.Env, pod.Index) {
				value = names.translateValue(value)
				got, set := have[variable]
				if set && equalValues(got, value) {
					continue
				}
				if d := findExpectedDifference(name, pod.Role, variable); d != nil && (d.want == nil || d.want(value, got, set)) {
					used[d] = true
					continue
				}
				t.Errorf("%s, container %s: %s was %q, and is %q (set: %v)", pod.Name, c.Name, variable, value, got, set)
			}
		}
	}
}

// equalValues reports whether two values are equal as text or as JSON.
func equalValues(a, b string) bool {
	if a == b {
		return true
	}
	var x, y map[string]any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && gocmp.Equal(x, y)
}

// injectedPods injects the migrated workloads and returns their pods in the order of their ranks.
func injectedPods(t *testing.T, result migrate.Result) []migratedPod {
	t.Helper()
	engine := injectors.NewEngine(injectors.Builtin(), webhookConfig)
	var out []migratedPod
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			w, _, ok, err := o.DecodeWorkload()
			if err != nil {
				t.Fatal(err)
			}
			if !ok || !w.HasFrameworkLabel() {
				continue
			}
			w.Meta().Namespace = cmp.Or(w.Meta().Namespace, "default")
			r, err := engine.Inject(w)
			if err != nil {
				t.Fatal(err)
			}
			for i := range w.Ranks() {
				p := migratedPod{
					rank: int(r.Gang.RankOffset + i), role: r.Gang.Role,
					host: r.Gang.PodFQDN(r.Gang.OwnMember(), i), spec: &w.Template().Spec,
				}
				for _, c := range r.Gang.Containers {
					p.trainingContainers = append(p.trainingContainers, c.Name)
				}
				p.env = containerEnvs(p.spec, w.IndexLabel(), int(i), p.rank)
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b migratedPod) int { return a.rank - b.rank })
	return out
}

// containerEnvs returns the variables of each container as the kubelet sets them.
func containerEnvs(spec *corev1.PodSpec, indexLabel string, index, number int) map[string]map[string]string {
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
				env[e.Name] = expandReferences(e.Value, env)
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

var envReference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// expandReferences replaces $(NAME) by the values of earlier variables.
func expandReferences(text string, env map[string]string) string {
	return envReference.ReplaceAllStringFunc(text, func(match string) string {
		if v, ok := env[match[2:len(match)-1]]; ok {
			return v
		}
		return match
	})
}

// effectiveEnv returns the values that a process sees. The last of several values is effective. The
// variable of the Job controller is excluded, because each Job has it before and after.
func effectiveEnv(env []recordedVar, index int) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		switch {
		case strings.HasSuffix(e.FieldRef, "['"+batchv1.JobCompletionIndexAnnotation+"']"):
			out[e.Name] = strconv.Itoa(index)
		case e.FieldRef != "":
			out[e.Name] = "<" + e.FieldRef + ">"
		default:
			out[e.Name] = expandReferences(e.Value, out)
		}
	}
	delete(out, "JOB_COMPLETION_INDEX")
	return out
}

// sortByRank sorts the pods of the operator by their new ranks: by role, in the order of the gang, and by
// index.
func sortByRank(pods []recordedPod, ranks []migratedPod) []recordedPod {
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

// hostTranslation translates former hostnames to new ones.
type hostTranslation struct {
	pattern  *regexp.Regexp
	newHosts map[string]string
}

func newHostTranslation(former []recordedPod, ranks []migratedPod) hostTranslation {
	n := hostTranslation{newHosts: map[string]string{}}
	for i, pod := range former {
		n.newHosts[cmp.Or(pod.Hostname, pod.Name)] = ranks[i].host
	}
	var all []string
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(n.newHosts))) { // longer ones first
		all = append(all, regexp.QuoteMeta(name))
	}
	n.pattern = regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)((?:\.[a-z0-9-]+)*)`)
	return n
}

func (n hostTranslation) translateValue(value string) string {
	return n.pattern.ReplaceAllStringFunc(value, func(match string) string {
		return n.newHosts[n.pattern.FindStringSubmatch(match)[1]]
	})
}
