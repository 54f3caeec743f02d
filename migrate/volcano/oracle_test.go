package volcano_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/origin"
)

// former is what the plugins look at in a Volcano Job.
type former struct {
	Metadata struct{ Name string }
	Spec     struct {
		Plugins map[string][]string
		Tasks   []struct {
			Name     string
			Replicas int
		}
	}
}

// host is a pod's name in the former job, as helpers.MakeDomainName makes it.
func (f former) host(task string, i int) string {
	return fmt.Sprintf("%s-%s-%d.%s", f.Metadata.Name, task, i, f.Metadata.Name)
}

func (f former) hosts(task, after string) []string {
	var out []string
	for _, t := range f.Spec.Tasks {
		for i := range t.Replicas {
			if t.Name == task {
				out = append(out, f.host(task, i)+after)
			}
		}
	}
	return out
}

// variables are those that Volcano's plugins give to a pod, by its source
// (pkg/controllers/job/plugins, each plugin's OnPodCreate). The parts are the names of
// the tasks by what the plugin's flags make of them.
func (f former) variables(task string, index int, part func(task string) string, port int) map[string]string {
	env := map[string]string{}
	if _, ok := f.Spec.Plugins["env"]; ok {
		env["VK_TASK_INDEX"], env["VC_TASK_INDEX"] = strconv.Itoa(index), strconv.Itoa(index)
	}
	cluster, world, rank := map[string]any{}, 0, index
	for _, t := range f.Spec.Tasks { // svc is always on where one of the others is
		name := strings.ToUpper(strings.ReplaceAll(t.Name, "-", "_"))
		env["VC_"+name+"_HOSTS"] = strings.Join(f.hosts(t.Name, ""), ",")
		env["VC_"+name+"_NUM"] = strconv.Itoa(t.Replicas)
		cluster[part(t.Name)] = f.hosts(t.Name, fmt.Sprintf(":%d", port))
		world += t.Replicas
		if part(t.Name) == "master" && part(task) == "worker" {
			rank = index + 1
		}
		if _, ok := f.Spec.Plugins["mpi"]; ok && part(t.Name) == "worker" && part(task) == "launcher" {
			env["MPI_HOST"] = strings.Join(f.hosts(t.Name, ""), ",")
		}
		if _, ok := f.Spec.Plugins["pytorch"]; ok && part(t.Name) == "master" {
			env["MASTER_ADDR"], env["MASTER_PORT"] = f.host(t.Name, 0), strconv.Itoa(port)
		}
	}
	if _, ok := f.Spec.Plugins["pytorch"]; ok {
		env["WORLD_SIZE"], env["RANK"] = strconv.Itoa(world), strconv.Itoa(rank)
	}
	if _, ok := f.Spec.Plugins["tensorflow"]; ok {
		text, _ := json.Marshal(map[string]any{"cluster": cluster, "task": map[string]any{"type": part(task), "index": index}})
		env["TF_CONFIG"] = string(text)
	}
	return env
}

// TestVariables compares what each pod gets with what Volcano's plugins gave it, variable
// by variable, with the new hosts by their former names.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		file     string
		document int
		port     int
		parts    []string // task=role, in the order of the ranks
	}{
		{"pytorch.yaml", 0, 29500, []string{"chief=master", "crew=worker"}},
		{"pytorch-alike.yaml", 0, 23456, []string{"master=master", "worker=worker"}},
		{"tensorflow.yaml", 0, 3333, []string{"boss=chief", "worker=worker", "server=ps", "judge=evaluator"}},
		{"tensorflow.yaml", 1, 2222, []string{"worker=worker", "ps=ps"}},
		{"mpi.yaml", 0, 22, []string{"mpimaster=launcher", "mpiworker=worker"}},
		{"mpi.yaml", 1, 22, []string{"mpimaster=launcher", "mpiworker=worker"}},
		{"torchrun.yaml", 0, 0, []string{"node=worker"}},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.file, c.document), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "testdata", "volcano-job", c.file))
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.Split(text, []byte("\n---\n"))[c.document]
			var old former
			if err := yaml.Unmarshal(text, &old); err != nil {
				t.Fatal(err)
			}
			roles := map[string]string{}
			for _, p := range c.parts {
				task, role, _ := strings.Cut(p, "=")
				roles[task] = role
			}
			part := func(task string) string { return roles[task] }
			pods := migrated(t, text)
			names := renamed(old, pods, c.parts)
			for _, task := range old.Spec.Tasks {
				for i := range task.Replicas {
					was := old.host(task.Name, i)
					compare(t, was, old.variables(task.Name, i, part, c.port), pods[names[was]], names)
				}
			}
		})
	}
}

// migrated are the variables of the first container of each pod, by the pod's short name,
// as the engine leaves them and the kubelet expands them.
func migrated(t *testing.T, text []byte) map[string]map[string]string {
	t.Helper()
	docs, err := manifest.Read("job.yaml", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	config := gang.Config{ClusterDomain: gang.DefaultClusterDomain}
	result := migrate.Migrator{Config: config, Scheduler: origin.Volcano}.Migrate(docs)
	pods := map[string]map[string]string{}
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			w, ok := gang.NewWorkload(gang.Kind(o.Kind))
			if !ok {
				continue
			}
			if err := o.Decode(w.Object()); err != nil {
				t.Fatal(err)
			}
			if w.Meta().Namespace == "" {
				w.Meta().Namespace = "default"
			}
			admitted, err := injectors.New(injectors.Builtin(), config).Inject(w)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(w.Ranks()) {
				name := fmt.Sprintf("%s-%d.%s", w.Meta().Name, i, admitted.Gang.Name)
				pods[name] = expanded(w, i)
			}
		}
	}
	if len(pods) == 0 {
		t.Fatalf("no pods: %v", result.Reports)
	}
	return pods
}

// expanded are the variables of a pod's first container.
func expanded(w gang.Workload, index int) map[string]string {
	template := w.Template()
	offset, _ := strconv.Atoi(template.Labels[gang.LabelRankOffset])
	labels := map[string]string{w.IndexLabel(): strconv.Itoa(index), gang.LabelRank: strconv.Itoa(offset + index)}
	env := map[string]string{}
	for _, e := range template.Spec.Containers[0].Env {
		env[e.Name] = os.Expand(dollars(e.Value), func(name string) string { return env[name] })
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			env[e.Name] = label(e.ValueFrom.FieldRef, labels)
		}
	}
	return env
}

var reference = regexp.MustCompile(`\$\((\w+)\)`)

// dollars writes the kubelet's references as those of a shell.
func dollars(text string) string { return reference.ReplaceAllString(text, "${$1}") }

func label(f *corev1.ObjectFieldSelector, labels map[string]string) string {
	name, ok := strings.CutPrefix(f.FieldPath, "metadata.labels['")
	if !ok {
		return ""
	}
	return labels[strings.TrimSuffix(name, "']")]
}

// renamed gives each pod's former name its new one.
func renamed(old former, pods map[string]map[string]string, parts []string) map[string]string {
	names, next := map[string]string{}, 0
	for _, p := range parts {
		task, role, _ := strings.Cut(p, "=")
		for i := range old.hosts(task, "") {
			name := fmt.Sprintf("%s-%s-%d.%s", old.Metadata.Name, role, i, old.Metadata.Name)
			if _, ok := pods[name]; !ok { // one workload for all parts
				name = fmt.Sprintf("%s-%d.%s", old.Metadata.Name, next, old.Metadata.Name)
			}
			names[old.host(task, i)] = name
			next++
		}
	}
	return names
}

func compare(t *testing.T, pod string, want, got map[string]string, names map[string]string) {
	t.Helper()
	if got == nil {
		t.Errorf("%s has no pod any more", pod)
		return
	}
	back := map[string]string{}
	for was, is := range names {
		back[is] = was
	}
	// A complete name is as good as one that the pod's search domains complete.
	short := regexp.MustCompile(`\.(default|team)\.svc\.cluster\.local`)
	host := regexp.MustCompile(`[a-z0-9-]+-[0-9]+\.[a-z0-9-]+`)
	for name, value := range want {
		have := host.ReplaceAllStringFunc(short.ReplaceAllString(got[name], ""), func(h string) string { return back[h] })
		if name == "TF_CONFIG" {
			have, value = config(t, have), config(t, value)
		}
		if diff := cmp.Diff(value, have); diff != "" {
			t.Errorf("%s of %s (-Volcano +Rollcall):\n%s", name, pod, diff)
		}
	}
}

// config writes a TF_CONFIG in one way. An evaluator is no member of the cluster, which
// Rollcall heeds and Volcano does not; the environment is TFJob's word, which Volcano
// leaves out.
func config(t *testing.T, text string) string {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	delete(tree, "environment")
	if cluster, ok := tree["cluster"].(map[string]any); ok {
		delete(cluster, "evaluator")
	}
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
