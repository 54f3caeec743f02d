package vet_test

import "rollcall.training/internal/vet"

func networkCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"NodeInterface": {
			{
				name:     "interface of a node",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: ens5}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name:     "loopback interface",
				manifest: testJob{container: "env: [{name: GLOO_SOCKET_IFNAME, value: lo}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name:     "interface of the pod",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String(),
			},
			{
				name:     "one of two interfaces exists",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: 'ens,eth'}]"}.String(),
			},
			{
				name: "interface of the node with hostNetwork",
				manifest: testJob{
					container: "env: [{name: NCCL_SOCKET_IFNAME, value: ens5}]",
					pod:       hostNetwork,
				}.String(),
			},
			{
				name: "additional network of Multus",
				manifest: testJob{
					template:  "annotations: {k8s.v1.cni.cncf.io/networks: rdma}",
					container: "env: [{name: NCCL_SOCKET_IFNAME, value: roce0}]",
				}.String(),
			},
			{
				name:     "reference to another variable",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: $(IFACE)}]"}.String(),
			},
		},
		"HostNetworkPort": {
			{
				name:     "pods that share their nodes",
				manifest: testJob{pod: hostNetwork, resources: "limits: {memory: 1Gi, nvidia.com/gpu: 2}"}.String(),
				want:     []string{"spec.template.spec.hostNetwork"},
			},
			{
				name:     "pods that use whole nodes",
				manifest: testJob{pod: hostNetwork, resources: "limits: {memory: 1Gi, nvidia.com/gpu: 4}"}.String(),
			},
			{
				name:     "launcher that only connects to the port",
				manifest: mpiMemberYAML("launcher", testJob{pod: hostNetwork}),
			},
			{
				name:     "undeclared port",
				manifest: testJob{pod: hostNetwork}.String(),
				want:     []string{"spec.template.spec.hostNetwork"},
			},
			{
				name: "declared port",
				manifest: testJob{
					pod:       hostNetwork,
					container: "ports: [{containerPort: 23456}]",
				}.String(),
			},
			{name: "pod network", manifest: testJob{}.String()},
			{
				name:     "gang of one pod",
				manifest: testJob{ranks: 1, pod: hostNetwork}.String(),
			},
		},
		"ServiceMesh": {
			{
				name:     "pod template requests Istio",
				manifest: testJob{template: "labels: {sidecar.istio.io/inject: 'true'}"}.String(),
				want:     []string{"spec.template.metadata.labels[sidecar.istio.io/inject]"},
			},
			{
				name:     "pod template requests Linkerd",
				manifest: testJob{template: "annotations: {linkerd.io/inject: enabled}"}.String(),
				want:     []string{"spec.template.metadata.annotations[linkerd.io/inject]"},
			},
			{
				name:     "Namespace requests Linkerd",
				manifest: joinDocuments(testJob{}.String(), namespaceYAML("annotations: {linkerd.io/inject: enabled}")),
				want:     []string{"spec.template.metadata.annotations[linkerd.io/inject]"},
			},
			{
				name:     "Namespace requests Istio, which Rollcall disables",
				manifest: joinDocuments(testJob{}.String(), namespaceYAML("labels: {istio-injection: enabled}")),
			},
			{
				name: "pod template disables Linkerd",
				manifest: joinDocuments(
					testJob{template: "annotations: {linkerd.io/inject: disabled}"}.String(),
					namespaceYAML("annotations: {linkerd.io/inject: enabled}"),
				),
			},
			{
				name:     "pod template disables Istio",
				manifest: testJob{template: "labels: {sidecar.istio.io/inject: 'false'}"}.String(),
			},
		},
	}
}
