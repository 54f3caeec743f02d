package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func admissionCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		vet.CodeUnreadable: {
			{name: "broken YAML", manifest: "a: [1\nb: 2\n", want: []string{""}, invalid: true},
			{name: "duplicate key", manifest: "a: 1\na: 2\n", want: []string{""}, invalid: true},
			{
				name:     "two of three documents are broken",
				manifest: "a: [\n---\na: 1\n---\nb: [\n",
				want:     []string{"", ""},
				invalid:  true,
			},
			{name: "valid document that is not a workload", manifest: "a: 1\n---\n# nothing\n"},
		},
		vet.CodeUndecodable: {
			{
				name:     "string in place of a number",
				manifest: strings.Replace(testJob{}.String(), "parallelism: 2", "parallelism: two", 1),
				want:     []string{"spec.parallelism"},
				invalid:  true,
			},
			{
				name:     "number in place of a string",
				manifest: testJob{container: "env: [{name: A, value: 1}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
				invalid:  true,
			},
			{
				name:     "invalid quantities without a position in the error",
				manifest: testJob{resources: "limits: {memory: 8GB, nvidia.com/gpu: one}"}.String(),
				want:     []string{containerPath + ".resources.limits.memory", containerPath + ".resources.limits[nvidia.com/gpu]"},
				invalid:  true,
			},
			{
				name:     "invalid timestamp without a position in the error",
				manifest: strings.Replace(testJob{}.String(), "name: train,", "name: train, creationTimestamp: yesterday,", 1),
				want:     []string{""},
				invalid:  true,
			},
			{
				name:     "unlabeled workload is not checked",
				manifest: strings.Replace(testJob{framework: "none"}.String(), "parallelism: 2", "parallelism: two", 1),
			},
		},
		"DuplicateObject": {
			{
				name:     "same name twice",
				manifest: joinDocuments(testJob{}.String(), testJob{}.String()),
				want:     []string{"metadata.name"},
			},
			{
				name: "same name in two namespaces",
				manifest: joinDocuments(
					testJob{}.String(),
					strings.Replace(testJob{}.String(), "name: train,", "name: train, namespace: b,", 1),
				),
			},
			{
				name: "Job and Service with the same name",
				manifest: joinDocuments(
					testJob{}.String(),
					serviceYAML("train", "clusterIP: None, selector: {rollcall.training/gang: train}"),
				),
			},
		},
		vet.CodeDenied: {
			{name: "unknown framework", manifest: testJob{framework: "torch"}.String(), want: []string{frameworkLabelPath}},
			{
				name:     "two causes",
				manifest: testJob{framework: "torch", annotations: "rollcall.training/port: '1'"}.String(),
				want:     []string{"metadata.annotations[rollcall.training/port]", frameworkLabelPath},
			},
			{
				name:     "user value of an identity variable",
				manifest: testJob{container: "env: [{name: RANK, value: '0'}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name:     "Job template of a CronJob",
				manifest: cronJobYAML("", "labels: {rollcall.training/framework: torch}"),
				want: []string{
					"spec.jobTemplate.metadata.labels[rollcall.training/framework]",
					"spec.jobTemplate.spec.template.spec.containers",
				},
			},
			{
				name:     "generated Job name of a CronJob is too long",
				manifest: strings.Replace(cronJobWrapping(testJob{}), "name: nightly", "name: "+strings.Repeat("a", 54), 1),
				want:     []string{"metadata.name"},
			},
			{name: "valid CronJob", manifest: cronJobWrapping(testJob{})},
			{
				name:     "opted out of injection",
				manifest: testJob{framework: "torch", labels: "rollcall.training/inject: 'false'"}.String(),
			},
			{name: "no framework label", manifest: testJob{framework: "none"}.String()},
		},
		"AdmissionWarning": {
			{
				name:     "misspelled annotation",
				manifest: testJob{annotations: "rollcall.training/nproc: '2'"}.String(),
				want:     []string{"metadata.annotations[rollcall.training/nproc]"},
			},
			{
				name:     "user value of an overridable variable has its own check",
				manifest: testJob{container: "env: [{name: PET_NPROC_PER_NODE, value: '3'}]"}.String(),
			},
			{name: "no warnings", manifest: testJob{}.String()},
		},
		"DefaultOverridden": {
			{
				name:     "number of processes",
				manifest: testJob{container: "env: [{name: PET_NPROC_PER_NODE, value: '3'}]"}.String(),
				want:     []string{containerPath + ".env[0]"},
			},
			{
				name:     "empty value disables unbuffered output",
				manifest: testJob{container: "env: [{name: PYTHONUNBUFFERED, value: ''}]"}.String(),
				want:     []string{containerPath + ".env[0]"},
			},
			{
				name:     "any other value enables unbuffered output",
				manifest: testJob{container: "env: [{name: PYTHONUNBUFFERED, value: '0'}]"}.String(),
			},
			{
				name:     "warning about an annotation",
				manifest: testJob{annotations: "rollcall.training/nproc: '2'"}.String(),
			},
			{name: "no variables", manifest: testJob{}.String()},
		},
		vet.CodeUnknownField: {
			{
				name:     "misspelled field of the spec",
				manifest: testJob{spec: "backofLimit: 1"}.String(),
				want:     []string{"spec.backofLimit"},
			},
			{
				name:     "misspelled field of a container",
				manifest: testJob{container: "restartPolicyy: Always"}.String(),
				want:     []string{containerPath + ".restartPolicyy"},
			},
			{name: "correct spelling", manifest: testJob{spec: "backoffLimit: 1"}.String()},
			{name: "unlabeled workload is not checked", manifest: testJob{framework: "none", spec: "backofLimit: 1"}.String()},
		},
		"PodRestartPolicy": {
			{
				name:     "default of a Job is Always",
				manifest: strings.Replace(testJob{}.String(), "restartPolicy: Never,", "", 1),
				want:     []string{"spec.template.spec.restartPolicy"},
			},
			{
				name:     "Always in a Job",
				manifest: testJob{pod: "restartPolicy: Always"}.String(),
				want:     []string{"spec.template.spec.restartPolicy"},
			},
			{
				name:     "Never in a StatefulSet",
				manifest: testJob{kind: "StatefulSet", pod: "restartPolicy: Never"}.String(),
				want:     []string{"spec.template.spec.restartPolicy"},
			},
			{name: "OnFailure in a Job", manifest: testJob{pod: "restartPolicy: OnFailure"}.String()},
			{name: "default in a StatefulSet", manifest: testJob{kind: "StatefulSet"}.String()},
		},
		"ExtendedResource": {
			{
				name:     "request without a limit",
				manifest: testJob{resources: "requests: {nvidia.com/gpu: 2}"}.String(),
				want:     []string{containerPath + ".resources.requests[nvidia.com/gpu]"},
			},
			{
				name:     "request below the limit",
				manifest: testJob{resources: "requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}"}.String(),
				want:     []string{containerPath + ".resources.requests[nvidia.com/gpu]"},
			},
			{name: "limit without a request", manifest: testJob{resources: "limits: {nvidia.com/gpu: 2}"}.String()},
			{
				name:     "request equals the limit",
				manifest: testJob{resources: "requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: '2'}"}.String(),
			},
			{
				name:     "memory and CPU need no equal limit",
				manifest: testJob{resources: "requests: {memory: 1Gi, cpu: 1}"}.String(),
			},
			{name: "annotation sets request and limit", manifest: testJob{annotations: "rollcall.training/gpus: '2'"}.String()},
		},
	}
}
