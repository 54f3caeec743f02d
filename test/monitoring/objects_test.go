package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/test/cluster"
)

const chartDir = "../../charts/rollcall"

// monitoringTemplate is the file with all objects for monitoring.
const monitoringTemplate = "templates/monitoring.yaml"

// objects are the rendered objects for monitoring. A field is nil if the object is not rendered.
type objects struct {
	ServiceMonitor *monitoringv1.ServiceMonitor
	PodMonitor     *monitoringv1.PodMonitor
	PrometheusRule *monitoringv1.PrometheusRule
	ConfigMap      *corev1.ConfigMap
}

// render returns the objects for monitoring. It decodes strictly, so an unknown field is an error.
func render(t *testing.T, values ...string) (objects, error) {
	t.Helper()
	helm, err := cluster.FindHelm(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"template", "rollcall", chartDir, "--namespace=rollcall-system", "--set=image.repository=a.example/b"}
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), helm, slices.Concat(args, values)...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return objects{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var out objects
	for manifest := range strings.SplitSeq(stdout.String(), "\n---\n") {
		if !strings.Contains(manifest, "# Source: rollcall/"+monitoringTemplate) {
			continue
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
			t.Fatal(err)
		}
		var object any
		switch kind.Kind {
		case "ServiceMonitor":
			out.ServiceMonitor = &monitoringv1.ServiceMonitor{}
			object = out.ServiceMonitor
		case "PodMonitor":
			out.PodMonitor = &monitoringv1.PodMonitor{}
			object = out.PodMonitor
		case "PrometheusRule":
			out.PrometheusRule = &monitoringv1.PrometheusRule{}
			object = out.PrometheusRule
		case "ConfigMap":
			out.ConfigMap = &corev1.ConfigMap{}
			object = out.ConfigMap
		default:
			t.Fatalf("an object has the kind %q", kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatalf("decoding the %s: %v", kind.Kind, err)
		}
	}
	return out, nil
}

func mustRender(t *testing.T, values ...string) objects {
	t.Helper()
	out, err := render(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMonitors checks that a ServiceMonitor and a PodMonitor describe the same targets, with the labels that
// the alerts and the dashboard select.
func TestMonitors(t *testing.T) {
	if diff := cmp.Diff(objects{}, mustRender(t)); diff != "" {
		t.Errorf("the default values create objects (-want, +got):\n%s", diff)
	}
	set := func(kind string) []string {
		prefix := "--set=metrics." + kind + "."
		return []string{
			prefix + "enabled=true", prefix + "interval=15s", prefix + "scrapeTimeout=5s",
			prefix + "labels.release=prometheus", prefix + "annotations.team=ml", prefix + "tlsConfig.serverName=metrics",
			prefix + "authorization.credentials.name=token", prefix + "authorization.credentials.key=token",
			prefix + "relabelings[0].action=labeldrop", prefix + "relabelings[0].regex=container",
			prefix + "metricRelabelings[0].action=drop", prefix + "metricRelabelings[0].regex=go_.*",
		}
	}
	service := mustRender(t, set("serviceMonitor")...).ServiceMonitor
	pods := mustRender(t, set("podMonitor")...).PodMonitor
	if service == nil || pods == nil {
		t.Fatal("a monitor was not rendered")
	}
	if diff := cmp.Diff(service.ObjectMeta, pods.ObjectMeta); diff != "" {
		t.Errorf("metadata (-ServiceMonitor, +PodMonitor):\n%s", diff)
	}
	if service.Labels["release"] != "prometheus" || service.Annotations["team"] != "ml" {
		t.Errorf("the metadata is %v, %v", service.Labels, service.Annotations)
	}
	s, p := service.Spec.Endpoints[0], pods.Spec.PodMetricsEndpoints[0]
	if s.Port != "metrics" || p.Port == nil || *p.Port != s.Port {
		t.Errorf("the ports are %q and %v", s.Port, p.Port)
	}
	for name, pair := range map[string][2]any{
		"interval":          {s.Interval, p.Interval},
		"scrapeTimeout":     {s.ScrapeTimeout, p.ScrapeTimeout},
		"authorization":     {s.Authorization.Credentials, p.Authorization.Credentials},
		"serverName":        {s.TLSConfig.ServerName, p.TLSConfig.ServerName},
		"relabelings":       {s.RelabelConfigs, p.RelabelConfigs},
		"metricRelabelings": {s.MetricRelabelConfigs, p.MetricRelabelConfigs},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-ServiceMonitor, +PodMonitor):\n%s", name, diff)
		}
	}
	if !s.HonorLabels || !p.HonorLabels {
		t.Error("the namespace of a target replaces that of a gang")
	}
	var labels []string
	for _, relabeling := range s.RelabelConfigs {
		labels = append(labels, relabeling.TargetLabel)
	}
	if diff := cmp.Diff([]string{"job", "component", ""}, labels); diff != "" {
		t.Errorf("labels of the targets (-want, +got):\n%s", diff)
	}
}

// TestPrometheusRule checks that the PrometheusRule contains the file with the alerts, changed by values.
func TestPrometheusRule(t *testing.T) {
	rule := mustRender(t, "--set=metrics.prometheusRule.enabled=true").PrometheusRule
	if rule == nil {
		t.Fatal("the PrometheusRule was not rendered")
	}
	var want monitoringv1.PrometheusRuleSpec
	readYAML(t, alertFile, &want)
	if diff := cmp.Diff(want, rule.Spec); diff != "" {
		t.Errorf("rules (-file, +object):\n%s", diff)
	}
	short := mustRender(t, "--set=metrics.prometheusRule.enabled=true,certificates.duration=24h").PrometheusRule
	for _, r := range short.Spec.Groups[0].Rules {
		// The webhook renews this certificate when 8 hours remain.
		if expr := r.Expr.String(); r.Alert == "RollcallCertificateExpiring" && !strings.HasSuffix(expr, "< 12342") {
			t.Errorf("with certificates.duration=24h, the expression is %s", expr)
		}
	}
	changed := mustRender(t, "--set=metrics.prometheusRule.enabled=true",
		"--set=metrics.prometheusRule.labels.release=prometheus",
		"--set=metrics.prometheusRule.alertLabels.severity=page,metrics.prometheusRule.alertLabels.team=ml",
		"--set=metrics.prometheusRule.runbookURL=https://wiki.example/rollcall/",
		"--set=metrics.prometheusRule.disabledAlerts={RollcallPanic}").PrometheusRule
	if changed.Labels["release"] != "prometheus" {
		t.Errorf("the labels are %v", changed.Labels)
	}
	count := 0
	for _, group := range changed.Spec.Groups {
		for _, r := range group.Rules {
			count++
			if diff := cmp.Diff(map[string]string{"severity": "page", "team": "ml"}, r.Labels); diff != "" {
				t.Errorf("labels of %s (-want, +got):\n%s", r.Alert, diff)
			}
			if want := "https://wiki.example/rollcall/" + r.Alert + ".md"; r.Annotations["runbook_url"] != want {
				t.Errorf("the runbook of %s is %s", r.Alert, r.Annotations["runbook_url"])
			}
			if r.Alert == "RollcallPanic" {
				t.Error("a disabled alert was rendered")
			}
		}
	}
	all := 0
	for _, group := range want.Groups {
		all += len(group.Rules)
	}
	if count != all-1 {
		t.Errorf("%d alerts, want %d", count, all-1)
	}
}

// TestAlertsWithoutOwnCertificates checks that the PrometheusRule contains no alert that cannot fire because the
// webhook exports its metric only if it manages its certificate, and that all other alerts remain.
func TestAlertsWithoutOwnCertificates(t *testing.T) {
	var all monitoringv1.PrometheusRuleSpec
	readYAML(t, alertFile, &all)
	onlySelfManaged := regexp.MustCompile(`rollcall_(certificate_expiration|webhook_configuration_missing)`)
	want := map[string]bool{}
	for _, group := range all.Groups {
		for _, r := range group.Rules {
			if !onlySelfManaged.MatchString(r.Expr.String()) {
				want[r.Alert] = true
			}
		}
	}
	for name, values := range map[string][]string{
		"cert-manager": {"--set=certificates.mode=cert-manager"},
		"a Secret":     {"--set=certificates.mode=secret,certificates.secretName=tls"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := mustRender(t, append(values, "--set=metrics.prometheusRule.enabled=true")...).PrometheusRule
			got := map[string]bool{}
			for _, group := range rule.Spec.Groups {
				for _, r := range group.Rules {
					got[r.Alert] = true
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("alerts (-want, +got):\n%s", diff)
			}
		})
	}
}

// TestDocumentedRules checks the rules of the page that replace these alerts.
func TestDocumentedRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, found := strings.Cut(string(page), "```yaml\n# rules.yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	if !found {
		t.Fatal("the page has no rules")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := cluster.RunPromtool(t.Context(), dir, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	if err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestDashboard checks that the ConfigMap contains the file with the dashboard, and that the panels have
// different identifiers and do not overlap.
func TestDashboard(t *testing.T) {
	file, err := os.ReadFile(chartDir + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	configMap := mustRender(t, "--set=metrics.dashboard.enabled=true",
		"--set=metrics.dashboard.annotations.grafana_folder=ML").ConfigMap
	if configMap == nil {
		t.Fatal("the ConfigMap was not rendered")
	}
	if configMap.Labels["grafana_dashboard"] != "1" || configMap.Annotations["grafana_folder"] != "ML" {
		t.Errorf("the metadata is %v, %v", configMap.Labels, configMap.Annotations)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(file)), configMap.Data["rollcall.json"]); diff != "" {
		t.Errorf("dashboard (-file, +object):\n%s", diff)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ H, W, X, Y int }
		}
	}
	if err := json.Unmarshal(file, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if other := ids[panel.ID]; other != "" {
			t.Errorf("%s and %s have the same id", panel.Title, other)
		}
		ids[panel.ID] = panel.Title
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("%s and %s overlap", panel.Title, other)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
	}
}

// TestContradictions checks that the chart rejects values that contradict each other.
func TestContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		values  []string
		wantErr string
	}{
		"two monitors": {
			values:  []string{"--set=metrics.serviceMonitor.enabled=true", "--set=metrics.podMonitor.enabled=true"},
			wantErr: "scrape each pod twice",
		},
		"a monitor without metrics": {
			values:  []string{"--set=metrics.serviceMonitor.enabled=true", "--set=metrics.enabled=false"},
			wantErr: "metrics.serviceMonitor.enabled: must be false if metrics.enabled is false",
		},
		"a ServiceMonitor that secure metrics refuse": {
			values:  []string{"--set=metrics.secure=true,metrics.serviceMonitor.enabled=true"},
			wantErr: "metrics.serviceMonitor.authorization: required with metrics.secure",
		},
		"a PodMonitor that cannot verify the certificate": {
			values: []string{"--set=metrics.secure=true,metrics.podMonitor.enabled=true",
				"--set=metrics.podMonitor.authorization.credentials.name=token"},
			wantErr: "metrics.podMonitor.tlsConfig: required with metrics.secure",
		},
		"an unknown alert": {
			values:  []string{"--set=metrics.prometheusRule.disabledAlerts={RollcallDown}"},
			wantErr: "the alert RollcallDown does not exist",
		},
		"an unknown field": {
			values:  []string{"--set=metrics.podMonitor.namespace=monitoring"},
			wantErr: "additional properties 'namespace' not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, c.values...); err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("the error is %v, want an error with %q", err, c.wantErr)
			}
		})
	}
}
