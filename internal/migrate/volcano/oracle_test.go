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
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// volcanoJob has the fields of a Volcano Job that the plugins read.
type volcanoJob struct {
	Metadata struct{ Name string }
	Spec     struct {
		Plugins map[string][]string
		Tasks   []struct {
			Name     string
			Replicas int
		}
	}
}

// podHost returns the hostname of a pod, by the rule of helpers.MakeDomainName.
func (f volcanoJob) podHost(task string, i int) string {
	return fmt.Sprintf("%s-%s-%d.%s", f.Metadata.Name, task, i, f.Metadata.Name)
}

func (f volcanoJob) podHosts(task, after string) []string {
	var out []string
	for _, t := range f.Spec.Tasks {
		for i := range t.Replicas {
			if t.Name == task {
				out = append(out, f.podHost(task, i)+after)
			}
		}
	}
	return out
}

// expectedVars returns the variables that Volcano's plugins set in a pod, by their source
// (pkg/controllers/job/plugins, OnPodCreate). The role of a task follows from the flags of the plugin.
func (f volcanoJob) expectedVars(task string, index int, role func(task string) string, port int) map[string]string {
	env := map[string]string{}
	if _, ok := f.Spec.Plugins["env"]; ok {
		env["VK_TASK_INDEX"], env["VC_TASK_INDEX"] = strconv.Itoa(index), strconv.Itoa(index)
	}
	cluster, world, rank := map[string]any{}, 0, index
	for _, t := range f.Spec.Tasks { // the other plugins enable svc
		name := strings.ToUpper(strings.ReplaceAll(t.Name, "-", "_"))
		env["VC_"+name+"_HOSTS"] = strings.Join(f.podHosts(t.Name, ""), ",")
		env["VC_"+name+"_NUM"] = strconv.Itoa(t.Replicas)
		cluster[role(t.Name)] = f.podHosts(t.Name, fmt.Sprintf(":%d", port))
		world += t.Replicas
		if role(t.Name) == "master" && role(task) == "worker" {
			rank = index + 1
		}
		if _, ok := f.Spec.Plugins["mpi"]; ok && role(t.Name) == "worker" && role(task) == "launcher" {
			env["MPI_HOST"] = strings.Join(f.podHosts(t.Name, ""), ",")
		}
		if _, ok := f.Spec.Plugins["pytorch"]; ok && role(t.Name) == "master" {
			env["MASTER_ADDR"], env["MASTER_PORT"] = f.podHost(t.Name, 0), strconv.Itoa(port)
		}
	}
	if _, ok := f.Spec.Plugins["pytorch"]; ok {
		env["WORLD_SIZE"], env["RANK"] = strconv.Itoa(world), strconv.Itoa(rank)
	}
	if _, ok := f.Spec.Plugins["tensorflow"]; ok {
		text, _ := json.Marshal(map[string]any{
			"cluster": cluster, "task": map[string]any{"type": role(task), "index": index},
		})
		env["TF_CONFIG"] = string(text)
	}
	return env
}

// TestVariables compares the variables of each pod with those of Volcano's plugins. The new hostnames
// are translated to the former ones.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		file     string
		document int
		port     int
		roles    []string // task=role, in the order of the ranks
	}{
		{file: "pytorch.yaml", port: 29500, roles: []string{"chief=master", "crew=worker"}},
		{file: "pytorch-alike.yaml", port: 23456, roles: []string{"master=master", "worker=worker"}},
		{
			file: "tensorflow.yaml", port: 3333,
			roles: []string{"boss=chief", "worker=worker", "server=ps", "judge=evaluator"},
		},
		{file: "tensorflow.yaml", document: 1, port: 2222, roles: []string{"worker=worker", "ps=ps"}},
		{file: "mpi.yaml", port: 22, roles: []string{"mpimaster=launcher", "mpiworker=worker"}},
		{file: "mpi.yaml", document: 1, port: 22, roles: []string{"mpimaster=launcher", "mpiworker=worker"}},
		{file: "torchrun.yaml", roles: []string{"node=worker"}},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.file, c.document), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "testdata", "volcano-job", c.file))
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.Split(text, []byte("\n---\n"))[c.document]
			var old volcanoJob
			if err := yaml.Unmarshal(text, &old); err != nil {
				t.Fatal(err)
			}
			roles := map[string]string{}
			for _, p := range c.roles {
				task, role, _ := strings.Cut(p, "=")
				roles[task] = role
			}
			roleOf := func(task string) string { return roles[task] }
			pods := migratePodVars(t, text)
			names := mapPodNames(old, pods, c.roles)
			for _, task := range old.Spec.Tasks {
				for i := range task.Replicas {
					was := old.podHost(task.Name, i)
					compareVars(t, was, old.expectedVars(task.Name, i, roleOf, c.port), pods[names[was]], names)
				}
			}
		})
	}
}

// migratePodVars returns the variables of the first container of each pod after injection, expanded as
// by the kubelet. The keys are the short names of the pods.
func migratePodVars(t *testing.T, text []byte) map[string]map[string]string {
	t.Helper()
	docs, err := manifest.Read("job.yaml", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	config := gang.Config{ClusterDomain: gang.DefaultClusterDomain}
	result := migrate.Migrator{Config: config, Scheduler: source.SchedulerVolcano}.Migrate(docs)
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
			admitted, err := injectors.NewEngine(injectors.Builtin(), config).Inject(w)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(w.Ranks()) {
				name := fmt.Sprintf("%s-%d.%s", w.Meta().Name, i, admitted.Gang.Name)
				pods[name] = expandVars(w, i)
			}
		}
	}
	if len(pods) == 0 {
		t.Fatalf("no pods: %v", result.Reports)
	}
	return pods
}

// expandVars returns the variables of the first container of a pod.
func expandVars(w gang.Workload, index int) map[string]string {
	template := w.Template()
	offset, _ := strconv.Atoi(template.Labels[gang.LabelRankOffset])
	labels := map[string]string{w.IndexLabel(): strconv.Itoa(index), gang.LabelRank: strconv.Itoa(offset + index)}
	env := map[string]string{}
	for _, e := range template.Spec.Containers[0].Env {
		env[e.Name] = os.Expand(toShellReferences(e.Value), func(name string) string { return env[name] })
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			env[e.Name] = readLabelField(e.ValueFrom.FieldRef, labels)
		}
	}
	return env
}

var envReference = regexp.MustCompile(`\$\((\w+)\)`)

// toShellReferences converts references of the kubelet to those of a shell.
func toShellReferences(text string) string { return envReference.ReplaceAllString(text, "${$1}") }

func readLabelField(f *corev1.ObjectFieldSelector, labels map[string]string) string {
	name, ok := strings.CutPrefix(f.FieldPath, "metadata.labels['")
	if !ok {
		return ""
	}
	return labels[strings.TrimSuffix(name, "']")]
}

// mapPodNames maps the former name of each pod to the new one.
func mapPodNames(old volcanoJob, pods map[string]map[string]string, roles []string) map[string]string {
	names, next := map[string]string{}, 0
	for _, p := range roles {
		task, role, _ := strings.Cut(p, "=")
		for i := range old.podHosts(task, "") {
			name := fmt.Sprintf("%s-%s-%d.%s", old.Metadata.Name, role, i, old.Metadata.Name)
			if _, ok := pods[name]; !ok { // one workload has all roles
				name = fmt.Sprintf("%s-%d.%s", old.Metadata.Name, next, old.Metadata.Name)
			}
			names[old.podHost(task, i)] = name
			next++
		}
	}
	return names
}

func compareVars(t *testing.T, pod string, want, got map[string]string, names map[string]string) {
	t.Helper()
	if got == nil {
		t.Errorf("no pod replaces %s", pod)
		return
	}
	back := map[string]string{}
	for was, is := range names {
		back[is] = was
	}
	// The search domains of the pod complete a short name.
	short := regexp.MustCompile(`\.(default|team)\.svc\.cluster\.local`)
	host := regexp.MustCompile(`[a-z0-9-]+-[0-9]+\.[a-z0-9-]+`)
	for name, value := range want {
		have := host.ReplaceAllStringFunc(short.ReplaceAllString(got[name], ""), func(h string) string { return back[h] })
		if name == "TF_CONFIG" {
			have, value = normalizeTFConfig(t, have), normalizeTFConfig(t, value)
		}
		if diff := cmp.Diff(value, have); diff != "" {
			t.Errorf("%s of %s (-Volcano +Rollcall):\n%s", name, pod, diff)
		}
	}
}

// normalizeTFConfig formats a TF_CONFIG without the fields that differ on purpose. An evaluator is not a
// member of the cluster, and Volcano lists it. Volcano omits the environment, which TFJob sets.
func normalizeTFConfig(t *testing.T, text string) string {
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
