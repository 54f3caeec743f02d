package vet_test

import "rollcall.training/internal/vet"

func storageCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"NoCheckpointVolume": {
			{
				name:     "default restart policy with accelerators",
				manifest: testJob{annotations: "no-restart: a", resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}"}.String(),
				want:     []string{"spec.template.spec.volumes"},
			},
			{name: "default restart policy without accelerators", manifest: testJob{annotations: "no-restart: a"}.String()},
			{
				name: "Python program over MPI",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{annotations: restartAnnotation, container: "command: [mpirun, python, train.py]"},
				),
				want: []string{"spec.template.spec.volumes"},
			},
			{
				name: "benchmark over MPI",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{annotations: restartAnnotation, container: "command: [mpirun, /opt/all_reduce_perf, -b, 8M]"},
				),
			},
			{
				name:     "no volume",
				manifest: testJob{annotations: restartAnnotation}.String(),
				want:     []string{"spec.template.spec.volumes"},
			},
			{
				name: "emptyDir",
				manifest: testJob{
					annotations: restartAnnotation,
					container:   dataMount,
					pod:         "volumes: [{name: data, emptyDir: {}}]",
				}.String(),
				want: []string{"spec.template.spec.volumes"},
			},
			{
				name: "ephemeral claim",
				manifest: testJob{
					annotations: restartAnnotation,
					container:   dataMount,
					pod:         "volumes: [{name: data, ephemeral: {}}]",
				}.String(),
				want: []string{"spec.template.spec.volumes"},
			},
			{
				name: "read-only claim",
				manifest: testJob{
					annotations: restartAnnotation,
					container:   "volumeMounts: [{name: data, mountPath: /data, readOnly: true}]",
					pod:         claimVolume,
				}.String(),
				want: []string{"spec.template.spec.volumes"},
			},
			{
				name:     "claim without a mount",
				manifest: testJob{annotations: restartAnnotation, pod: claimVolume}.String(),
				want:     []string{"spec.template.spec.volumes"},
			},
			{
				name: "several members report once",
				manifest: joinDocuments(
					mpiMemberYAML(
						"launcher",
						testJob{annotations: restartAnnotation, container: "command: [mpirun, python, train.py]"},
					),
					mpiMemberYAML("worker", testJob{annotations: restartAnnotation}),
				),
				want: []string{"spec.template.spec.volumes"},
			},
			{
				name:     "restart policy pod",
				manifest: testJob{annotations: "rollcall.training/restart-policy: pod"}.String(),
				want:     []string{"spec.template.spec.volumes"},
			},
			{
				name:     "mounted claim",
				manifest: testJob{annotations: restartAnnotation, container: dataMount, pod: claimVolume}.String(),
			},
			{
				name: "mounted claim of one member",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{annotations: restartAnnotation}),
					mpiMemberYAML("worker", testJob{annotations: restartAnnotation, container: dataMount, pod: claimVolume}),
				),
			},
			{
				name: "NFS volume",
				manifest: testJob{
					annotations: restartAnnotation,
					container:   dataMount,
					pod:         "volumes: [{name: data, nfs: {server: a, path: /}}]",
				}.String(),
			},
			{
				name: "claim template of a StatefulSet",
				manifest: testJob{
					kind:        "StatefulSet",
					annotations: restartAnnotation,
					container:   dataMount,
					spec:        "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]",
				}.String(),
			},
			{
				name: "storage URL in the command",
				manifest: testJob{
					annotations: restartAnnotation,
					container:   "command: [python, train.py, '--out=s3://bucket/a']",
				}.String(),
			},
			{
				name:     "storage URL in a variable",
				manifest: testJob{annotations: restartAnnotation, container: "env: [{name: OUT, value: 'gs://bucket'}]"}.String(),
			},
			{name: "restart policy never", manifest: testJob{annotations: "rollcall.training/restart-policy: never"}.String()},
			{
				name:     "zero restarts, but restarts after disruptions",
				manifest: testJob{annotations: restartAnnotation + ", rollcall.training/max-restarts: '0'"}.String(),
				want:     []string{"spec.template.spec.volumes"},
			},
			{
				name: "zero restarts and disruptions",
				manifest: testJob{annotations: restartAnnotation + ", rollcall.training/max-restarts: '0', " +
					"rollcall.training/max-disruptions: '0'"}.String(),
			},
			{
				name:     "backoffLimit 0 implies restart policy never",
				manifest: testJob{annotations: "no-restart: a", spec: "backoffLimit: 0"}.String(),
			},
		},
		"VolumeNotReadWriteMany": {
			{
				name:     "ReadWriteOnce with two pods",
				manifest: joinDocuments(testJob{pod: claimVolume}.String(), claimYAML("ReadWriteOnce")),
				want:     []string{claimPath},
			},
			{
				name:     "ReadWriteOncePod with two pods",
				manifest: joinDocuments(testJob{pod: claimVolume}.String(), claimYAML("ReadWriteOncePod")),
				want:     []string{claimPath},
			},
			{
				name: "ReadWriteOnce with pods of two workloads",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{pod: claimVolume}),
					mpiMemberYAML(
						"worker",
						testJob{ranks: 1, pod: claimVolume, annotations: "rollcall.training/roles: 'launcher=1,worker=1'"},
					),
					claimYAML("ReadWriteOnce"),
				),
				want: []string{
					claimPath,
					claimPath,
				},
			},
			{
				name:     "ReadWriteOnce with a single pod",
				manifest: joinDocuments(testJob{ranks: 1, pod: claimVolume}.String(), claimYAML("ReadWriteOnce")),
			},
			{
				name:     "one of several modes is ReadWriteMany",
				manifest: joinDocuments(testJob{pod: claimVolume}.String(), claimYAML("ReadWriteOnce, ReadWriteMany")),
			},
			{name: "ReadOnlyMany", manifest: joinDocuments(testJob{pod: claimVolume}.String(), claimYAML("ReadOnlyMany"))},
			{name: "claim is not in the input", manifest: testJob{pod: claimVolume}.String()},
		},
		"ShmExceedsMemory": {
			{
				name: "user volume larger than the limit of a denied Job",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}], env: [{name: WORLD_SIZE, value: '16'}]",
					pod:       "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 20Gi}}]",
				}.String(),
				want: []string{"spec.template.spec.volumes[shm].emptyDir.sizeLimit"},
			},
			{
				name:     "annotation exceeds the limit",
				manifest: testJob{annotations: "rollcall.training/shm-size: 2Gi"}.String(),
				want:     []string{"metadata.annotations[rollcall.training/shm-size]"},
			},
			{
				name: "user volume as large as the limit",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]",
				}.String(),
				want: []string{"spec.template.spec.volumes[shm].emptyDir.sizeLimit"},
			},
			{name: "annotation below the limit", manifest: testJob{annotations: "rollcall.training/shm-size: 512Mi"}.String()},
			{name: "default size", manifest: testJob{}.String()},
			{
				name:     "no memory limit",
				manifest: testJob{annotations: "rollcall.training/shm-size: 2Gi", resources: "limits: {cpu: 1}"}.String(),
			},
			{
				name: "volume on disk",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {sizeLimit: 1Gi}}]",
				}.String(),
			},
		},
		"ShmWithoutSizeLimit": {
			{
				name: "volume of the user",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {medium: Memory}}]",
				}.String(),
				want: []string{"spec.template.spec.volumes[shm].emptyDir"},
			},
			{
				name: "container without a memory limit",
				manifest: testJob{
					resources: "limits: {cpu: 1}",
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {medium: Memory}}]",
				}.String(),
			},
			{
				name: "volume with a size",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 512Mi}}]",
				}.String(),
			},
			{
				name: "volume on the disk of the node",
				manifest: testJob{
					container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
					pod:       "volumes: [{name: shm, emptyDir: {}}]",
				}.String(),
			},
			{name: "volume of Rollcall", manifest: testJob{}.String()},
		},
		"NoMemoryLimit": {
			{
				name:     "four accelerators are a whole node with GB200",
				manifest: testJob{resources: "limits: {nvidia.com/gpu: 4}"}.String(),
			},
			{
				name:     "accelerator and a request without a limit",
				manifest: testJob{resources: "requests: {memory: 1Gi}, limits: {nvidia.com/gpu: 1}"}.String(),
				want:     []string{containerPath + ".resources"},
			},
			{name: "no accelerators", manifest: testJob{resources: "limits: {cpu: 1}"}.String()},
			{name: "all accelerators of a node", manifest: testJob{resources: "limits: {nvidia.com/gpu: 8}"}.String()},
			{name: "TPU", manifest: testJob{resources: "limits: {google.com/tpu: 4}"}.String()},
			{
				name:     "pod with the network of its node",
				manifest: testJob{resources: "limits: {nvidia.com/gpu: 4}", pod: hostNetwork}.String(),
			},
			{name: "limit of the container", manifest: testJob{}.String()},
			{
				name:     "limit of the pod",
				manifest: testJob{resources: "limits: {nvidia.com/gpu: 1}", pod: "resources: {limits: {memory: 1Gi}}"}.String(),
			},
			{
				name: "launcher that does not train",
				manifest: mpiMemberYAML("launcher", testJob{
					resources: "requests: {memory: 1Gi}, limits: {nvidia.com/gpu: 1}",
				}),
			},
			{
				name: "role named launcher of a generic gang",
				manifest: genericLauncherYAML(testJob{
					resources: "requests: {memory: 1Gi}, limits: {nvidia.com/gpu: 1}",
				}),
				want: []string{containerPath + ".resources"},
			},
		},
		"FewCPUs": {
			{
				name:     "two CPUs for eight accelerators",
				manifest: testJob{resources: "limits: {memory: 1Gi, cpu: 2, nvidia.com/gpu: 8}"}.String(),
				want:     []string{containerPath + ".resources.limits[cpu]"},
			},
			{
				name: "two CPUs for four processes of the annotation",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '4'",
					resources:   "limits: {memory: 1Gi, cpu: 2}",
				}.String(),
				want: []string{containerPath + ".resources.limits[cpu]"},
			},
			{
				name:     "one CPU for each process",
				manifest: testJob{resources: "limits: {memory: 1Gi, cpu: 8, nvidia.com/gpu: 8}"}.String(),
			},
			{
				name:     "number of processes defaults to the CPUs",
				manifest: testJob{resources: "limits: {memory: 1Gi, cpu: 2500m}"}.String(),
			},
			{name: "no CPU limit", manifest: testJob{resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}"}.String()},
			{
				name:     "launcher sets the number of processes",
				manifest: mpiMemberYAML("worker", testJob{resources: "limits: {memory: 1Gi, cpu: 1, nvidia.com/gpu: 8}"}),
			},
		},
	}
}
