package integration

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/internal/check"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestCheck checks a cluster before and after the installation, and then breaks one part at a time. Each
// problem must be reported with exactly its cause, and the fix must remove it.
func TestCheck(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: 2})
	before := checkedInstallation{manager: &manager{&installation.Manager{Cluster: c}}}
	t.Run("before the installation", func(t *testing.T) { testCheckBefore(t, before) })
	i := newCheckedInstallation(t, c)
	i.waitForProblems(t, nil)
	for _, test := range []struct {
		name string
		run  func(*testing.T, checkedInstallation)
	}{
		{"a Deployment is scaled to 0", testCheckScaledDown},
		{"one webhook pod", testCheckOneReplica},
		{"a webhook configuration is deleted", testCheckConfigurationDeleted},
		{"a webhook does not answer and has a wrong CA bundle", testCheckWrongBundle},
		{"the Service has no endpoints", testCheckNoEndpoints},
		{"there is no leader", testCheckNoLeader},
		{"the policy is deleted", testCheckPolicyDeleted},
		{"the controller lost a permission", testCheckPermission},
		{"a namespace is excluded", testCheckExcludedNamespace},
		{"a workload was not injected", testCheckNotInjected},
		{"objects are left over", testCheckLeftovers},
		{"a user without permissions", testCheckWithoutPermissions},
		{"the permissions of the controller are those of the chart", testCheckPermissionsOfChart},
		{"the account of helm test only sends dry runs", testCheckAccount},
		{"only dry runs are sent", testCheckChangesNothing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, i) })
		if t.Failed() {
			return // the next tests need an installation without problems
		}
	}
}

func testCheckBefore(t *testing.T, i checkedInstallation) {
	i.waitForProblems(t, nil)
	config := i.Cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	report, err := i.check(t.Context(), config, func(r *check.Reader) { r.OnlyPrerequisites = true })
	if err != nil {
		t.Fatal(err)
	}
	_, problems := listProblems(report)
	if !slices.Contains(problems, "error InstallPermissions") || !slices.Contains(problems, "unknown Installation") {
		t.Errorf("the problems of a user without permissions are %q", problems)
	}
}

func testCheckScaledDown(t *testing.T, i checkedInstallation) {
	for _, d := range []struct{ name, code string }{
		{installation.WebhookName, "error WebhookReady"}, {installation.ControllerName, "error ControllerReady"},
	} {
		i.scale(t, d.name, 0)
		i.runFix(t, i.waitForProblems(t, nil, d.code)[0])
		i.waitForProblems(t, nil)
	}
}

func (i checkedInstallation) scale(t *testing.T, name string, replicas int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := i.Client.AppsV1().Deployments(installation.Namespace).
		Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func testCheckOneReplica(t *testing.T, i checkedInstallation) {
	i.scale(t, installation.WebhookName, 1)
	i.waitForProblems(t, nil, "warning Availability")
	i.scale(t, installation.WebhookName, 2)
	i.waitForProblems(t, nil)
}

// testCheckConfigurationDeleted deletes each webhook configuration. The fix of the chart is tested by
// testConfigurationRestored.
func testCheckConfigurationDeleted(t *testing.T, i checkedInstallation) {
	api := i.Client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mutating.ResourceVersion, validating.ResourceVersion = "", ""
	deleteMutating := func() error {
		return api.MutatingWebhookConfigurations().Delete(t.Context(), mutating.Name, metav1.DeleteOptions{})
	}
	if err := deleteMutating(); err != nil {
		t.Fatal(err)
	}
	want := []string{"error WebhookConfigurations", "error Injection"}
	if !supportsMutatingPolicies(i.Cluster) {
		want = append([]string{"error RankAssignment"}, want...)
	}
	i.waitForProblems(t, nil, want...)
	if _, err := api.MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.waitForProblems(t, nil)
	err = api.ValidatingWebhookConfigurations().Delete(t.Context(), validating.Name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.waitForProblems(t, nil, "error WebhookConfigurations")
	_, err = api.ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.waitForProblems(t, nil)
}

// testCheckWrongBundle replaces the CA bundles while the webhook is stopped. A webhook that runs repairs them,
// as the fix says.
func testCheckWrongBundle(t *testing.T, i checkedInstallation) {
	i.Webhook.Stop(t)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.readOtherAuthority(t)})
	api := i.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration, err := api.Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for j := range configuration.Webhooks {
		configuration.Webhooks[j].ClientConfig.CABundle = bundle
	}
	if _, err := api.Update(t.Context(), configuration, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	problems := i.waitForProblems(t, nil, "error CABundle", "error Injection", "unknown Denial")
	if !strings.Contains(problems[0].Fix, "a running webhook writes the bundle") {
		t.Errorf("the fix is %q", problems[0].Fix)
	}
	i.Webhook.Start(t)
	i.waitForProblems(t, nil)
}

// readOtherAuthority returns the authority of the cluster, which did not sign the certificate of the webhook.
func (i checkedInstallation) readOtherAuthority(t *testing.T) []byte {
	t.Helper()
	block, _ := pem.Decode(i.Cluster.Config().CAData)
	if block == nil {
		t.Fatal("the configuration has no authority")
	}
	return block.Bytes
}

func testCheckNoEndpoints(t *testing.T, i checkedInstallation) {
	err := i.Client.CoreV1().Endpoints(installation.Namespace).
		Delete(t.Context(), installation.Release, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.Webhook.Stop(t) // otherwise an API server may continue to use its connection
	i.Webhook.Start(t)
	i.waitForProblems(t, nil, "error WebhookService", "error Injection", "unknown Denial")
	i.createEndpoints(t)
	i.waitForProblems(t, nil)
}

// testCheckNoLeader stops the controller, which releases the Lease, and then kills it, so that the Lease
// becomes stale. A wrong clock must not matter.
func testCheckNoLeader(t *testing.T, i checkedInstallation) {
	i.Controller.Stop(t)
	i.waitForProblems(t, nil, "error Leader")
	i.Controller.Start(t)
	i.waitForProblems(t, nil)
	if err := i.Controller.Kill(); err != nil {
		t.Fatal(err)
	}
	problems := i.waitForProblems(t, nil, "error Leader")
	if !strings.Contains(problems[0].Message, "was last renewed at") {
		t.Errorf("the message is %q", problems[0].Message)
	}
	i.Controller.Start(t)
	i.waitForProblems(t, nil)
	i.waitForProblems(t, func(r *check.Reader) { r.Clock = wrongClock{r.Clock} })
}

// testCheckPolicyDeleted deletes the policy. Admission would deny a policy with a mistake. The last valid policy stays
// in force.
func testCheckPolicyDeleted(t *testing.T, i checkedInstallation) {
	maps := i.Client.CoreV1().ConfigMaps(installation.Namespace)
	m, err := maps.Get(t.Context(), policyName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), policyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	problems := i.waitForProblems(t, nil, "error Policy")
	if !strings.Contains(problems[0].Message, "the ConfigMap rollcall-policy does not exist") {
		t.Errorf("the message is %q", problems[0].Message)
	}
	reader, err := check.NewReader(i.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	const inForce = installation.Namespace + "/" + policyName + "-accepted"
	if _, place, err := reader.ReadPolicyInForce(t.Context()); err != nil || place != inForce {
		t.Errorf("the policy in force is that of %q, want %s: %v", place, inForce, err)
	}
	m.ResourceVersion = ""
	if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.waitForProblems(t, nil)
}

func testCheckPermission(t *testing.T, i checkedInstallation) {
	roles := i.Client.RbacV1().ClusterRoles()
	update := func(change func(*rbacv1.PolicyRule)) {
		role, err := roles.Get(t.Context(), installation.ControllerName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for j := range role.Rules {
			change(&role.Rules[j])
		}
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(resource, verb, name string) func(*rbacv1.PolicyRule) {
		return func(r *rbacv1.PolicyRule) {
			if j := slices.Index(r.Verbs, verb); j >= 0 && slices.Contains(r.Resources, resource) {
				r.Verbs[j] = name
			}
		}
	}
	update(rename("statefulsets/status", "patch", "none"))
	problems := i.waitForProblems(t, nil, "error ControllerPermissions")
	if !strings.Contains(problems[0].Message, "patch statefulsets.apps/status") {
		t.Errorf("the message is %q", problems[0].Message)
	}
	update(rename("statefulsets/status", "none", "patch"))
	i.waitForProblems(t, nil)
	update(rename("pods", "deletecollection", "none")) // as permissions.deletePods=false
	wait.For(t, "the dropped feature", func(ctx context.Context) error {
		report, err := i.check(ctx, i.Cluster.Config(), nil)
		if err != nil {
			return err
		}
		for _, r := range report.Results {
			if r.Code == "ControllerPermissions" && strings.Contains(r.Message, "permissions.deletePods") {
				return nil
			}
		}
		return fmt.Errorf("the results are %v", report.Results)
	})
	update(rename("pods", "none", "deletecollection"))
}

func testCheckExcludedNamespace(t *testing.T, i checkedInstallation) {
	choose := func(name string) func(*check.Reader) { return func(r *check.Reader) { r.Namespace = name } }
	i.waitForProblems(t, choose("kube-system"), "error Injection", "unknown Denial")
	i.waitForProblems(t, choose("missing"), "error Injection", "unknown Denial")
	i.waitForProblems(t, choose("default"))
}

func testCheckNotInjected(t *testing.T, i checkedInstallation) {
	ns := i.createNamespace(t)
	job := newJob("train", 2)
	job.Labels[gang.LabelInject] = "false"
	created := i.createJob(t, ns, job)
	i.waitForProblems(t, nil) // it opted out
	patch := []byte(`{"metadata":{"labels":{"` + gang.LabelInject + `":null}}}`)
	jobs := i.Client.BatchV1().Jobs(ns)
	if _, err := jobs.Patch(t.Context(), created.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	problems := i.waitForProblems(t, nil, "warning NotInjected")
	if !strings.Contains(problems[0].Message, ns+"/job/train") {
		t.Errorf("the message is %q", problems[0].Message)
	}
	background := metav1.DeletePropagationBackground
	err := jobs.Delete(t.Context(), created.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
	i.createJob(t, ns, newJob("train-again", 2))
	i.waitForProblems(t, nil)
}

func testCheckLeftovers(t *testing.T, i checkedInstallation) {
	_, err := i.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "old-controller", Labels: map[string]string{
			"helm.sh/chart": "rollcall-0.0.1", "app.kubernetes.io/instance": "old",
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.runFix(t, i.waitForProblems(t, nil, "warning Leftovers")[0])
	i.waitForProblems(t, nil)
}

// testCheckWithoutPermissions checks with the permissions of a user of one namespace. Nothing is an error, and
// each unknown fact has a permission to grant. The dry run still proves the injection.
func testCheckWithoutPermissions(t *testing.T, i checkedInstallation) {
	config := i.Cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	choose := func(r *check.Reader) { r.PreferredNamespace = "default" }
	report, err := i.check(t.Context(), config, choose)
	if err != nil {
		t.Fatal(err)
	}
	problems, _ := listProblems(report)
	for _, p := range problems {
		if p.Status != check.Unknown {
			t.Errorf("%s has the status %s: %s", p.Code, p.Status, p.Message)
		}
	}
	if _, err := i.Cluster.Kubectl(t.Context(), "create", "rolebinding", "jane", "--namespace=default",
		"--clusterrole=edit", "--user=jane"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the injection for the user", func(ctx context.Context) error {
		report, err := i.check(ctx, config, choose)
		if err != nil {
			return err
		}
		for _, r := range report.Results {
			if r.Code == "Injection" && r.Status != check.OK || r.Code == "Denial" && r.Status != check.OK {
				return fmt.Errorf("%s: %s", r.Code, r.Message)
			}
		}
		return nil
	})
}

// testCheckPermissionsOfChart compares the list of the check with the Role of the chart, in both directions.
func testCheckPermissionsOfChart(t *testing.T, i checkedInstallation) {
	var granted, checked []string
	all := renderRules(t, i.Cluster, "--set", "permissions.createPodGroups=true,permissions.createKueueWorkloads=true,"+
		"permissions.orderRanks=true,permissions.readLogs=true")
	for _, rule := range all[installation.ControllerName].clusterWide {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					resource, subresource, _ := strings.Cut(resource, "/")
					p := check.Permission{Verb: verb, Group: group, Resource: resource, Subresource: subresource}
					granted = append(granted, p.String())
				}
			}
		}
	}
	for _, p := range check.GangPermissions() {
		checked = append(checked, p.String())
	}
	slices.Sort(granted)
	slices.Sort(checked)
	if !slices.Equal(granted, checked) {
		t.Errorf("the chart grants %q, but the check asks for %q", granted, checked)
	}
}

// testCheckAccount checks with the account of "helm test", whose permissions must be sufficient. The account
// must not create a Job.
func testCheckAccount(t *testing.T, i checkedInstallation) {
	objects := runHelm(t, i.Cluster, "template", installation.Release, chartDir, "--namespace", installation.Namespace,
		installation.ImageArg, "--set", "policy.enabled=true", "--show-only", "templates/tests/check.yaml")
	if _, err := i.Cluster.KubectlWithInput(t.Context(), objects, "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
	config := newManagerConfig(t, i.Cluster.Config(), "rollcall-check")
	client := kubernetes.NewForConfigOrDie(config)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	wait.For(t, "the denial of a Job", func(ctx context.Context) error {
		created, err := client.BatchV1().Jobs("default").Create(ctx, newJob("intruder", 2), metav1.CreateOptions{})
		if err == nil {
			return errors.Join(errors.New("the account created a Job"),
				i.Client.BatchV1().Jobs("default").Delete(ctx, created.Name, metav1.DeleteOptions{}))
		}
		if !strings.Contains(err.Error(), "only creates dry runs") {
			return err
		}
		return nil
	})
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), newJob("probe", 2), dryRun); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	report, err := i.check(t.Context(), config, func(r *check.Reader) { r.ReleaseNamespace = installation.Namespace })
	if err != nil {
		t.Fatal(err)
	}
	if problems, _ := listProblems(report); len(problems) > 0 {
		t.Errorf("with the account of helm test, the problems are %v", problems)
	}
	if _, err := i.Cluster.KubectlWithInput(t.Context(), objects, "delete", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
}

// testCheckChangesNothing checks that no object of the dry runs exists.
func testCheckChangesNothing(t *testing.T, i checkedInstallation) {
	jobs, err := i.Client.BatchV1().Jobs(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs.Items {
		if strings.HasPrefix(job.Name, "rollcall-check") {
			t.Errorf("the Job %s/%s exists", job.Namespace, job.Name)
		}
	}
}

// wrongClock is the clock of a machine that is one hour ahead.
type wrongClock struct{ clock.Clock }

// Now returns a wrong time.
func (c wrongClock) Now() time.Time { return c.Clock.Now().Add(time.Hour) }
