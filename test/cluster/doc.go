// Package cluster starts, uses and stops a real Kubernetes cluster on one machine, without a
// container engine or an image registry.
//
// # The idea
//
// Rollcall changes objects during admission and depends on the behavior of the Kubernetes
// controllers. Fakes of either would prove little, so the tests run the real programs. Tests differ
// in what they need in addition to the control plane, and in the cost that is acceptable:
//
//   - [NoNodes]: etcd, kube-apiserver, kube-controller-manager and kube-scheduler. There are no
//     nodes, so pods stay Pending. It needs no root and is ready in seconds.
//   - [Kwok]: a control plane and any number of simulated nodes. Pods are scheduled, run and deleted,
//     but have no processes. It is for tests of scale and needs no root.
//   - [Real]: a control plane with this machine as a node: kubelet, containerd, runc, a pod network,
//     kube-proxy and CoreDNS. Containers run. It needs root, and a machine can have only one Real
//     cluster. Further nodes are network namespaces of this machine.
//
// The go command builds all programs. Each has its own Go module below components/, and the
// programs are stored in the user's cache directory. Other programs of a node come from Debian
// packages. The package also builds images: of a static Go program ([Binary]), of Debian packages
// ([Recipe]), or of an image and more files ([Overlay]).
//
// # In a test
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: 10})
//		client := kubernetes.NewForConfigOrDie(c.Config())
//		...
//	}
//
// The cluster stops at the end of the test. Packages whose tests share a cluster start it in
// TestMain with [Main].
//
// # Faults
//
// Each further real node can be stopped, killed, cut from the network, made slow, drained and removed:
// see [Cluster.StopNode] and the methods next to it. Each fault has an undo.
//
// # Cleanup
//
// No processes remain. The processes of a cluster die with the process that started it, unless the
// cluster is detached like those of the command. Before a cluster creates anything that outlives a
// process (mounts, containers, the bridge, packet filter rules), it records that in its state.
// After a crash, the next start or [Clean] removes the leftovers. Files remain only in the cache
// directory: programs, images, the image store of containerd, and the logs of failed tests.
package cluster
