package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func networkCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"NameNearLimit": {
			{
				name:     "hostname of a Job",
				manifest: testJob{name: strings.Repeat("a", 60)}.String(),
				want:     []string{"metadata.name"},
			},
			{
				name:     "name of a StatefulSet",
				manifest: testJob{kind: "StatefulSet", name: strings.Repeat("a", 50)}.String(),
				want:     []string{"metadata.name"},
			},
			{
				name:     "name of the gang",
				manifest: testJob{labels: "rollcall.training/gang: " + strings.Repeat("a", 60)}.String(),
				want:     []string{"metadata.labels[rollcall.training/gang]"},
			},
			{
				name:     "hostname at the maximum size of an elastic gang",
				manifest: testJob{name: strings.Repeat("a", 54), annotations: "rollcall.training/elastic: '2:10000'"}.String(),
				want:     []string{"metadata.name"},
			},
			{name: "five characters are free", manifest: testJob{name: strings.Repeat("a", 56)}.String()},
			{
				name:     "Job with a name that is long only for a StatefulSet",
				manifest: testJob{name: strings.Repeat("a", 50)}.String(),
			},
		},
		"SocketInterface": {
			{
				name: "exported variable in a script",
				manifest: testJob{
					container: `command: [sh, -c, "export GLOO_SOCKET_IFNAME=enp7s0; torchrun a.py"], ports: [{containerPort: 23456}]`,
					pod:       hostNetwork,
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "interface of the pod",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String(),
			},
			{
				name: "usual name with hostNetwork",
				manifest: testJob{
					container: "env: [{name: NCCL_SOCKET_IFNAME, value: 'eth0,eth1'}], ports: [{containerPort: 23456}]",
					pod:       hostNetwork,
				}.String(),
			},
			{
				name: "interface of the node with hostNetwork",
				manifest: testJob{
					container: "env: [{name: NCCL_SOCKET_IFNAME, value: '=ens5'}], ports: [{containerPort: 23456}]",
					pod:       hostNetwork,
				}.String(),
				want: []string{containerPath + ".env[0].value"},
			},
			{
				name:     "exclusion of interfaces",
				manifest: testJob{container: "env: [{name: NCCL_SOCKET_IFNAME, value: '^docker,lo'}]"}.String(),
			},
			{
				name:     "other variables of NCCL",
				manifest: testJob{container: "env: [{name: NCCL_DEBUG, value: INFO}, {name: NCCL_IB_HCA, value: mlx5_0}]"}.String(),
			},
			{
				name:     "gang of one pod",
				manifest: testJob{ranks: 1, container: "env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]"}.String(),
			},
		},
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
		"CustomDNS": {
			{
				name:     "dnsPolicy None",
				manifest: testJob{pod: "dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1]}"}.String(),
				want:     []string{"spec.template.spec.dnsPolicy"},
			},
			{
				name:     "dnsPolicy ClusterFirst with options",
				manifest: testJob{pod: "dnsPolicy: ClusterFirst, dnsConfig: {options: [{name: ndots, value: '1'}]}"}.String(),
			},
			{name: "gang of one pod", manifest: testJob{ranks: 1, pod: "dnsPolicy: None"}.String()},
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
