package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func templateCases() map[vet.Code][]checkCase {
	withoutImage := strings.Replace(testJob{}.String(), `image: "registry.example.com/train:1", `, "", 1)
	return map[vet.Code][]checkCase{
		"TemplateVariable": {
			{
				name:     "number is a variable",
				manifest: strings.Replace(testJob{}.String(), "parallelism: 2", "parallelism: $NUM_NODES", 1),
				want:     []string{"spec.parallelism"},
				invalid:  true,
			},
			{
				name:     "annotation that the webhook denies is not the variable",
				manifest: testJob{image: "${IMAGE}", annotations: "rollcall.training/port: $PORT"}.String(),
				want:     []string{containerPath + ".image"},
			},
			{
				name:     "valid workload with a variable",
				manifest: testJob{image: "registry.example.com/train:${TAG}"}.String(),
			},
			{
				name:     "rejected workload with a variable of the shell",
				manifest: testJob{framework: "torch", container: "command: [sh, -c, 'echo $RANK']"}.String(),
			},
		},
		"InvalidPodTemplate": {
			{name: "no image", manifest: withoutImage, want: []string{containerPath + ".image"}},
			{
				name:     "mount of a volume that does not exist",
				manifest: testJob{container: dataMount}.String(),
				want:     []string{containerPath + ".volumeMounts[0].name"},
			},
			{
				name:     "init container without an image",
				manifest: testJob{pod: "initContainers: [{name: prepare}]"}.String(),
				want:     []string{"spec.template.spec.initContainers[0].image"},
			},
			{
				name:     "mount of a volume",
				manifest: testJob{pod: "volumes: [{name: data, emptyDir: {}}]", container: dataMount}.String(),
			},
			{
				name: "mount of a claim template",
				manifest: testJob{
					kind: "StatefulSet", spec: "volumeClaimTemplates: [{metadata: {name: data}}]", container: dataMount,
				}.String(),
			},
		},
	}
}
