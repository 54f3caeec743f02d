package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// monitoringPolicy denies gangs of more than four ranks, and finds that no gang has a limit of its runtime.
const monitoringPolicy = `{"cluster": {"limits": {
	"size": {"max": 4}, "runtime": {"required": true, "max": "72h", "mode": "audit"}
}}}`

// TestMonitoring scrapes the pods of Rollcall with Prometheus, as docs/tasks/monitor.md describes, while gangs
// succeed, restart, are disrupted, fail, wait and are denied. Then every panel of the dashboard has data, every
// alert can be evaluated, and none of them fires.
func TestMonitoring(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	s.replaceRelease(t, "--set=metrics.dashboard.enabled=true", "--set=policy.enabled=true",
		"--set-json=policy.file="+monitoringPolicy)
	server, err := s.StartPrometheus(t.Context(), s.newPrometheusConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	p := prometheusServer(server)
	wait.For(t, "four targets", func(ctx context.Context) error {
		targets, err := p.query(ctx, t, `up{job="rollcall", component=~"webhook|controller"} == 1`)
		if err == nil && len(targets) != 4 {
			err = fmt.Errorf("%d targets are up", len(targets))
		}
		return err
	})
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "run.sh", exitOnTermProgram)
	// The first event creates the series of a counter, and only the second event increases the counter.
	for _, round := range []string{"a", "b"} {
		s.runMonitoredGangs(t, ns, round)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$namespace", ns)
	for panel, expressions := range s.readDashboard(t) {
		for _, expression := range expressions {
			wait.For(t, "data of the panel "+panel, func(ctx context.Context) error {
				values, err := p.query(ctx, t, variables.Replace(expression))
				if err == nil && !slices.ContainsFunc(values, func(v string) bool { return v != "NaN" }) {
					err = fmt.Errorf("%s has no value", expression)
				}
				return err
			})
		}
	}
	wait.For(t, "the evaluation of all alerts", func(ctx context.Context) error { return p.checkAlerts(ctx, t) })
	t.Run("the alert about a deleted webhook configuration becomes active", func(t *testing.T) {
		err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
			Delete(t.Context(), installation.Release, metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the alert", func(ctx context.Context) error {
			alerts, err := p.query(ctx, t,
				`ALERTS{alertname="RollcallWebhookConfigurationMissing", kind="MutatingWebhookConfiguration"}`)
			if err == nil && len(alerts) != 1 {
				err = fmt.Errorf("%d alerts are active", len(alerts))
			}
			return err
		})
	})
}

// newPrometheusConfig returns the configuration in docs/tasks/monitor.md, with short intervals.
func (s *testCluster) newPrometheusConfig(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repositoryRoot, "docs", "tasks", "monitor.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/tasks/monitor.md has no scrape_configs")
	}
	rules, err := filepath.Abs(filepath.Join(repositoryRoot, "charts", "rollcall", "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const discovery = "- role: pod\n"
	if !strings.Contains(string(block[1]), discovery) {
		t.Fatal("the configuration in docs/tasks/monitor.md has changed")
	}
	scrape := strings.Replace(string(block[1]), discovery, discovery+"        kubeconfig_file: "+s.Kubeconfig()+"\n", 1)
	return fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n%s", rules, scrape)
}

// runMonitoredGangs runs gangs until they have the phases that the dashboard shows. The last gang stays Pending.
func (s *testCluster) runMonitoredGangs(t *testing.T, ns, round string) {
	t.Helper()
	spec := s.newPodSpec("sh", "run.sh")
	s.createJob(t, ns, "restarts-"+round, 2, nil, spec)
	s.createJob(t, ns, "succeeds-"+round, 2, nil, s.newPodSpec("sleep", "8"))
	s.createJob(t, ns, "fails-"+round, 2, map[string]string{gang.AnnotationMaxRestarts: "0"}, s.newPodSpec("false"))
	waiting := s.newPodSpec("sleep", "8")
	waiting.NodeSelector = map[string]string{"nodes": "none"}
	s.createJob(t, ns, "waits-"+round, 2, nil, waiting)
	// The mutating webhook denies invalid workloads, and the validating webhook those that violate the policy.
	for completions, want := range map[int32]string{8: "cluster/size", 9: "spec.completions"} {
		_, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "denied", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
			Spec: batchv1.JobSpec{
				Parallelism: ptr.To[int32](8), Completions: &completions, Template: corev1.PodTemplateSpec{Spec: spec},
			},
		}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("a gang with %d completions was not denied because of %s: %v", completions, want, err)
		}
	}
	s.createJob(t, ns, "disrupted-"+round, 2, nil, s.newPodSpec("sleep", "20"))
	s.waitForGangStatus(t, ns, "disrupted-"+round, lifecycle.Running, 0)
	if err := s.deletePod(t.Context(), s.listPods(t, ns, "disrupted-"+round)[0]); err != nil {
		t.Fatal(err)
	}
	s.waitForGangStatus(t, ns, "disrupted-"+round, lifecycle.Running, 1)
	s.waitForTerminalPhase(t, ns, "succeeds-"+round, lifecycle.Succeeded)
	s.waitForTerminalPhase(t, ns, "fails-"+round, lifecycle.Failed)
	s.waitForTerminalPhase(t, ns, "restarts-"+round, lifecycle.Succeeded)
}

// readDashboard returns the expressions of each panel of the installed dashboard.
func (s *testCluster) readDashboard(t *testing.T) map[string][]string {
	t.Helper()
	installed, err := s.client.CoreV1().ConfigMaps(installation.Namespace).
		Get(t.Context(), installation.Release+"-dashboard", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if installed.Labels["grafana_dashboard"] != "1" {
		t.Errorf("the labels of the dashboard are %v", installed.Labels)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(installed.Data["rollcall.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	expressions := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions[panel.Title] = append(expressions[panel.Title], target.Expr)
		}
	}
	if len(expressions) < 20 {
		t.Fatalf("the dashboard has only %d panels with queries", len(expressions))
	}
	return expressions
}

// prometheusServer is the URL of a Prometheus.
type prometheusServer string

// query returns the values of the result of an expression. It fails the test if the expression is invalid.
func (p prometheusServer) query(ctx context.Context, t *testing.T, expression string) ([]string, error) {
	t.Helper()
	var data struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	}
	err := p.get(ctx, t, "/api/v1/query?query="+url.QueryEscape(expression), &data)
	var values []string
	for _, sample := range data.Result {
		values = append(values, fmt.Sprint(sample.Value[1]))
	}
	return values, err
}

// get calls the API of Prometheus. It fails the test if Prometheus rejects the request.
func (p prometheusServer) get(ctx context.Context, t *testing.T, path string, data any) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(p)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", path, answer.Error)
	}
	return nil
}

// checkAlerts returns an error if an alert was not evaluated. It fails the test if an alert has an error or is
// active.
func (p prometheusServer) checkAlerts(ctx context.Context, t *testing.T) error {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	if err := p.get(ctx, t, "/api/v1/rules?type=alert", &data); err != nil {
		return err
	}
	count := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			count++
			switch {
			case rule.LastError != "":
				t.Fatalf("%s: %s", rule.Name, rule.LastError)
			case rule.Health != "ok":
				return fmt.Errorf("%s: the health is %s", rule.Name, rule.Health)
			case rule.State != "inactive":
				return fmt.Errorf("%s is %s", rule.Name, rule.State)
			}
		}
	}
	if count == 0 {
		t.Fatal("Prometheus has no alerts")
	}
	return nil
}
