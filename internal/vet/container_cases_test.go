package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func containerCases() map[vet.Code][]checkCase {
	const secondContainer = "spec.template.spec.containers[1]"
	return map[vet.Code][]checkCase{
		vet.CodeWrongTrainingContainer: {
			{
				name: "second container runs torchrun and requests accelerators",
				manifest: twoContainers(
					testJob{},
					`{name: main, image: "a:1", command: [torchrun, a.py], resources: {limits: {nvidia.com/gpu: 8}}}`,
				),
				want: []string{secondContainer},
			},
			{
				name:     "second container requests accelerators",
				manifest: twoContainers(testJob{}, `{name: main, image: "a:1", resources: {limits: {nvidia.com/gpu: 8}}}`),
				want:     []string{secondContainer},
			},
			{
				name: "accelerators of the annotation go to the first container",
				manifest: twoContainers(
					testJob{annotations: "rollcall.training/gpus: '8'"},
					`{name: main, image: "a:1", command: [bash, -c, "accelerate launch a.py"]}`,
				),
				want: []string{secondContainer},
			},
			{
				name: "default container of kubectl",
				manifest: twoContainers(
					testJob{
						template:  "annotations: {kubectl.kubernetes.io/default-container: main}",
						container: "command: [torchrun, a.py]",
					},
					`{name: main, image: "a:1"}`,
				),
				want: []string{containerPath},
			},
			{
				name: "annotation names the second container",
				manifest: twoContainers(
					testJob{annotations: "rollcall.training/containers: main"},
					`{name: main, image: "a:1", command: [torchrun, a.py]}`,
				),
			},
			{
				name: "annotation names the first container",
				manifest: twoContainers(
					testJob{annotations: "rollcall.training/containers: trainer"},
					`{name: main, image: "a:1", command: [torchrun, a.py]}`,
				),
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
			{
				name:     "network device is not an accelerator",
				manifest: twoContainers(testJob{}, `{name: proxy, image: "a:1", resources: {limits: {vpc.amazonaws.com/efa: 1}}}`),
			},
			{name: "one container", manifest: testJob{}.String()},
		},
		vet.CodeSidecarNeverExits: {
			{
				name:     "container sleeps",
				manifest: twoContainers(testJob{}, `{name: debug, image: "a:1", command: [sleep, infinity]}`),
				want:     []string{secondContainer + ".command"},
			},
			{
				name: "container follows a file at the end of a script",
				manifest: twoContainers(
					testJob{},
					`{name: logs, image: "a:1", command: [sh, -c], args: ["touch /log; exec tail -n 0 -F /log"]}`,
				),
				want: []string{secondContainer + ".command"},
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
