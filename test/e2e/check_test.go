package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/check"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestInstallationCheck checks a real installation from outside with rollcall check, and from a pod with helm
// test. It breaks the installation twice and applies the fixes.
func TestInstallationCheck(t *testing.T) {
	s := requireCluster(t)
	s.waitForProblems(t)
	if out, err := s.runHelmTest(t); err != nil || !strings.Contains(out, "ok       Injection") {
		t.Fatalf("helm test: %v\n%s", err, out)
	}
	left, err := s.listClusterScopedObjects(t.Context())
	isOfCheck := func(name string) bool { return strings.HasSuffix(name, "/rollcall-check") }
	if err != nil || slices.ContainsFunc(left, isOfCheck) {
		t.Errorf("after helm test, the cluster has the objects %q, error %v", left, err)
	}

	problems := s.scaleWebhookTo0(t)
	_, command, _ := strings.Cut(problems[0].Fix, "kubectl ")
	if _, err := s.Kubectl(t.Context(), strings.Fields(command)...); err != nil {
		t.Fatalf("the fix %q: %v", problems[0].Fix, err)
	}
	s.waitForProblems(t)

	err = s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Delete(t.Context(), installation.Release, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems = s.waitForProblems(t, "error WebhookConfigurations")
	out, err := s.runHelmTest(t)
	if err == nil || !strings.Contains(out, "the ValidatingWebhookConfiguration does not exist") {
		t.Errorf("helm test without a webhook configuration: %v\n%s", err, out)
	}
	_, command, _ = strings.Cut(problems[0].Fix, "helm ")
	args := strings.Fields(strings.Replace(command, "CHART", filepath.Join(repositoryRoot, "charts", "rollcall"), 1))
	if _, err := s.Helm(t.Context(), args...); err != nil {
		t.Fatalf("the fix %q: %v", problems[0].Fix, err)
	}
	s.waitForProblems(t)
	if out, err := s.runHelmTest(t); err != nil {
		t.Errorf("helm test after the fix: %v\n%s", err, out)
	}
}

// runHelmTest returns the output of helm test with the log of the pod.
func (s *testCluster) runHelmTest(t *testing.T) (string, error) {
	t.Helper()
	out, err := s.Helm(t.Context(), "test", installation.Release, "--namespace", installation.Namespace, "--logs",
		"--timeout", "2m")
	if err != nil {
		out += err.Error() // contains the output
	}
	return out, err
}

// scaleWebhookTo0 returns the problems of an installation without pods of the webhook.
func (s *testCluster) scaleWebhookTo0(t *testing.T) []check.Result {
	t.Helper()
	if _, err := s.Kubectl(t.Context(), "--namespace", installation.Namespace, "scale", "deployment",
		installation.WebhookName, "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	return s.waitForProblems(t,
		"error WebhookReady", "error WebhookService", "error Injection", "unknown Denial")
}

// waitForProblems waits until a check reports exactly the problems "status Code", besides the version of this
// test, which is not a release.
func (s *testCluster) waitForProblems(t *testing.T, want ...string) []check.Result {
	t.Helper()
	reader, err := check.NewReader(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	var problems []check.Result
	wait.For(t, fmt.Sprintf("the problems %q", want), func(ctx context.Context) error {
		facts, err := reader.Read(ctx)
		if err != nil {
			return err
		}
		problems = nil
		var got []string
		for _, r := range check.Judge(facts).Results {
			if r.Status != check.OK && r.Code != "Versions" {
				problems = append(problems, r)
				got = append(got, fmt.Sprintf("%s %s", r.Status, r.Code))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the problems are %v", problems)
		}
		return nil
	})
	return problems
}
