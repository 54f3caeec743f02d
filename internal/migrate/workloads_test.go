package migrate_test

import (
	"cmp"
	"strings"
	"testing"

	"rollcall.training/internal/migrate"
)

// TestWorkloadWithoutLabel migrates Jobs and StatefulSets without the label. Each is a gang, or passes
// through with a reason.
func TestWorkloadWithoutLabel(t *testing.T) {
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: train, META}
spec: {SPEC, template: {spec: {POD restartPolicy: Never, containers: [{name: main, image: x, CONTAINER}]}}}
`
	const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train}
spec: {replicas: 2, serviceName: hosts, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: x, CONTAINER}]}}}
`
	for name, c := range map[string]struct {
		text, meta, spec, pod, container, option string
		note                                     string // a part; empty for a gang
		framework                                string
	}{
		"command of a framework": {
			spec: "parallelism: 2, completions: 2", container: "command: [torchrun, t.py]", framework: "pytorch",
		},
		"variable of a framework": {
			spec: "parallelism: 2, completions: 2", container: "env: [{name: JAX_NUM_PROCESSES, value: '2'}]", framework: "jax",
		},
		"work queue": {spec: "parallelism: 2", container: "command: [torchrun, t.py]", framework: "pytorch"},
		"framework of the option and an index": {
			spec: "parallelism: 2, completions: 2, completionMode: Indexed", option: "xgboost", framework: "xgboost",
		},
		"framework of the option and hostnames": {
			spec: "parallelism: 2, completions: 2", pod: "subdomain: hosts,", option: "xgboost", framework: "xgboost",
		},
		"framework of the option without an index": {
			spec: "parallelism: 2, completions: 2", option: "xgboost", note: "neither an index nor hostnames",
		},
		"StatefulSet":                 {text: statefulSet, container: "command: [torchrun, t.py]", framework: "pytorch"},
		"StatefulSet of no framework": {text: statefulSet, note: "no variable or command implies a framework"},
		"StatefulSet with the option": {text: statefulSet, option: "jax", framework: "jax"},
		"Job of no framework":         {spec: "parallelism: 2, completions: 2", note: "no variable or command implies"},
		"one pod": {
			spec: "backoffLimit: 1", container: "command: [torchrun, t.py]", note: "only one pod",
		},
		"pods that do not run together": {
			spec: "parallelism: 2, completions: 9", container: "command: [torchrun, t.py]", note: "completions differs",
		},
		"Job that another object creates": {
			meta: "ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: x}]", spec: "parallelism: 2",
			container: "command: [torchrun, t.py]", note: "another object creates it",
		},
		"Job that opts out": {
			meta: "labels: {rollcall.training/inject: 'false'}", spec: "parallelism: 2", container: "command: [torchrun, t.py]",
			note: "it has the label rollcall.training/inject: false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.text
			if text == "" {
				text = job
			}
			text = strings.NewReplacer("META", c.meta, "SPEC", c.spec, "POD", c.pod, "CONTAINER", c.container).Replace(text)
			result := migrate.Migrator{Config: webhookConfig, Framework: c.option}.Migrate(readText(t, text))
			if len(result.Reports) != 1 || len(result.Documents) != 1 {
				t.Fatalf("%d reports and %d documents, want 1 of each", len(result.Reports), len(result.Documents))
			}
			report := result.Reports[0]
			if report.Failed() || !strings.Contains(report.Note, c.note) || (report.Note != "") != (c.note != "") {
				t.Errorf("errors %q, note %q, want %q", report.Errors, report.Note, c.note)
			}
			labels := result.Documents[0].Objects()[0].Labels
			if got := labels["rollcall.training/framework"]; got != c.framework {
				t.Errorf("framework %q, want %q", got, c.framework)
			}
		})
	}
}

// TestOptedOutWorkload checks that a labeled Job that opts out keeps its variables.
func TestOptedOutWorkload(t *testing.T) {
	const text = `
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {rollcall.training/framework: pytorch, rollcall.training/inject: "false"}}
spec: {parallelism: 2, template: {spec: {containers: [{name: main, image: x, env: [{name: MASTER_PORT, value: "1"}]}]}}}
`
	result := migrate.Migrator{Config: webhookConfig}.Migrate(readText(t, text))
	if len(result.Reports) != 0 || len(result.Documents) != 1 {
		t.Fatalf("%d reports and %d documents, want no report and 1 document", len(result.Reports), len(result.Documents))
	}
	if got := string(result.Documents[0].Objects()[0].JSON); !strings.Contains(got, "MASTER_PORT") {
		t.Errorf("the variable was removed: %s", got)
	}
}

// TestRemoveService checks which Services of the input are left out, because Rollcall creates them.
func TestRemoveService(t *testing.T) {
	const text = `
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team, labels: {rollcall.training/framework: pytorch}}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {labels: {app: train}}
    spec:
      subdomain: SUBDOMAIN
      restartPolicy: Never
      containers: [{name: main, image: x, command: [torchrun, ARGUMENT]}]
---
apiVersion: v1
kind: Service
metadata: {name: hosts, namespace: NAMESPACE}
spec: {clusterIP: ADDRESS, selector: {SELECTOR}}
`
	for name, c := range map[string]struct {
		subdomain, argument, namespace, ip, selector string
		removed                                      bool
	}{
		"label of the Job controller":         {selector: "job-name: train", removed: true},
		"label of the template":               {selector: "app: train", removed: true},
		"subdomain in the command":            {argument: "train-0.hosts", selector: "app: train", removed: true},
		"pods of another workload":            {selector: "app: other"},
		"Service in another namespace":        {namespace: "other", selector: "app: train"},
		"Service with a cluster IP":           {ip: "10.0.0.1", selector: "app: train"},
		"Service that is not the subdomain's": {subdomain: "ranks", selector: "app: train"},
	} {
		t.Run(name, func(t *testing.T) {
			input := strings.NewReplacer("SUBDOMAIN", cmp.Or(c.subdomain, "hosts"), "ARGUMENT", cmp.Or(c.argument, "t.py"),
				"NAMESPACE", cmp.Or(c.namespace, "team"), "ADDRESS", cmp.Or(c.ip, "None"), "SELECTOR", c.selector).Replace(text)
			result := migrate.Migrator{Config: webhookConfig}.Migrate(readText(t, input))
			if removed := len(result.Documents) == 1; removed != c.removed {
				t.Errorf("removed %v, want %v: %v", removed, c.removed, result.Reports)
			}
		})
	}
}
