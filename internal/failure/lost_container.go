package failure

import "slices"

// lostContainerReasons are the reasons of containers whose end nobody observed. containerd gives the first to a
// container that ran when containerd stopped and that is gone when it starts, for example because the machine
// restarted (containerd internal/cri/server, loadContainer). The kubelet gives the second to a container that the
// runtime does not know any more (kubernetes pkg/kubelet, convertToAPIContainerStatuses).
var lostContainerReasons = []string{"Unknown", "ContainerStatusUnknown"}

// lostContainerMessage is the message of a container without output.
const lostContainerMessage = "the node or its container runtime restarted, so the exit code is not that of the program"

// IsLostContainer reports whether the node lost the training container that failed. The program did not cause that.
func (f *Failure) IsLostContainer() bool {
	return f != nil && f.Container != "" && !f.Auxiliary && slices.Contains(lostContainerReasons, f.Reason)
}
