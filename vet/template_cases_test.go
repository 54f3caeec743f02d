package vet_test

import (
	"strings"

	"rollcall.training/vet"
)

func templateCases() map[vet.Code][]sample {
	const restarts = "rollcall.training/restart-policy: gang"
	mounted := "volumeMounts: [{name: data, mountPath: /data}]"
	long := strings.Repeat("a", 60)
	return map[vet.Code][]sample{
		vet.CodeNoCheckpointVolume: {
			{reason: "nothing is mounted", text: job{annotations: restarts}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "an emptyDir goes with the pod", text: job{annotations: restarts, container: mounted, pod: "volumes: [{name: data, emptyDir: {}}]"}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "a claim for the pod's life", text: job{annotations: restarts, container: mounted, pod: "volumes: [{name: data, ephemeral: {}}]"}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "a claim that is only read", text: job{annotations: restarts, container: "volumeMounts: [{name: data, mountPath: /data, readOnly: true}]", pod: claimed}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "a claim that no container mounts", text: job{annotations: restarts, pod: claimed}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "once for a gang", text: several(mpi("launcher", job{annotations: restarts}), mpi("worker", job{annotations: restarts})), want: []string{"spec.template.spec.volumes"}},
			{reason: "pods that are replaced", text: job{annotations: "rollcall.training/restart-policy: pod"}.String(), want: []string{"spec.template.spec.volumes"}},
			{reason: "a claim", text: job{annotations: restarts, container: mounted, pod: claimed}.String()},
			{reason: "the claim of one member", text: several(mpi("launcher", job{annotations: restarts}), mpi("worker", job{annotations: restarts, container: mounted, pod: claimed}))},
			{reason: "NFS", text: job{annotations: restarts, container: mounted, pod: "volumes: [{name: data, nfs: {server: a, path: /}}]"}.String()},
			{reason: "a claim of a StatefulSet's own", text: job{kind: "StatefulSet", annotations: restarts, container: mounted, spec: "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]"}.String()},
			{reason: "object storage in the command", text: job{annotations: restarts, container: "command: [python, train.py, '--out=s3://bucket/a']"}.String()},
			{reason: "object storage in a variable", text: job{annotations: restarts, container: "env: [{name: OUT, value: 'gs://bucket'}]"}.String()},
			{reason: "it never restarts", text: job{annotations: "rollcall.training/restart-policy: never"}.String()},
			{reason: "it may restart 0 times", text: job{annotations: restarts + ", rollcall.training/max-restarts: '0'"}.String()},
			{reason: "backoffLimit 0 means never", text: job{annotations: "no-restart: a", spec: "backoffLimit: 0"}.String()},
		},
		vet.CodeSmallShm: {
			{reason: "switched off beside accelerators", text: job{annotations: "rollcall.training/gpus: '2', rollcall.training/shm-size: none"}.String(), want: []string{"metadata.annotations[rollcall.training/shm-size]"}},
			{reason: "the injected volume", text: job{annotations: "rollcall.training/gpus: '2'"}.String()},
			{reason: "no accelerators", text: job{annotations: "rollcall.training/shm-size: none"}.String()},
			{reason: "a volume of one's own", text: job{annotations: "rollcall.training/gpus: '2', rollcall.training/shm-size: none",
				container: "volumeMounts: [{name: shm, mountPath: /dev/shm/}]", pod: "volumes: [{name: shm, emptyDir: {medium: Memory}}]"}.String()},
			{reason: "the host's", text: job{annotations: "rollcall.training/gpus: '2', rollcall.training/shm-size: none", pod: "hostIPC: true"}.String()},
		},
		vet.CodeShmExceedsMemory: {
			{reason: "by the annotation", text: job{annotations: "rollcall.training/shm-size: 2Gi"}.String(), want: []string{"metadata.annotations[rollcall.training/shm-size]"}},
			{reason: "a volume of one's own, as large as the limit", text: job{container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]", pod: "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]"}.String(),
				want: []string{"spec.template.spec.volumes[shm].emptyDir.sizeLimit"}},
			{reason: "half", text: job{annotations: "rollcall.training/shm-size: 512Mi"}.String()},
			{reason: "the default", text: job{}.String()},
			{reason: "no limit", text: job{annotations: "rollcall.training/shm-size: 2Gi", resources: "limits: {cpu: 1}"}.String()},
			{reason: "on disk", text: job{container: "volumeMounts: [{name: shm, mountPath: /dev/shm}]", pod: "volumes: [{name: shm, emptyDir: {sizeLimit: 1Gi}}]"}.String()},
		},
		vet.CodeNoMemoryLimit: {
			{reason: "none", text: job{resources: "requests: {memory: 1Gi}"}.String(), want: []string{container + ".resources"}},
			{reason: "a limit", text: job{}.String()},
			{reason: "one for the whole pod", text: job{resources: "limits: {cpu: 1}", pod: "resources: {limits: {memory: 1Gi}}"}.String()},
			{reason: "a launcher does not train", text: mpi("launcher", job{resources: "limits: {cpu: 1}"})},
		},
		vet.CodeFewCPUs: {
			{reason: "eight accelerators, two cores", text: job{resources: "limits: {memory: 1Gi, cpu: 2, nvidia.com/gpu: 8}"}.String(), want: []string{container + ".resources.limits[cpu]"}},
			{reason: "by the annotation", text: job{annotations: "rollcall.training/nproc-per-node: '4'", resources: "limits: {memory: 1Gi, cpu: 2}"}.String(), want: []string{container + ".resources.limits[cpu]"}},
			{reason: "one each", text: job{resources: "limits: {memory: 1Gi, cpu: 8, nvidia.com/gpu: 8}"}.String()},
			{reason: "as many processes as cores", text: job{resources: "limits: {memory: 1Gi, cpu: 2500m}"}.String()},
			{reason: "no limit", text: job{resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}"}.String()},
			{reason: "the launcher says how many", text: mpi("worker", job{resources: "limits: {memory: 1Gi, cpu: 1, nvidia.com/gpu: 8}"})},
		},
		vet.CodeNameNearLimit: {
			{reason: "a pod's hostname", text: job{name: long}.String(), want: []string{"metadata.name"}},
			{reason: "a StatefulSet's own limit", text: job{kind: "StatefulSet", name: strings.Repeat("a", 50)}.String(), want: []string{"metadata.name"}},
			{reason: "a gang's name", text: job{labels: "rollcall.training/gang: " + long}.String(), want: []string{"metadata.labels[rollcall.training/gang]"}},
			{reason: "the largest size of an elastic gang", text: job{name: strings.Repeat("a", 54), annotations: "rollcall.training/elastic: '2:10000'"}.String(), want: []string{"metadata.name"}},
			{reason: "five are left", text: job{name: strings.Repeat("a", 56)}.String()},
			{reason: "the same name of a Job is short", text: job{name: strings.Repeat("a", 50)}.String()},
		},
		vet.CodeSocketInterface: {
			{reason: "eth0 is there, and nothing else is used", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "in a script", text: job{container: `command: [sh, -c, "export GLOO_SOCKET_IFNAME=eth0; torchrun a.py"]`}.String(), want: []string{command}},
			{reason: "on the host's network", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: '=ens5'}], ports: [{containerPort: 23456}]", pod: "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "some kept out", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: '^docker,lo'}]"}.String()},
			{reason: "other settings of NCCL", text: job{container: "env: [{name: NCCL_DEBUG, value: INFO}, {name: NCCL_IB_HCA, value: mlx5_0}]"}.String()},
			{reason: "one pod", text: job{ranks: 1, container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String()},
		},
		vet.CodeNodeInterface: {
			{reason: "a node's", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: ens5}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "lo reaches nobody", text: job{container: "env: [{name: GLOO_SOCKET_IFNAME, value: lo}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "eth0", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String()},
			{reason: "one of several is there", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: 'ens,eth'}]"}.String()},
			{reason: "the host's network", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: ens5}]", pod: "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"}.String()},
			{reason: "a network of its own", text: job{template: "annotations: {k8s.v1.cni.cncf.io/networks: rdma}", container: "env: [{name: NCCL_SOCKET_IFNAME, value: roce0}]"}.String()},
			{reason: "one that refers to another variable", text: job{container: "env: [{name: NCCL_SOCKET_IFNAME, value: $(IFACE)}]"}.String()},
		},
		vet.CodeHostNetworkPort: {
			{reason: "not declared", text: job{pod: "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"}.String(), want: []string{"spec.template.spec.hostNetwork"}},
			{reason: "declared", text: job{pod: "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet", container: "ports: [{containerPort: 23456}]"}.String()},
			{reason: "a network of the pod", text: job{}.String()},
			{reason: "one pod", text: job{ranks: 1, pod: "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"}.String()},
		},
		vet.CodeCustomDNS: {
			{reason: "servers of its own", text: job{pod: "dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1]}"}.String(), want: []string{"spec.template.spec.dnsPolicy"}},
			{reason: "the cluster's", text: job{pod: "dnsPolicy: ClusterFirst, dnsConfig: {options: [{name: ndots, value: '1'}]}"}.String()},
			{reason: "one pod", text: job{ranks: 1, pod: "dnsPolicy: None"}.String()},
		},
		vet.CodeServiceMesh: {
			{reason: "Istio is asked for", text: job{template: "labels: {sidecar.istio.io/inject: 'true'}"}.String(), want: []string{"spec.template.metadata.labels[sidecar.istio.io/inject]"}},
			{reason: "Linkerd is asked for", text: job{template: "annotations: {linkerd.io/inject: enabled}"}.String(), want: []string{"spec.template.metadata.annotations[linkerd.io/inject]"}},
			{reason: "Linkerd, by the namespace", text: several(job{}.String(), namespace("annotations: {linkerd.io/inject: enabled}")), want: []string{"spec.template.metadata.annotations[linkerd.io/inject]"}},
			{reason: "Istio's namespace: Rollcall keeps its pods out", text: several(job{}.String(), namespace("labels: {istio-injection: enabled}"))},
			{reason: "Linkerd, kept out", text: several(job{template: "annotations: {linkerd.io/inject: disabled}"}.String(), namespace("annotations: {linkerd.io/inject: enabled}"))},
			{reason: "Istio, kept out", text: job{template: "labels: {sidecar.istio.io/inject: 'false'}"}.String()},
		},
		vet.CodeDeadlineBeforeStart: {
			{reason: "earlier", text: job{annotations: restarts + ", rollcall.training/start-timeout: 30m", spec: "activeDeadlineSeconds: 600"}.String(), want: []string{"spec.activeDeadlineSeconds"}},
			{reason: "later", text: job{annotations: restarts + ", rollcall.training/start-timeout: 30m", spec: "activeDeadlineSeconds: 86400"}.String()},
			{reason: "no timeout", text: job{spec: "activeDeadlineSeconds: 600"}.String()},
		},
		vet.CodeNoBackoff: {
			{reason: "a contradiction", text: job{annotations: restarts, spec: "backoffLimit: 0"}.String(), want: []string{"spec.backoffLimit"}},
			{reason: "restarts that cannot be", text: job{annotations: restarts + ", rollcall.training/max-restarts: '5'", spec: "backoffLimit: 0"}.String(), want: []string{"spec.backoffLimit"}},
			{reason: "both say never", text: job{annotations: restarts + ", rollcall.training/max-restarts: '0'", spec: "backoffLimit: 0"}.String()},
			{reason: "never", text: job{annotations: "no-restart: a", spec: "backoffLimit: 0"}.String()},
			{reason: "some", text: job{annotations: restarts, spec: "backoffLimit: 2"}.String()},
		},
		vet.CodeShortTTL: {
			{reason: "at once", text: job{spec: "ttlSecondsAfterFinished: 0"}.String(), want: []string{"spec.ttlSecondsAfterFinished"}},
			{reason: "a minute", text: job{spec: "ttlSecondsAfterFinished: 60"}.String()},
			{reason: "never", text: job{}.String()},
		},
		vet.CodeFloatingImage: {
			{reason: "latest", text: job{image: "train:latest"}.String(), want: []string{container + ".image"}},
			{reason: "none", text: job{image: "registry.example.com:5000/train"}.String(), want: []string{container + ".image"}},
			{reason: "a tag", text: job{image: "registry.example.com:5000/train:1"}.String()},
			{reason: "a digest", text: job{image: "train@sha256:0123456789012345678901234567890123456789012345678901234567890123"}.String()},
			{reason: "one pod", text: job{ranks: 1, image: "train"}.String()},
		},
	}
}

func namespace(meta string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, " + meta + "}\n"
}
