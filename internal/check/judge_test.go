package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// formatProblems returns "status Code: message | fix" for each result that is not ok.
func formatProblems(r Report) []string {
	var out []string
	for _, result := range r.Results {
		if result.Status != OK {
			out = append(out, fmt.Sprintf("%s %s: %s | %s", result.Status, result.Code, result.Message, result.Fix))
		}
	}
	return out
}

const restore = "restore the objects of the chart: helm upgrade rollcall CHART --namespace rollcall-system " +
	"--reset-then-reuse-values"

// TestJudge breaks one fact at a time.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts, *Installation)
		want   []string // complete results, or their beginnings
	}{
		"an installation without problems has no findings": {change: func(*Facts, *Installation) {}},
		"an old API server is not supported": {
			change: func(f *Facts, _ *Installation) { f.ServerVersion.Value = "v1.32.1" },
			want: []string{"error KubernetesVersion: the API server: version v1.32.1 is not supported; use 1.33 or newer | " +
				"upgrade the cluster to Kubernetes 1.33 or newer"},
		},
		"ranks need a policy or a webhook": {
			change: func(f *Facts, _ *Installation) { f.ChartObjects = nil },
			want: []string{"error RankAssignment: nothing sets the ranks of several workloads: the webhook has no rules, " +
				"and no " +
				"MutatingAdmissionPolicy exists | " + restore},
		},
		"a policy without a binding sets no ranks": {
			change: func(f *Facts, _ *Installation) { delete(f.ChartObjects, kindMutatingBinding) },
			want: []string{"error RankAssignment: nothing sets the ranks of several workloads: the webhook has no rules, " +
				"and no MutatingAdmissionPolicyBinding exists | " + restore},
		},
		"a policy sets ranks although the name of the release is not known": {
			change: func(f *Facts, i *Installation) { i.Name = "" },
		},
		"ranks need a webhook if the API server was downgraded": {
			change: func(f *Facts, _ *Installation) { f.ServesPolicies.Value = false },
			want: []string{"error RankAssignment: nothing sets the ranks of several workloads: the webhook has no rules, " +
				"and the " +
				"API server serves no policy | " + restore},
		},
		"a Deployment that is scaled to 0 is named": {
			change: func(_ *Facts, i *Installation) { i.Controller.Value.Spec.Replicas = ptr.To[int32](0) },
			want: []string{"error ControllerReady: the Deployment rollcall-controller is scaled to 0 | " +
				"kubectl --namespace rollcall-system scale deployment rollcall-controller --replicas=2"},
		},
		"pods that are not ready are a warning": {
			change: func(_ *Facts, i *Installation) {
				i.Webhook.Value.Status.ReadyReplicas = 1
			},
			want: []string{"warning WebhookReady: 1 of 2 pods of the Deployment rollcall-webhook are ready | " +
				"find the reason: kubectl --namespace rollcall-system describe pods --selector " +
				"app.kubernetes.io/component=webhook"},
		},
		"a rollout in progress is a warning": {
			change: func(_ *Facts, i *Installation) { i.Webhook.Value.Status.UpdatedReplicas = 1 },
			want: []string{"warning WebhookReady: the rollout of the Deployment rollcall-webhook is not complete | " +
				"wait: kubectl"},
		},
		"different images are an error": {
			change: func(_ *Facts, i *Installation) { i.Webhook.findContainer().Image = "manager:old" },
			want: []string{"error Versions: the webhook runs the image manager:old, but the controller " +
				"registry.example.com/manager:v0.2.0 | " + restore},
		},

		"a command of another minor release is a warning": {
			change: func(f *Facts, _ *Installation) { f.CommandVersion = "v0.3.0" },
			want:   []string{"warning Versions: the command has the version v0.3.0, but the chart 0.2.0 | use the command"},
		},
		"a development build of the command is unknown": {
			change: func(f *Facts, _ *Installation) { f.CommandVersion = "(devel)" },
			want:   []string{"unknown Versions: the command has the version (devel) of a development build"},
		},
		"one webhook pod is a warning": {
			change: func(_ *Facts, i *Installation) {
				i.Webhook.Value.Spec.Replicas = ptr.To[int32](1)
				i.Webhook.Value.Status.ReadyReplicas = 1
				i.Webhook.Value.Status.UpdatedReplicas = 1
			},
			want: []string{"warning Availability: the webhook has 1 pod, so API servers reject labeled workloads while a " +
				"node is " +
				"drained or lost | set the value webhook.replicas to 2 or more"},
		},
		"a missing webhook configuration has one cause": {
			change: func(_ *Facts, i *Installation) { i.Validating.Value = nil },
			want: []string{
				"error WebhookConfigurations: the ValidatingWebhookConfiguration does not exist | " + restore,
			},
		},
		"a missing webhook and a webhook without rules are named": {
			change: func(_ *Facts, i *Installation) {
				i.Validating.Value.Webhooks = i.Validating.Value.Webhooks[:3]
				i.Mutating.Value.Webhooks[0].Rules = nil
			},
			want: []string{
				"error WebhookConfigurations: webhooks do not exist: policy-file.rollcall.training | " + restore,
				"error WebhookConfigurations: webhooks have no rules: inject.rollcall.training | " + restore,
			},
		},
		"webhook and controller must select the same namespaces": {
			change: func(_ *Facts, i *Installation) { i.Mutating.Value.Webhooks[0].NamespaceSelector = nil },
			want: []string{"error WebhookConfigurations: inject.rollcall.training selects other namespaces than the " +
				"controller | " +
				restore},
		},
		"a Service without ready endpoints is an error": {
			change: func(_ *Facts, i *Installation) { i.ReadyEndpoints.Value = 0 },
			want:   []string{"error WebhookService: the Service rollcall has no ready endpoints | the pods of the webhook must"},
		},
		"a missing Service is an error": {
			change: func(_ *Facts, i *Installation) { i.Service.Value = nil },
			want:   []string{"error WebhookService: the Service rollcall does not exist | " + restore},
		},
		"a CA bundle of another authority is an error": {
			change: func(_ *Facts, i *Installation) {
				other := newAuthority(testTime.AddDate(0, 0, 50))
				i.Mutating.Value.Webhooks[1].ClientConfig.CABundle = encodeCertificate(other)
			},
			want: []string{"error CABundle: suspend.rollcall.training: the CA bundle does not match the certificate of the " +
				"webhook | a running webhook writes the bundle; read its log: kubectl --namespace rollcall-system logs " +
				"deployment/rollcall-webhook"},
		},
		"an empty CA bundle is an error unless the dry run succeeds": {
			change: func(_ *Facts, i *Installation) {
				i.Mutating.Value.Webhooks[0].ClientConfig.CABundle = nil
				i.Admission.Job = Observed[*batchv1.Job]{Err: errWebhook(`failed calling webhook "inject.rollcall.training": ` +
					`failed to call webhook: Post "https://rollcall": tls: failed to verify certificate: x509: unknown authority`)}
			},
			want: []string{
				"error CABundle: inject.rollcall.training: the CA bundle is empty | a running webhook writes the bundle",
				"error Injection: API servers cannot call the webhook: Internal error occurred: failed calling webhook ",
			},
		},
		"without permission for the Secret, the dry run proves the trust": {
			change: func(_ *Facts, i *Installation) { i.Secret = Observed[[]*x509.Certificate]{Err: errForbidden} },
		},
		"without the Secret and the dry run, the trust is unknown": {
			change: func(_ *Facts, i *Installation) {
				i.Secret = Observed[[]*x509.Certificate]{Err: errForbidden}
				i.Admission.Job = Observed[*batchv1.Job]{Err: errForbidden}
				i.Admission.Denial = Observed[bool]{Err: errForbidden}
			},
			want: []string{
				"unknown CABundle: the Secret with the certificate: " + errForbidden.Error() + " | grant this permission",
				"unknown Injection: a labeled Job in the namespace team: " + errForbidden.Error() + " | grant this permission",
				"unknown Denial: an invalid Job in the namespace team: " + errForbidden.Error() + " | grant this permission",
			},
		},
		"an expired authority is an error": {
			change: func(f *Facts, _ *Installation) { f.Time = testTime.AddDate(0, 0, 81) },
			want: []string{
				"error Certificate: the certificate authority expired at 2027-03-22T12:00:00Z | a running webhook",
				"error Leader: ", // the Lease has expired as well
			},
		},
		"an overdue renewal is a warning": {
			change: func(_ *Facts, i *Installation) {
				old := newAuthority(testTime.AddDate(0, 0, 19))
				i.Secret.Value = []*x509.Certificate{old}
				i.setBundles(old)
			},
			want: []string{"warning Certificate: the certificate authority expires at 2027-01-20T12:00:00Z, and its " +
				"renewal is overdue"},
		},
		"a Job without injection is an error": {
			change: func(_ *Facts, i *Installation) { i.Admission.Job.Value = newSampleJob("a", 2) },
			want:   []string{"error Injection: a labeled Job in the namespace team is admitted without injection"},
		},
		"a webhook that does not answer is an error": {
			change: func(_ *Facts, i *Installation) {
				err := errWebhook(`failed calling webhook "inject.rollcall.training": no endpoints available`)
				i.Admission.Job, i.Admission.Denial = Observed[*batchv1.Job]{Err: err}, Observed[bool]{Err: err}
			},
			want: []string{
				`error Injection: API servers cannot call the webhook: Internal error occurred: failed calling webhook ` +
					`"inject.rollcall.training": no endpoints available | see the results of WebhookReady, WebhookService, `,
				"unknown Denial: an invalid Job in the namespace team: API servers cannot call the webhook | see the result " +
					"of Injection",
			},
		},
		"a rejection by another webhook is unknown": {
			change: func(_ *Facts, i *Installation) {
				i.Admission.Job = Observed[*batchv1.Job]{Err: errWebhook(`admission webhook "images.example.com" denied the " +
					"request`)}
			},
			want: []string{"unknown Injection: a labeled Job in the namespace team is rejected by something else (dry run): "},
		},
		"a namespace that Rollcall does not manage is an error": {
			change: func(_ *Facts, i *Installation) {
				i.Admission = Admission{Namespace: "kube-system"}
			},
			want: []string{
				"error Injection: Rollcall does not manage the namespace kube-system, or it does not exist | change the labels",
				"unknown Denial: the denial of an invalid Job: no namespace is managed by Rollcall | see the result of Injection",
			},
		},
		"an admitted invalid Job is an error": {
			change: func(_ *Facts, i *Installation) { i.Admission.Denial = Observed[bool]{Value: true} },
			want: []string{"error Denial: an invalid Job in the namespace team is admitted (dry run) | see the result " +
				"of Injection"},
		},
		"a Lease without a holder is an error": {
			change: func(_ *Facts, i *Installation) { i.Lease.Value.Spec.HolderIdentity = ptr.To("") },
			want: []string{"error Leader: the Lease rollcall has no holder, so there is no leader | nobody restarts " +
				"gangs; find the " +
				"reason: kubectl --namespace rollcall-system logs deployment/rollcall-controller"},
		},
		"a missing Lease is an error": {
			change: func(_ *Facts, i *Installation) { i.Lease = Observed[*coordinationv1.Lease]{} },
			want:   []string{"error Leader: the Lease rollcall does not exist, so there was no leader | nobody restarts gangs"},
		},
		"a stale Lease is an error": {
			change: func(_ *Facts, i *Installation) { i.Lease.Value.Spec.RenewTime.Time = testTime.Add(-16e9) },
			want:   []string{"error Leader: the Lease rollcall was last renewed at 2027-01-01T11:59:44Z, so there is no leader"},
		},
		"a renewed Lease is alive in spite of a wrong clock": {
			change: func(_ *Facts, i *Installation) {
				i.Lease.Value.Spec.RenewTime.Time = testTime.Add(-16e9)
				i.LeaseRenewed = true
			},
		},
		"several controllers need leader election": {
			change: func(_ *Facts, i *Installation) {
				c := i.Controller.findContainer()
				c.Args = append(c.Args, "--leader-elect=false")
			},
			want: []string{"error Leader: 2 controllers reconcile the same gangs without leader election | " + restore},
		},
		"a missing permission is an error": {
			change: func(_ *Facts, i *Installation) { i.Permissions.Value.Missing = []string{"patch jobs.batch"} },
			want:   []string{"error ControllerPermissions: the controller must not patch jobs.batch | " + restore},
		},
		"a dropped feature is not a problem": {
			change: func(_ *Facts, i *Installation) {
				i.Permissions.Value.Dropped = []string{"clean-pod-policy: all keeps pods (permissions.deletePods)"}
			},
		},
		"an invalid CA bundle is an error": {
			change: func(_ *Facts, i *Installation) { i.Mutating.Value.Webhooks[0].ClientConfig.CABundle = []byte("x") },
			want:   []string{"error CABundle: inject.rollcall.training: the CA bundle is invalid | a running webhook"},
		},
		"an invalid policy is an error with the mistake": {
			change: func(_ *Facts, i *Installation) {
				i.Policy.Value = &PolicyFacts{ConfigMap: "rollcall-policy", Mistake: "policy.yaml:3: unknown field"}
			},
			want: []string{"error Policy: the policy is not valid, and the last valid policy is in force, if there is one: " +
				"policy.yaml:3: unknown field | correct the ConfigMap rollcall-policy; rollcall policy check shows all mistakes"},
		},
		"a valid policy is fine": {
			change: func(_ *Facts, i *Installation) { i.Policy.Value = &PolicyFacts{ConfigMap: "rollcall-policy", Rules: 2} },
		},
		"labeled workloads without injection are listed, without those that opted out or finished": {
			change: func(f *Facts, _ *Installation) {
				optedOut, finished := newSampleJob("b", 2), newSampleJob("c", 2)
				optedOut.Labels[gang.LabelInject] = "false"
				finished.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
				for _, job := range []*batchv1.Job{newSampleJob("a", 2), optedOut, finished} {
					job.Namespace = "team"
					f.Workloads.Value = append(f.Workloads.Value, gang.Workload{Job: job})
				}
			},
			want: []string{"warning NotInjected: labeled workloads were admitted without injection, so they are not gangs: " +
				"team/job/a | delete and recreate them"},
		},
		"objects of another release are left over": {
			change: func(f *Facts, _ *Installation) {
				f.ChartObjects["ClusterRole"] = Observed[[]ChartObject]{
					Value: []ChartObject{{Name: "old-controller", Release: "old"}},
				}
			},
			want: []string{"warning Leftovers: objects of a release that is not installed exist, and can reject labeled " +
				"workloads: clusterrole/old-controller | delete them: kubectl delete clusterrole/old-controller"},
		},
		"several releases need a choice": {
			change: func(f *Facts, _ *Installation) {
				f.Installation = nil
				f.Releases.Value = append(f.Releases.Value, Release{Name: "second", Namespace: "b"})
			},
			want: []string{"error Installation: several releases are installed: rollcall-system/rollcall, b/second | " +
				"choose one with --release-namespace"},
		},
		"a fact that takes too long is unknown": {
			change: func(_ *Facts, i *Installation) { i.Lease.Err = fmt.Errorf("reading: %w", context.DeadlineExceeded) },
			want:   []string{"unknown Leader: the Lease rollcall: reading: context deadline exceeded | "},
		},
		"another error is unknown with its text": {
			change: func(_ *Facts, i *Installation) { i.Lease.Err = errors.New("connection refused") },
			want:   []string{"unknown Leader: the Lease rollcall: connection refused | "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t)
			c.change(f, f.Installation)
			got := formatProblems(Judge(*f))
			matches := slices.EqualFunc(got, c.want, strings.HasPrefix)
			if !matches {
				t.Errorf("the problems differ (-want +got):\n%s", cmp.Diff(c.want, got))
			}
		})
	}
}
