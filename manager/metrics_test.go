package manager

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

const chartFiles = "../charts/rollcall/files/"

// listRegisteredMetrics returns the metrics that the webhook and the controller register, with their labels.
func listRegisteredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	t.Setenv("KUBECONFIG", startBrokenAPIServer(t))
	flags := []string{
		"--namespace=a", "--policy-configmap=policy", "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
	var webhook webhookOptions
	webhookFlags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	webhook.addFlags(webhookFlags)
	var controller controllerOptions
	controllerFlags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	controller.addFlags(controllerFlags)
	for _, f := range []*pflag.FlagSet{webhookFlags, controllerFlags} {
		if err := f.Parse(flags); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newWebhookManager(webhook, healthz.Ping); err != nil {
		t.Fatal(err)
	}
	if _, err := newControllerManager(t.Context(), controller); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		metrics.Registry.(prometheus.Collector).Describe(descriptions)
		close(descriptions)
	}()
	// The only way to read the name and the labels of a Desc is its text.
	format := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	registered := map[string][]string{}
	for description := range descriptions {
		match := format.FindStringSubmatch(description.String())
		if match == nil {
			t.Fatalf("the format of a Desc has changed: %s", description)
		}
		labels := strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' })
		registered[match[1]] = slices.Sorted(slices.Values(labels))
	}
	return registered
}

// TestMetricNames checks that the alerts, the dashboard and the reference contain only metrics that exist.
func TestMetricNames(t *testing.T) {
	registered := listRegisteredMetrics(t)
	// Prometheus itself writes these series.
	registered["up"], registered["ALERTS"] = nil, nil
	for source, expressions := range map[string]map[string]string{
		"alerts": readAlertExpressions(t), "dashboard": readPanelExpressions(t),
	} {
		if len(expressions) < 10 {
			t.Errorf("the %s have only %d expressions", source, len(expressions))
		}
		for name, expression := range expressions {
			metricNames := listMetricNames(expression)
			if len(metricNames) == 0 {
				t.Errorf("%s: %s: found no metric in %s", source, name, expression)
			}
			for _, metric := range metricNames {
				if _, ok := registered[metric]; ok {
					continue
				}
				histogram := strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")
				if _, ok := registered[histogram]; !ok {
					t.Errorf("%s: %s: the metric %s does not exist", source, name, metric)
				}
			}
		}
	}
	own := map[string][]string{}
	for name, labels := range registered {
		if strings.HasPrefix(name, "rollcall_") {
			own[name] = labels
		}
	}
	if diff := cmp.Diff(own, readReferenceTable(t)); diff != "" {
		t.Errorf("the reference differs from the registered metrics (-registered, +documented):\n%s", diff)
	}
}

// readAlertExpressions returns the expressions of the alerts by name.
func readAlertExpressions(t *testing.T) map[string]string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string } `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(readFile(t, chartFiles+"alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			expressions[rule.Alert] = rule.Expr
		}
	}
	return expressions
}

// readPanelExpressions returns the expressions of the dashboard by panel and query.
func readPanelExpressions(t *testing.T) map[string]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(readFile(t, chartFiles+"dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions[fmt.Sprintf("%s, query %s", panel.Title, target.RefID)] = target.Expr
		}
	}
	return expressions
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var (
	// labelParts matches the parts of an expression that contain labels and ranges, and otherParts matches
	// functions and operators.
	labelParts = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|on|without)\s*\([^)]*\)`)
	otherParts = regexp.MustCompile(`\w+\s*\(|\b(or|and|unless)\b`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

// listMetricNames returns the names of the metrics in an expression of PromQL.
func listMetricNames(expression string) []string {
	return identifier.FindAllString(otherParts.ReplaceAllString(labelParts.ReplaceAllString(expression, " "), " "), -1)
}

// TestListMetricNames checks the function on which TestMetricNames relies.
func TestListMetricNames(t *testing.T) {
	for expression, want := range map[string][]string{
		`absent(up{job="rollcall"} == 1)`:                                  {"up"},
		`sum by (le, job) (rate(a_bucket{x="y"}[10m]) or increase(b[1h]))`: {"a_bucket", "b"},
		`time() - min by (phase) (c) > 5 + 0.2 * scalar(d or vector(0))`:   {"c", "d"},
		`sum(rate(e[$__rate_interval])) without (pod) and on (pod) f`:      {"e", "f"},
	} {
		if diff := cmp.Diff(want, listMetricNames(expression)); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", expression, diff)
		}
	}
}

// readReferenceTable returns the labels of each metric in the reference.
func readReferenceTable(t *testing.T) map[string][]string {
	t.Helper()
	text := string(readFile(t, "../docs/reference/metrics-and-events.md"))
	row := regexp.MustCompile("(?m)^\\| `(rollcall_[a-z_]+)` \\| [a-z]+ \\| [a-z]+ \\|([^|]*)\\|")
	code := regexp.MustCompile("`([^`]+)`")
	documented := map[string][]string{}
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		labels := map[string]bool{}
		for _, label := range code.FindAllStringSubmatch(match[2], -1) {
			labels[label[1]] = true
		}
		documented[match[1]] = slices.Sorted(maps.Keys(labels))
	}
	return documented
}
