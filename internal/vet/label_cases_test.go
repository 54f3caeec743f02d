package vet_test

import (
	"fmt"
	"strings"

	"rollcall.training/internal/vet"
)

func labelCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"LabelMisspelled": {
			{
				name:     "misspelled name of the framework label",
				manifest: testJob{framework: "none", labels: "rollcall.training/framwork: pytorch"}.String(),
				want:     []string{"metadata.labels[rollcall.training/framwork]"},
			},
			{
				name:     "misspelled domain of the framework label",
				manifest: testJob{framework: "none", labels: "rolcall.training/framework: pytorch"}.String(),
				want:     []string{"metadata.labels[rolcall.training/framework]"},
			},
			{
				name:     "misspelled domain of an annotation",
				manifest: testJob{annotations: "rollcall.trainin/gpus: '1'"}.String(),
				want:     []string{"metadata.annotations[rollcall.trainin/gpus]"},
			},
			{
				name:     "domain without its suffix",
				manifest: testJob{framework: "none", labels: "rollcall/framework: pytorch"}.String(),
				want:     []string{"metadata.labels[rollcall/framework]"},
			},
			{
				name:     "webhook warns about a labeled workload",
				manifest: testJob{labels: "rollcall.training/framwork: pytorch"}.String(),
			},
			{
				name: "unrelated keys of other domains",
				manifest: testJob{
					labels:      "example.com/framework: pytorch, app: a",
					annotations: "rollcall.example.com/gpus: '1'",
				}.String(),
			},
			{
				name:     "misspelled label of an unsupported kind",
				manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {rollcall.training/framwork: pytorch}}\n",
			},
		},
		"LauncherWithoutLabel": {
			{
				name:     "torchrun in two pods",
				manifest: unlabeledJob(2, "", "[torchrun, --nnodes=2, train.py]"),
				want:     []string{"metadata.labels"},
			},
			{
				name:     "launcher in a script",
				manifest: unlabeledJob(2, "", `[sh, -c, "cd /a && mpirun -n 2 ./a"]`),
				want:     []string{"metadata.labels"},
			},
			{name: "labeled workload", manifest: unlabeledJob(2, "rollcall.training/framework: mpi", "[torchrun, train.py]")},
			{name: "one pod", manifest: unlabeledJob(1, "", "[torchrun, train.py]")},
			{name: "no launcher", manifest: unlabeledJob(2, "", "[python, train.py]")},
			{name: "each pod trains by itself", manifest: unlabeledJob(2, "", "[torchrun, --standalone, train.py]")},
			{
				name:     "workload that opted out",
				manifest: unlabeledJob(2, `rollcall.training/inject: "false"`, "[torchrun, train.py]"),
			},
			{
				name:     "misspelled label is reported once",
				manifest: unlabeledJob(2, "rollcall.training/framwork: pytorch", "[torchrun, train.py]"),
			},
		},
		"LabelMisplaced": {
			{
				name:     "pod template of a Job",
				manifest: testJob{framework: "none", template: "labels: {rollcall.training/framework: pytorch}"}.String(),
				want:     []string{"spec.template.metadata.labels[rollcall.training/framework]"},
			},
			{
				name: "pod template of a StatefulSet",
				manifest: testJob{
					kind:      "StatefulSet",
					framework: "none",
					template:  "labels: {rollcall.training/framework: pytorch}",
				}.String(),
				want: []string{"spec.template.metadata.labels[rollcall.training/framework]"},
			},
			{
				name:     "annotation instead of a label",
				manifest: testJob{framework: "none", annotations: "rollcall.training/framework: pytorch"}.String(),
				want:     []string{"metadata.annotations[rollcall.training/framework]"},
			},
			{
				name:     "metadata of a CronJob",
				manifest: cronJobYAML("labels: {rollcall.training/framework: pytorch}", ""),
				want:     []string{frameworkLabelPath},
			},
			{
				name: "pod template of a CronJob",
				manifest: strings.Replace(
					cronJobWrapping(testJob{framework: "none"}),
					"template: {metadata: {",
					"template: {metadata: {labels: {rollcall.training/framework: pytorch}",
					1,
				),
				want: []string{"spec.jobTemplate.spec.template.metadata.labels[rollcall.training/framework]"},
			},
			{name: "Job template of a CronJob", manifest: cronJobYAML("", "labels: {rollcall.training/framework: pytorch}")},
			{
				name:     "labels of the Job and of its pod template",
				manifest: testJob{template: "labels: {rollcall.training/framework: pytorch}"}.String(),
			},
		},
		"LabelMissing": {
			{
				name:     "annotation without the framework label",
				manifest: testJob{framework: "none", annotations: "rollcall.training/gpus: '1'"}.String(),
				want:     []string{"metadata.annotations[rollcall.training/gpus]"},
			},
			{
				name:     "role label without the framework label",
				manifest: testJob{framework: "none", labels: "rollcall.training/role: worker", annotations: "restart: a"}.String(),
				want:     []string{"metadata.labels[rollcall.training/role]"},
			},
			{
				name: "opted out of injection",
				manifest: testJob{
					framework:   "none",
					labels:      "rollcall.training/inject: 'false'",
					annotations: "rollcall.training/gpus: '1'",
				}.String(),
			},
			{
				name: "misspelled framework label is reported separately",
				manifest: testJob{
					framework:   "none",
					labels:      "rollcall.training/framwork: a",
					annotations: "rollcall.training/gpus: '1'",
				}.String(),
			},
			{name: "Job without keys of Rollcall", manifest: testJob{framework: "none", annotations: "restart: a"}.String()},
			{
				name:     "annotation with the framework label",
				manifest: testJob{annotations: "rollcall.training/gpus: '1'"}.String(),
			},
		},
		"KindUnsupported": {
			{
				name: "Deployment",
				manifest: "apiVersion: apps/v1\nkind: Deployment\n" +
					"metadata: {name: a, labels: {rollcall.training/framework: pytorch}}\n",
				want: []string{frameworkLabelPath},
			},
			{
				name:     "unsupported API version of a Job",
				manifest: strings.Replace(testJob{}.String(), "batch/v1", "batch/v1beta1", 1),
				want:     []string{"apiVersion"},
			},
			{
				name: "Service with the label that the controller sets",
				manifest: strings.Replace(
					serviceYAML("a", "clusterIP: None"),
					"name: a",
					"name: a, labels: {rollcall.training/framework: pytorch}",
					1,
				),
			},
			{name: "Deployment without the label", manifest: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"},
		},
	}
}

// unlabeledJob returns a Job with the given labels and without annotations.
func unlabeledJob(ranks int, labels, command string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, labels: {%s}}\nspec:\n"+
		"  parallelism: %d\n  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a, command: %s}]}}\n",
		labels, ranks, command)
}
