package chart

import (
	"strings"
	"testing"

	"rollcall.training/test/installation"
)

// TestContradictions checks that Helm rejects values that are invalid, that conflict, or that would have no
// effect, before it installs anything.
func TestContradictions(t *testing.T) {
	cases := map[string]struct {
		set, want string
	}{
		"unknown value": {set: "replica=3", want: "'replica'"},
		"replicas of both Deployments": {set: "replicas=3",
			want: "replicas: the webhook and the controller are separate Deployments; " +
				"set webhook.replicas and controller.replicas"},
		"resources of both Deployments": {set: "resources.limits.memory=1Gi",
			want: "set webhook.resources and controller.resources"},
		"unknown nested value":      {set: "webhook.timeout=3", want: "'timeout'"},
		"unknown failurePolicy":     {set: "webhook.failurePolicy=Maybe", want: "/webhook/failurePolicy"},
		"timeout above 30 s":        {set: "webhook.timeoutSeconds=31", want: "/webhook/timeoutSeconds"},
		"tag as digest":             {set: "image.digest=latest", want: "/image/digest"},
		"unknown rank mode":         {set: "rankOffset.mode=both", want: "/rankOffset/mode"},
		"own namespace in the list": {set: "namespaces={rollcall-system}", want: "namespaces: rollcall-system"},
		"invalid namespace":         {set: "namespaces={Team_A}", want: "/namespaces/0"},
		"unknown permission":        {set: "permissions.readSecrets=true", want: "'readSecrets'"},
		"misspelled key of the policy": {
			set: "policy.enabled=true,policy.file.cluster.limits.gpu.max=1", want: "'gpu'"},
		"policy that is not enabled": {
			set: "policy.file.cluster.limits.gpus.max=1", want: "policy.enabled: must be true"},
		"reports without a policy": {set: "policy.reports=openreports", want: "policy.enabled: must be true"},
		"two policies": {set: "policy.enabled=true,policy.existingConfigMap=a,policy.file.mode=warn",
			want: "policy.existingConfigMap: the ConfigMap contains the policy"},
		"scheduler without PodGroups": {set: "scheduling.scheduler=native",
			want: "scheduling.scheduler: native requires permissions.createPodGroups"},
		"Workloads of Kueue in a list of namespaces": {set: "permissions.createKueueWorkloads=true,namespaces={a}",
			want: "permissions.createKueueWorkloads: requires permissions in all namespaces"},
		"an order of ranks in a list of namespaces": {set: "permissions.orderRanks=true,namespaces={a}",
			want: "permissions.orderRanks: requires permissions in all namespaces"},
		"unknown ceiling": {set: "policy.ceiling=deny", want: "/policy/ceiling"},
		"webhook on the probe port": {set: "webhook.port=8081",
			want: "healthPort: must differ from webhook.port (8081)"},
		"webhook on the metrics port": {set: "webhook.port=8080",
			want: "metrics.port: must differ from webhook.port (8080)"},
		"metrics on the probe port": {set: "healthPort=8080",
			want: "healthPort: must differ from metrics.port (8080)"},
		"a port of the kubelet in the network of the node": {set: "webhook.hostNetwork=true,webhook.port=10250",
			want: "webhook.port: with webhook.hostNetwork, must not be 10250"},
		"DNS of the node without the domain of the cluster": {set: "dnsPolicy=Default",
			want: "clusterDomain: required with dnsPolicy Default"},
		"no DNS servers": {set: "dnsPolicy=None,clusterDomain=cluster.local",
			want: "dnsConfig.nameservers: required with dnsPolicy None"},
		"secure metrics that are off": {set: "metrics.enabled=false,metrics.secure=true",
			want: "metrics.secure has no effect without metrics.enabled"},
		"certificate for plain metrics": {set: "metrics.secretName=tls",
			want: "metrics.secretName has no effect without metrics.secure"},
		"no account": {set: "webhook.serviceAccount.create=false",
			want: "webhook.serviceAccount.name: required with webhook.serviceAccount.create=false"},
		"annotations of an existing account": {
			set: "controller.serviceAccount.create=false,controller.serviceAccount.name=a," +
				"controller.serviceAccount.annotations.b=c",
			want: "controller.serviceAccount.annotations has no effect"},
		"one account for both": {set: "webhook.serviceAccount.name=a,controller.serviceAccount.name=a",
			want: "controller.serviceAccount.name: must differ from webhook.serviceAccount.name"},
		"the name of the other account": {set: "webhook.serviceAccount.name=rollcall-controller",
			want: "controller.serviceAccount.name: must differ from webhook.serviceAccount.name"},
		"a label of the chart": {set: `commonLabels.app\.kubernetes\.io/name=a`,
			want: "commonLabels: the chart sets the label app.kubernetes.io/name"},
		"a variable of the chart": {set: "controller.extraEnv[0].name=POD_NAME",
			want: "controller.extraEnv: the chart sets the variable POD_NAME"},
		"a flag of the chart": {set: "webhook.extraArgs={--port=1}",
			want: "webhook.extraArgs: --port=1: the chart sets this flag"},
		"an argument that is not a flag": {set: "webhook.extraArgs={detach}", want: "/webhook/extraArgs/0"},
		"serving certificate that outlives its authority": {set: "certificates.duration=3000h",
			want: "certificates.duration: 3000h must be at most a third of certificates.caDuration (8760h)"},
		"late renewal": {set: "certificates.mode=cert-manager,certificates.renewBefore=2160h",
			want: "certificates.renewBefore: 2160h must be less than certificates.duration (2160h)"},
		"a duration that is not in hours": {set: "certificates.duration=7d", want: "/certificates/duration"},
		"duration of a certificate that others issue": {
			set:  "certificates.mode=secret,certificates.secretName=a,certificates.duration=24h",
			want: "certificates.duration has no effect with certificates.mode secret"},
		"issuer without cert-manager": {set: "certificates.issuerRef.name=a",
			want: "certificates.issuerRef has no effect with certificates.mode self-managed"},
		"authority of an issuer that exists": {
			set:  "certificates.mode=cert-manager,certificates.issuerRef.name=a,certificates.caDuration=9000h",
			want: "certificates.caDuration has no effect with certificates.issuerRef"},
		"secret without a name": {set: "certificates.mode=secret", want: "certificates.secretName is required"},
		"budget that permits no eviction": {set: "podDisruptionBudget.maxUnavailable=0",
			want: "/podDisruptionBudget/maxUnavailable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := runHelm(t, append(templateArgs(), "--set", tc.set)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("helm template --set %s: error %v, want an error with %q", tc.set, err, tc.want)
			}
		})
	}
}

// TestConditionNames checks that conditions of the values cannot replace those of the chart, and that their
// names differ.
func TestConditionNames(t *testing.T) {
	for _, names := range [][]string{{"not-from-controller"}, {"a", "a"}} {
		var conditions []any
		for _, name := range names {
			conditions = append(conditions, map[string]any{"name": name, "expression": "true"})
		}
		want := "webhook.matchConditions: the name " + names[0] + " is in use"
		_, err := template(t, newValues(map[string]any{"webhook.matchConditions": conditions}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("conditions %v: the error is %v, want %q", names, err, want)
		}
	}
}

// TestAttackSelectors checks that no value lets a user exclude a workload from the webhooks, and so from the policy.
func TestAttackSelectors(t *testing.T) {
	condition := func(expression string) []any {
		return []any{map[string]any{"name": "own", "expression": expression}}
	}
	selector := map[string]any{"matchLabels": map[string]any{"a": "b"}}
	for name, test := range map[string]struct {
		path  string
		value any
		want  string
	}{
		"a label of the workload": {
			path: "webhook.objectSelector", value: selector, want: "webhook.objectSelector: with policy.enabled",
		},
		"a field of the workload": {
			path: "webhook.matchConditions", value: condition("!('a' in object.metadata.labels)"),
			want: "the condition own reads the object",
		},
		"a field of the workload before": {
			path: "webhook.matchConditions", value: condition("oldObject == null"), want: "the condition own reads the object",
		},
		"the name of the workload": {
			path: "webhook.matchConditions", value: condition("request.name != 'a'"), want: "the condition own reads the object",
		},
		"the user": {
			path: "webhook.matchConditions", value: condition("request.userInfo.username != 'a'"),
		},
		"the namespace of the request": {path: "webhook.matchConditions", value: condition("request.namespace != 'a'")},
		"a label of the namespace":     {path: "webhook.namespaceSelector", value: selector},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, newValues(map[string]any{test.path: test.value, "policy.enabled": true}))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("with a policy, the error is %v, want %q", err, test.want)
			}
			if _, err := template(t, newValues(map[string]any{test.path: test.value})); err != nil {
				t.Errorf("without a policy, the error is %v", err)
			}
		})
	}
}

// TestImageIsRequired checks that no default image exists, because the project publishes none.
func TestImageIsRequired(t *testing.T) {
	_, err := runHelm(t, "template", installation.Release, chartDir)
	if err == nil || !strings.Contains(err.Error(), "make image REPOSITORY=") {
		t.Errorf("the error is %v, want one that names image.repository", err)
	}
}
