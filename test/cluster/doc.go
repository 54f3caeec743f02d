// Package cluster starts, uses and stops a real Kubernetes cluster on one machine, with no container engine and no
// image registry.
//
// # The idea
//
// Rollcall changes objects on their way into an API server and then depends on what Kubernetes' own controllers do
// with them. Neither can be faked honestly, so the tests run the real programs. What a test needs beyond the control
// plane differs, and so does what it may cost:
//
//   - [None]: etcd, kube-apiserver, kube-controller-manager and kube-scheduler. No node: pods are created and stay
//     Pending. No root needed, and ready in seconds.
//   - [Kwok]: the same, and as many simulated nodes as wanted. Pods are scheduled, run and are deleted, but there are
//     no processes in them: for scale. No root needed.
//   - [Real]: the same, and this machine as a node: kubelet, containerd, runc, a pod network, kube-proxy, CoreDNS.
//     Containers run. Needs root, and there is at most one on a machine.
//
// All programs are built from their Go modules by the go command, each in a module of its own below components/, and
// kept in the user's cache directory. What a node needs beyond that comes from Debian packages. Images are made here
// too: of a static Go program ([Binary]), or of Debian packages ([Recipe]).
//
// # In a test
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: 10})
//		client := kubernetes.NewForConfigOrDie(c.Config())
//		...
//	}
//
// The cluster ends with the test. A package whose tests share one cluster starts it in TestMain by [Main].
//
// # What stays behind
//
// Nothing that runs. A cluster's processes die with the process that started it (unless it is detached, as those of
// the command are), and it records all that outlives a process (mounts, containers, bridge, packet filter rules) before
// making it. So after a crash the next start, or [Clean], takes away what is left. Files stay only in the cache
// directory: programs, images, the containers' image store, and the logs of clusters whose test failed.
package cluster
