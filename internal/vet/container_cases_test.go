package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func containerCases() map[vet.Code][]checkCase {
	const torchrun = `{name: main, image: "a:1", command: [torchrun, a.py]}`
	const found = "metadata.annotations[rollcall.training/containers]"
	const defaultContainer = "spec.template.metadata.annotations[kubectl.kubernetes.io/default-container]"
	defaultTo := func(name string) string {
		return "annotations: {kubectl.kubernetes.io/default-container: " + name + "}"
	}
	return map[vet.Code][]checkCase{
		vet.CodeWrongTrainingContainer: {
			{
				name: "default container of kubectl does not train",
				manifest: twoContainers(
					testJob{template: defaultTo("main"), container: "command: [torchrun, a.py]"},
					`{name: main, image: "a:1"}`,
				),
				want: []string{defaultContainer},
			},
			{
				name: "default container of kubectl requests no accelerators",
				manifest: twoContainers(
					testJob{template: defaultTo("trainer")},
					`{name: main, image: "a:1", resources: {limits: {nvidia.com/gpu: 8}}}`,
				),
				want: []string{defaultContainer},
			},
			{
				name:     "default container of kubectl does not exist",
				manifest: testJob{template: defaultTo("main")}.String(),
				want:     []string{defaultContainer},
			},
			{
				name:     "default container of kubectl trains",
				manifest: twoContainers(testJob{template: defaultTo("main")}, torchrun),
			},
			{
				name: "annotation names the first container",
				manifest: twoContainers(
					testJob{annotations: "rollcall.training/containers: trainer", template: defaultTo("trainer")}, torchrun),
			},
			{
				name: "network device is not an accelerator",
				manifest: twoContainers(
					testJob{template: defaultTo("trainer")},
					`{name: proxy, image: "a:1", resources: {limits: {vpc.amazonaws.com/efa: 1}}}`,
				),
			},
		},
		"TrainingContainerFound": {
			{
				name:     "second container runs torchrun",
				manifest: twoContainers(testJob{}, torchrun),
				want:     []string{found},
			},
			{
				name:     "second container requests accelerators",
				manifest: twoContainers(testJob{}, `{name: main, image: "a:1", resources: {limits: {nvidia.com/gpu: 8}}}`),
				want:     []string{found},
			},
			{
				name: "script of the second container runs a launcher",
				manifest: twoContainers(
					testJob{annotations: "rollcall.training/gpus: '8'"},
					`{name: main, image: "a:1", command: [bash, -c, "accelerate launch a.py"]}`,
				),
				want: []string{found},
			},
			{
				name:     "annotation names the second container",
				manifest: twoContainers(testJob{annotations: "rollcall.training/containers: main"}, torchrun),
			},
			{
				name: "both containers request accelerators",
				manifest: twoContainers(
					testJob{resources: "limits: {memory: 1Gi, nvidia.com/gpu: 7}"},
					`{name: monitor, image: "a:1", resources: {limits: {nvidia.com/gpu: 1}}}`,
				),
			},
			{
				name: "first container runs a launcher",
				manifest: twoContainers(
					testJob{container: "command: [torchrun, a.py]"},
					`{name: monitor, image: "a:1", command: [python, monitor.py]}`,
				),
			},
			{name: "one container", manifest: testJob{}.String()},
		},
		"SidecarNeverExits": {
			{
				name:     "container sleeps",
				manifest: twoContainers(testJob{}, `{name: debug, image: "a:1", command: [sleep, infinity]}`),
				want:     []string{"spec.template.spec.containers[1].command"},
			},
			{
				name: "container follows a file at the end of a script",
				manifest: twoContainers(
					testJob{},
					`{name: logs, image: "a:1", command: [sh, -c], args: ["touch /log; exec tail -n 0 -F /log"]}`,
				),
				want: []string{"spec.template.spec.containers[1].command"},
			},
			{
				name:     "container sleeps for some time",
				manifest: twoContainers(testJob{}, `{name: debug, image: "a:1", command: [sleep, "60"]}`),
			},
			{
				name: "script that terminates the program",
				manifest: twoContainers(
					testJob{},
					`{name: logs, image: "a:1", command: [sh, -c, "tail -f /log & wait-for-trainer; kill $!"]}`,
				),
			},
			{
				name: "sidecar container",
				manifest: testJob{
					pod: `initContainers: [{name: logs, image: "a:1", restartPolicy: Always, command: [tail, -f, /log]}]`,
				}.String(),
			},
			{
				name:     "training container sleeps",
				manifest: testJob{container: "command: [sleep, infinity]"}.String(),
			},
			{
				name:     "pods of a StatefulSet run indefinitely",
				manifest: twoContainers(testJob{kind: "StatefulSet"}, `{name: debug, image: "a:1", command: [sleep, inf]}`),
			},
		},
	}
}

// twoContainers returns the Job with a second container.
func twoContainers(j testJob, container string) string {
	return strings.Replace(j.String(), "}]}}}\n", "}, "+container+"]}}}\n", 1)
}
