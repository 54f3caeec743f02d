package chart

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// readApprovalPage returns a section of the page for platform teams.
func readApprovalPage(t *testing.T, section string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/tasks/approve-rollcall.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n"+section+"\n")
	if !found {
		t.Fatalf("the page has no section %q", section)
	}
	return regexp.MustCompile(`\n##+ `).Split(rest, 2)[0]
}

// TestDocumentedConnections checks that the page lists each port of the chart.
func TestDocumentedConnections(t *testing.T) {
	table := readApprovalPage(t, "## Connections")
	for _, deployment := range findDeployments(t, render(t, nil)) {
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			if !strings.Contains(table, fmt.Sprintf("| %d |", port.ContainerPort)) {
				t.Errorf("the page does not list the port %s (%d) of %s", port.Name, port.ContainerPort, deployment.Name)
			}
		}
	}
}

// TestDocumentedNetworkPolicies checks the values of the page: the policy for egress selects all pods of the chart,
// also those of hooks. The policies for ingress permit Prometheus to read the metrics of both components.
func TestDocumentedNetworkPolicies(t *testing.T) {
	section := readApprovalPage(t, "### Limit the connections")
	match := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(section)
	if match == nil {
		t.Fatal("the page contains no values")
	}
	var v values
	if err := yaml.UnmarshalStrict([]byte(match[1]), &v); err != nil {
		t.Fatal(err)
	}
	var selector labels.Selector
	pods, scraped := map[string]map[string]string{}, 0
	objects := render(t, v)
	for _, deployment := range findDeployments(t, objects) {
		pods[deployment.Name] = deployment.Spec.Template.Labels
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *batchv1.Job:
			pods[o.Name] = o.Spec.Template.Labels
		case *corev1.Pod:
			pods[o.Name] = o.Labels
		case *networkingv1.NetworkPolicy:
			if o.Spec.PolicyTypes[0] != networkingv1.PolicyTypeEgress {
				scraped += countMetricsRules(o)
				continue
			}
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(&o.Spec.PodSelector); err != nil {
				t.Fatal(err)
			}
		}
	}
	if selector == nil || len(pods) < 4 {
		t.Fatalf("found the selector %v and %d pods, want those of two Deployments and two hooks", selector, len(pods))
	}
	for name, set := range pods {
		if !selector.Matches(labels.Set(set)) {
			t.Errorf("the policy does not select the pods of %s: %v", name, set)
		}
	}
	if scraped != 2 {
		t.Errorf("%d policies permit Prometheus to read metrics, want those of the webhook and of the controller", scraped)
	}
}

// countMetricsRules returns the number of rules that permit pods of Prometheus to read metrics.
func countMetricsRules(policy *networkingv1.NetworkPolicy) int {
	count := 0
	for _, rule := range policy.Spec.Ingress {
		for _, peer := range rule.From {
			if rule.Ports[0].Port.String() == "metrics" && peer.PodSelector != nil &&
				peer.PodSelector.MatchLabels["app.kubernetes.io/name"] == "prometheus" {
				count++
			}
		}
	}
	return count
}

// TestDocumentedSize checks that the table of the page contains the results of its formula.
func TestDocumentedSize(t *testing.T) {
	text := readApprovalPage(t, "## Size")
	formula := regexp.MustCompile(`(\d+) MiB \+ (\d+) KiB for each pod of gangs \+ (\d+) KiB for each gang \| ([\d.]+) ×`)
	match := formula.FindStringSubmatch(text)
	if match == nil {
		t.Fatal("the page contains no formula")
	}
	number := func(text string) float64 {
		value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	base, perPod, perGang, factor := number(match[1]), number(match[2]), number(match[3]), number(match[4])
	row := regexp.MustCompile(`(?m)^\| ([\d,]+) \| ([\d,]+) \| (\d+) MiB \| (\d+) MiB \|$`)
	rows := row.FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		t.Fatal("the page contains no sizes")
	}
	for _, row := range rows {
		memory := base + (number(row[2])*perPod+number(row[1])*perGang)/1024
		want := fmt.Sprintf("%.0f, %.0f", math.Round(memory), math.Round(memory*factor))
		if got := row[3] + ", " + row[4]; got != want {
			t.Errorf("%s gangs of %s pods: the page has the sizes %s, want %s", row[1], row[2], got, want)
		}
	}
}
