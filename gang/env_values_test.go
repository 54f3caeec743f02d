package gang_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

func newFieldEnv(name, path string) corev1.EnvVar {
	source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	return corev1.EnvVar{Name: name, ValueFrom: source}
}

func TestResolveEnv(t *testing.T) {
	job := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team"}}}
	job.Template().Labels = map[string]string{"app": "llama"}
	known := func(text string) gang.EnvValue { return gang.EnvValue{Text: text, Known: true} }
	for name, c := range map[string]struct {
		env      []corev1.EnvVar
		envFrom  bool
		injected map[string]gang.EnvValue
		want     gang.EnvValue // of the last variable
	}{
		"reference to an earlier variable": {
			env:  []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "$(A)-$(A)"}},
			want: known("a-a"),
		},
		"reference to a later variable stays": {
			env:  []corev1.EnvVar{{Name: "A", Value: "$(B)"}},
			want: known("$(B)"),
		},
		"escaped reference stays": {
			env:  []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "$$(A) $ $A $("}},
			want: known("$(A) $ $A $("),
		},
		"reference to an unknown source is not known": {
			env: []corev1.EnvVar{
				{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "a"}}},
				{Name: "B", Value: "$(A)"},
			},
		},
		"reference can be to a variable of envFrom": {
			env: []corev1.EnvVar{{Name: "A", Value: "$(B)"}}, envFrom: true,
		},
		"reference to an injected variable": {
			env:      []corev1.EnvVar{{Name: "A", Value: "$(RANK)"}},
			injected: map[string]gang.EnvValue{"RANK": known("7")},
			want:     known("7"),
		},
		"completion index of a Job": {
			env:  []corev1.EnvVar{{Name: "A", Value: "$(JOB_COMPLETION_INDEX)"}},
			want: known(gang.IndexPlaceholder),
		},
		"fields that the workload determines": {
			env: []corev1.EnvVar{
				newFieldEnv("N", "metadata.namespace"), newFieldEnv("J", "metadata.labels['job-name']"),
				newFieldEnv("A", "metadata.labels['app']"),
				newFieldEnv("I", "metadata.annotations['batch.kubernetes.io/job-completion-index']"),
				{Name: "ALL", Value: "$(N)/$(J)/$(A)/$(I)"},
			},
			want: known("team/train/llama/" + gang.IndexPlaceholder),
		},
		"field that differs between pods": {
			env:  []corev1.EnvVar{newFieldEnv("IP", "status.podIP")},
			want: known("<status.podIP>"),
		},
		"label that the template does not have": {
			env: []corev1.EnvVar{newFieldEnv("A", "metadata.labels['zone']")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			container := corev1.Container{Env: c.env}
			if c.envFrom {
				container.EnvFrom = []corev1.EnvFromSource{{}}
			}
			values := job.ResolveEnv(&container, c.injected)
			if diff := cmp.Diff(c.want, values[len(values)-1]); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResolveEnvBounded checks that references which double a text do not exhaust the memory.
func TestResolveEnvBounded(t *testing.T) {
	env := []corev1.EnvVar{{Name: "V0", Value: "0123456789"}}
	for i := range 64 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i+1), Value: fmt.Sprintf("$(V%d)$(V%d)", i, i)})
	}
	total := 0
	for _, value := range (gang.Workload{Job: &batchv1.Job{}}).ResolveEnv(&corev1.Container{Env: env}, nil) {
		total += len(value.Text)
	}
	if total == 0 || total > 1<<20 {
		t.Errorf("the values have %d bytes", total)
	}
}

func TestCompleteHost(t *testing.T) {
	g := gang.Gang{
		Name: "train", Namespace: "team", ClusterDomain: "cluster.local", ServiceName: "ranks", WorkloadName: "train",
		Role: "worker", Size: 2, Members: []gang.Member{{Role: "worker", WorkloadName: "train", Size: 2}},
	}
	const complete = "train-1.ranks.team.svc.cluster.local"
	for host, want := range map[string]string{
		"train-1.ranks":                  complete,
		"Train-1.Ranks.team":             complete,
		"train-1.ranks.team.svc":         complete,
		complete:                         complete,
		complete + ".":                   complete,
		"train-1.ranks.team.svc.":        "train-1.ranks.team.svc.",
		"train-1.ranks.team.svc.cluster": "train-1.ranks.team.svc.cluster",
		"train-1.ranks.other":            "train-1.ranks.other",
		"train-1.train":                  "train-1.train",
		"train-1":                        "train-1",
		"train-2.ranks":                  "train-2.ranks",
		"train-01.ranks":                 "train-01.ranks",
		"ranks":                          "ranks",
		"localhost":                      "localhost",
		"train-" + gang.IndexPlaceholder + ".ranks": "train-" + gang.IndexPlaceholder + ".ranks.team.svc.cluster.local",
	} {
		if got := g.CompleteHost(host, nil); got != want {
			t.Errorf("CompleteHost(%q) = %q, want %q", host, got, want)
		}
	}
	if got := g.CompleteHost("train-1", []string{"ranks.team.svc.cluster.local"}); got != complete {
		t.Errorf("with a search domain, the host is %q", got)
	}
	g.Size, g.Members[0].Size = 1, 1
	for _, host := range []string{"localhost", "127.0.0.1", "ranks", "ranks.team.svc", "train-0.ranks"} {
		if got := g.CompleteHost(host, nil); got != "train-0.ranks.team.svc.cluster.local" {
			t.Errorf("in a gang of one pod, CompleteHost(%q) = %q", host, got)
		}
	}
}

func TestServiceFromAddress(t *testing.T) {
	f := gang.Framework{Name: "pytorch", Roles: []gang.Role{{Name: "worker"}}, DefaultRole: "worker", Port: 1234}
	for name, c := range map[string]struct {
		container corev1.Container
		subdomain string
		want      string
	}{
		"variable": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "MASTER_ADDR", Value: "train-0.a.team"}}}, want: "a",
		},
		"composed variable": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", Value: "a"}, {Name: "HOST", Value: "train-0.$(S)"}}},
			want:      "a",
		},
		"flag":             {container: corev1.Container{Args: []string{"--master-addr", "train-0.a"}}, want: "a"},
		"flag with a port": {container: corev1.Container{Args: []string{"--rdzv_endpoint=train-0.a:29400"}}, want: "a"},
		"URL in a script": {
			container: corev1.Container{Command: []string{"sh", "-c", `export INIT_URL="tcp://train-0.a:1"; x`}}, want: "a",
		},
		"file":           {container: corev1.Container{Args: []string{"--output", "train-0.log"}}, want: "train"},
		"other workload": {container: corev1.Container{Args: []string{"--host=my-train-0.a"}}, want: "train"},
		"own subdomain":  {container: corev1.Container{Args: []string{"--host=train-0.a"}}, subdomain: "b", want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"},
			}}}
			w.Template().Spec.Containers, w.Template().Spec.Subdomain = []corev1.Container{c.container}, c.subdomain
			g, _, denials := gang.Parse(w, gang.Frameworks{f}, gang.Config{})
			if len(denials) > 0 {
				t.Fatal(denials.ErrorList().ToAggregate())
			}
			if g.ServiceName != c.want {
				t.Errorf("the Service is %q, want %q", g.ServiceName, c.want)
			}
		})
	}
}
