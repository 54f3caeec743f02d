package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/test/cluster"
)

const (
	testDir   = "testdata"
	testFile  = "alerts.yaml"
	alertFile = "../../charts/rollcall/files/alerts.yaml"
)

// TestAlerts runs the cases of promtool.
func TestAlerts(t *testing.T) {
	for name, args := range map[string][]string{
		"the rules are valid":            {"check", "rules", "--lint=all", "--lint-fatal", filepath.Join("..", alertFile)},
		"the alerts fire as in the file": {"test", "rules", testFile},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := cluster.RunPromtool(t.Context(), testDir, args...); err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
		})
	}
}

// TestAlertCases checks that every alert has a case in which it fires, and a case in which it does not fire.
func TestAlertCases(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
			} `json:"rules"`
		} `json:"groups"`
	}
	readYAML(t, alertFile, &rules)
	var cases struct {
		Tests []struct {
			AlertRuleTest []struct {
				AlertName string           `json:"alertname"`
				ExpAlerts []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	readYAML(t, filepath.Join(testDir, testFile), &cases)
	type outcomes struct{ Fires, DoesNotFire bool }
	got, want := map[string]outcomes{}, map[string]outcomes{}
	for _, test := range cases.Tests {
		for _, c := range test.AlertRuleTest {
			o := got[c.AlertName]
			o.Fires = o.Fires || len(c.ExpAlerts) > 0
			o.DoesNotFire = o.DoesNotFire || len(c.ExpAlerts) == 0
			got[c.AlertName] = o
		}
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			want[rule.Alert] = outcomes{Fires: true, DoesNotFire: true}
		}
	}
	if len(want) == 0 {
		t.Fatal("there is no alert")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases of the alerts (-want, +got):\n%s", diff)
	}
}

func readYAML(t *testing.T, path string, out any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, out); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
}
