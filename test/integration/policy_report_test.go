package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	reportsv1alpha1 "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestPolicyReports writes reports with the CustomResourceDefinition of openreports.io, the credentials of
// the controller, and the policies of the chart.
func TestPolicyReports(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := "policy:\n  enabled: true\n  reports: openreports\n  file:" + strings.ReplaceAll(limitsFile, "\n", "\n    ")
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.NewWithChart(t, c, []string{"--values", values})}
	m.waitForPolicyWebhook(t)
	ns := m.createNamespace(t)
	reports := dynamic.NewForConfigOrDie(c.Config()).
		Resource(reportsv1alpha1.SchemeGroupVersion.WithResource("reports")).Namespace(ns)

	m.createJob(t, ns, newLimitedJob("train", 2))
	m.writePolicy(t, strictFile)
	m.waitForEvent(t, ns, gang.ReasonPolicyViolated)
	wait.For(t, "the log line about the missing API", func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(c.LogDir(), "rollcall-controller.log"))
		if n := bytes.Count(log, []byte("Skipped the reports of the policy")); err == nil && n != 1 {
			err = fmt.Errorf("%d lines", n)
		}
		return err
	})
	createReportDefinition(t, c)
	m.Controller.Stop(t) // otherwise the controller looks for the API after 5 minutes
	m.Controller.Start(t)
	report := waitForReport(t, reports)
	job, err := m.Client.BatchV1().Jobs(ns).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owners := report.OwnerReferences
	if len(owners) != 1 || owners[0].UID != job.UID || report.Scope == nil || report.Scope.UID != job.UID {
		t.Errorf("the report has the owners %v and the scope %v, want the Job %s", owners, report.Scope, job.UID)
	}
	if report.Summary.Fail != len(report.Results) || report.Summary.Fail != 4 {
		t.Errorf("the report has the summary %+v and %d results, want 4 failures", report.Summary, len(report.Results))
	}
	testReportPolicy(t, m, ns, report.Name)

	// A new process deletes the report of an earlier process.
	m.Controller.Stop(t)
	m.writePolicy(t, limitsFile)
	m.Controller.Start(t)
	wait.For(t, "the deletion of the report", func(ctx context.Context) error {
		list, err := reports.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("the report of a gang within the limits exists")
		}
		return err
	})
}

// createReportDefinition creates the CustomResourceDefinition of the module with the API of the reports.
func createReportDefinition(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json",
		"github.com/openreports/reports-api").Output()
	if err != nil {
		t.Fatalf("finding the module of the reports: %v: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	definition := filepath.Join(module.Dir, "config", "crd", "openreports.io_reports.yaml")
	if _, err := c.Kubectl(t.Context(), "create", "--filename", definition); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// waitForReport returns the only report of a namespace. Its fields are those of the API.
func waitForReport(t *testing.T, reports dynamic.ResourceInterface) reportsv1alpha1.Report {
	t.Helper()
	var report reportsv1alpha1.Report
	wait.For(t, "the report", func(ctx context.Context) error {
		list, err := reports.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d reports", len(list.Items))
		}
		data, err := list.Items[0].MarshalJSON()
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		return decoder.Decode(&report)
	})
	return report
}

// testReportPolicy checks that the credentials of the controller change no report of another tool.
func testReportPolicy(t *testing.T, m *manager, ns, own string) {
	t.Helper()
	gvr := reportsv1alpha1.SchemeGroupVersion.WithResource("reports")
	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(reportsv1alpha1.SchemeGroupVersion.WithKind("Report"))
	foreign.SetName("other-tool")
	admin := dynamic.NewForConfigOrDie(m.Cluster.Config()).Resource(gvr).Namespace(ns)
	if _, err := admin.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := admin.Delete(t.Context(), foreign.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	controller := dynamic.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName)).
		Resource(gvr).Namespace(ns)
	patch := func(name, text string) attempt {
		return attempt{reportsPolicy, func(ctx context.Context) error {
			_, err := controller.Patch(ctx, name, types.MergePatchType, []byte(text), dryRunPatch)
			return err
		}}
	}
	unowned := foreign.DeepCopy()
	unowned.SetName("rollcall-unowned")
	unowned.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "rollcall"})
	requireDenied(t, map[string]attempt{
		"patching the report of another tool": patch("other-tool",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"rollcall"}}}`),
		"removing the owners of a report": patch(own, `{"metadata":{"ownerReferences":null}}`),
		"removing the label of a report":  patch(own, `{"metadata":{"labels":null}}`),
		"deleting the report of another tool": {reportsPolicy, func(ctx context.Context) error {
			return controller.Delete(ctx, "other-tool", dryRunDelete)
		}},
		"creating a report without owners": {reportsPolicy, func(ctx context.Context) error {
			_, err := controller.Create(ctx, unowned, dryRunCreate)
			return err
		}},
	})
	if _, err := controller.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller may list reports: %v", err)
	}
}
