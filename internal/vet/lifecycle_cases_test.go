package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func lifecycleCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"DeadlineBeforeStart": {
			{
				name: "deadline before the start timeout",
				manifest: testJob{
					annotations: restartAnnotation + ", rollcall.training/start-timeout: 30m",
					spec:        "activeDeadlineSeconds: 600",
				}.String(),
				want: []string{"spec.activeDeadlineSeconds"},
			},
			{
				name: "deadline after the start timeout",
				manifest: testJob{
					annotations: restartAnnotation + ", rollcall.training/start-timeout: 30m",
					spec:        "activeDeadlineSeconds: 86400",
				}.String(),
			},
			{name: "no start timeout", manifest: testJob{spec: "activeDeadlineSeconds: 600"}.String()},
		},
		"UnknownProgressGroup": {
			{
				name:     "a misspelled group",
				manifest: testJob{annotations: `rollcall.training/progress-pattern: '(?P<stopp>Eval)|step \d+'`}.String(),
				want:     []string{"metadata.annotations[rollcall.training/progress-pattern]"},
			},
			{
				name: "all groups, and one without a name",
				manifest: testJob{annotations: "rollcall.training/progress-pattern: " +
					`'(?P<stop>Eval)|(?P<fault>nan)|(step|iteration) (?P<step>\d+)/(?P<total>\d+)'`}.String(),
			},
			{name: "no pattern", manifest: testJob{}.String()},
		},
		"ProgressFileReadOnly": {
			{
				name: "the root file system is read-only",
				manifest: testJob{
					annotations: "rollcall.training/progress-file: /tmp/progress",
					container:   "securityContext: {readOnlyRootFilesystem: true}",
				}.String(),
				want: []string{"metadata.annotations[rollcall.training/progress-file]"},
			},
			{
				name: "a ConfigMap is mounted above the file",
				manifest: testJob{
					annotations: "rollcall.training/progress-file: /program/state/progress",
					container:   "volumeMounts: [{name: program, mountPath: /program/}]",
					pod:         "volumes: [{name: program, configMap: {name: program}}]",
				}.String(),
				want: []string{"metadata.annotations[rollcall.training/progress-file]"},
			},
			{
				name: "a writable volume is mounted below a read-only mount",
				manifest: testJob{
					annotations: "rollcall.training/progress-file: /data/state/progress",
					container: "volumeMounts: [{name: data, mountPath: /data, readOnly: true}, " +
						"{name: state, mountPath: /data/state}]",
					pod: "volumes: [{name: data, emptyDir: {}}, {name: state, emptyDir: {}}]",
				}.String(),
			},
			{
				name:     "the root file system is writable",
				manifest: testJob{annotations: "rollcall.training/progress-file: /tmp/progress"}.String(),
			},
		},
		"BackoffLimitZero": {
			{
				name:     "restart policy gang",
				manifest: testJob{annotations: restartAnnotation, spec: "backoffLimit: 0"}.String(),
				want:     []string{"spec.backoffLimit"},
			},
			{
				name: "annotation allows five restarts",
				manifest: testJob{
					annotations: restartAnnotation + ", rollcall.training/max-restarts: '5'",
					spec:        "backoffLimit: 0",
				}.String(),
				want: []string{"spec.backoffLimit"},
			},
			{
				name: "annotation allows no restarts",
				manifest: testJob{
					annotations: restartAnnotation + ", rollcall.training/max-restarts: '0'",
					spec:        "backoffLimit: 0",
				}.String(),
			},
			{name: "restart policy never", manifest: testJob{annotations: "no-restart: a", spec: "backoffLimit: 0"}.String()},
			{name: "backoffLimit above 0", manifest: testJob{annotations: restartAnnotation, spec: "backoffLimit: 2"}.String()},
		},
		"NeverRestarts": {
			{
				name:     "no restart policy",
				manifest: testJob{annotations: "no-restart: a", spec: "backoffLimit: 0"}.String(),
				want:     []string{"spec.backoffLimit"},
			},
			{
				name: "annotation for restarts without a restart policy",
				manifest: testJob{
					annotations: "rollcall.training/max-restarts: '5'", spec: "backoffLimit: 0",
				}.String(),
				want: []string{"spec.backoffLimit"},
			},
			{
				name: "restart policy never",
				manifest: testJob{
					annotations: "rollcall.training/restart-policy: never", spec: "backoffLimit: 0",
				}.String(),
			},
			{name: "restart policy gang", manifest: testJob{annotations: restartAnnotation, spec: "backoffLimit: 0"}.String()},
			{name: "elastic gang", manifest: testJob{annotations: elasticAnnotation, spec: "backoffLimit: 0"}.String()},
			{name: "no backoffLimit", manifest: testJob{annotations: "no-restart: a"}.String()},
			{name: "StatefulSet", manifest: testJob{kind: "StatefulSet", annotations: "no-restart: a"}.String()},
		},
		"DisruptionsFailJob": {
			{
				name:     "backoffLimit of a user",
				manifest: testJob{annotations: "no-restart: a", spec: "backoffLimit: 1"}.String(),
				want:     []string{"spec.backoffLimit"},
			},
			{
				name: "rule that fails the Job after an exit code",
				manifest: testJob{
					annotations: restartAnnotation, spec: "backoffLimit: 3, " + failJobRule("In", "42", ""),
				}.String(),
				want: []string{"spec.backoffLimit"},
			},
			{
				name: "rule that ignores disruptions",
				manifest: testJob{
					annotations: restartAnnotation,
					spec: "backoffLimit: 3, podFailurePolicy: {rules: [{action: Ignore, " +
						"onPodConditions: [{type: DisruptionTarget, status: 'True'}]}]}",
				}.String(),
			},
			{
				name: "no disruptions allowed",
				manifest: testJob{
					annotations: restartAnnotation + ", rollcall.training/max-disruptions: '0'", spec: "backoffLimit: 3",
				}.String(),
			},
			{name: "backoffLimit of 0", manifest: testJob{annotations: restartAnnotation, spec: "backoffLimit: 0"}.String()},
			{
				name:     "default of the API server",
				manifest: testJob{annotations: restartAnnotation, spec: "backoffLimit: 6"}.String(),
			},
			{name: "restart policy never", manifest: testJob{spec: "backoffLimit: 3"}.String()},
			{name: "elastic gang", manifest: testJob{annotations: elasticAnnotation, spec: "backoffLimit: 3"}.String()},
			{name: "no backoffLimit", manifest: testJob{annotations: restartAnnotation}.String()},
		},
		"MutableImageTag": {
			{name: "tag latest", manifest: testJob{image: "train:latest"}.String(), want: []string{containerPath + ".image"}},
			{
				name:     "no tag",
				manifest: testJob{image: "registry.example.com:5000/train"}.String(),
				want:     []string{containerPath + ".image"},
			},
			{name: "fixed tag", manifest: testJob{image: "registry.example.com:5000/train:1"}.String()},
			{name: "tag in a variable of envsubst", manifest: testJob{image: "${REGISTRY}${IMAGE}${TAG}"}.String()},
			{
				name:     "digest",
				manifest: testJob{image: "train@sha256:0123456789012345678901234567890123456789012345678901234567890123"}.String(),
			},
			{name: "gang of one pod", manifest: testJob{ranks: 1, image: "train"}.String()},
		},
		"FailJobOnExitCode": {
			{
				name:     "exit code 1",
				manifest: testJob{annotations: restartAnnotation, spec: failJobRule("In", "1, 42", "")}.String(),
				want:     []string{"spec.podFailurePolicy.rules[0].onExitCodes"},
			},
			{
				name:     "all exit codes except one",
				manifest: testJob{annotations: restartAnnotation, spec: failJobRule("NotIn", "42", "trainer")}.String(),
				want:     []string{"spec.podFailurePolicy.rules[0].onExitCodes"},
			},
			{
				name:     "signal",
				manifest: testJob{annotations: restartAnnotation, spec: failJobRule("In", "143", "")}.String(),
				want:     []string{"spec.podFailurePolicy.rules[0].onExitCodes"},
			},
			{
				name:     "exit code of the program itself",
				manifest: testJob{annotations: restartAnnotation, spec: failJobRule("In", "42", "")}.String(),
			},
			{
				name:     "container that does not train",
				manifest: testJob{annotations: restartAnnotation, spec: failJobRule("In", "1", "sidecar")}.String(),
			},
			{
				name: "rule that ignores failures",
				manifest: testJob{
					annotations: restartAnnotation,
					spec:        strings.Replace(failJobRule("In", "1", ""), "FailJob", "Ignore", 1),
				}.String(),
			},
			{name: "restart policy never", manifest: testJob{spec: failJobRule("In", "1", "")}.String()},
			{
				name:     "restart policy pod",
				manifest: testJob{annotations: "rollcall.training/restart-policy: pod", spec: failJobRule("In", "1", "")}.String(),
			},
			{name: "no podFailurePolicy", manifest: testJob{annotations: restartAnnotation}.String()},
		},
	}
}

// failJobRule returns a podFailurePolicy with one rule for exit codes. An empty container name means
// all containers.
func failJobRule(operator, codes, container string) string {
	name := ""
	if container != "" {
		name = "containerName: " + container + ", "
	}
	return "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {" + name + "operator: " + operator +
		", values: [" + codes + "]}}]}"
}
