package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podRemovalTimeout bounds the removal of all pods. Each pod is killed without a grace period.
const podRemovalTimeout = time.Minute

// containerdConfigTemplate is in a format that containerd 1.x and 2.x support. All directories
// belong to the cluster, so that it does not share any with another containerd of the machine.
var containerdConfigTemplate = template.Must(template.New("containerd").Parse(`version = 2
root = "{{ .Root }}"
state = "{{ .State }}"
# Unused plugins are disabled, because some probe for features that the machine does not have.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing",
]

[grpc]
  address = "{{ .Socket }}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{{ .State }}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{ .Pause }}"
  # A container of this kind of machine may not raise its own priority, nor may we.
  restrict_oom_score_adj = true
  # In the directory of the cluster, so that a cleanup after a crash finds it.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{ .CNIBin }}"
    conf_dir = "{{ .CNIConfig }}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{{ .State }}/runc"
`))

func containerdStateDir(dir string) string { return filepath.Join(dir, "containerd") }
func containerdSocket(dir string) string {
	return filepath.Join(containerdStateDir(dir), "containerd.sock")
}

// containerdName is the name of containerd among the components.
const containerdName = "containerd"

// newContainerdEnv is the environment variable that replaces the containerd of Debian by a new one, which supports
// volumes of images. It uses Debian's shim.
const newContainerdEnv = "ROLLCALL_NEW_CONTAINERD"

// UsesNewContainerd reports whether clusters run the new containerd.
func UsesNewContainerd() bool { return os.Getenv(newContainerdEnv) == "true" }

var containerdComponent = component{
	name: containerdName, module: "github.com/containerd/containerd/v2",
	mainPackage: "github.com/containerd/containerd/v2/cmd/containerd", tags: "no_btrfs,no_zfs,no_devmapper,no_aufs",
}

// findContainerd returns the path of containerd.
func (c *Cluster) findContainerd(ctx context.Context) (string, error) {
	if UsesNewContainerd() {
		return containerdComponent.ensureBinary(ctx, c.progress)
	}
	return findProgram("containerd"), nil
}

func (c *Cluster) startContainerd(ctx context.Context, n realNode) error {
	path := filepath.Join(n.dir(), "containerd.toml")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing the configuration of containerd: %w", err)
	}
	err = containerdConfigTemplate.Execute(f, map[string]string{
		"Root": n.imageStore(c.state.Machine.ImageStore), "State": containerdStateDir(n.dir()),
		"Socket": containerdSocket(n.dir()), "Pause": pauseImage,
		"CNIBin": cniDir, "CNIConfig": n.cniConfigDir(),
	})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the configuration of containerd: %w", err)
	}
	program, err := c.findContainerd(ctx)
	if err != nil {
		return err
	}
	if err := c.startProgram(n.program(containerdName, program, []string{"--config=" + path})); err != nil {
		return err
	}
	return c.waitForContainerd(ctx, n)
}

func (c *Cluster) waitForContainerd(ctx context.Context, n realNode) error {
	return c.waitUntilReady(ctx, n.component(containerdName), startTimeout, func(ctx context.Context) error {
		return withRuntimeConnection(n.dir(), func(connection *grpc.ClientConn) error {
			response, err := cri.NewRuntimeServiceClient(connection).Status(ctx, &cri.StatusRequest{})
			if err != nil {
				return err
			}
			for _, condition := range response.Status.Conditions {
				isDecisive := condition.Type == cri.RuntimeReady || condition.Type == cri.NetworkReady // for kubelets
				if isDecisive && !condition.Status {
					return fmt.Errorf("%s: %s", condition.Type, condition.Message)
				}
			}
			return nil
		})
	})
}

// withRuntimeConnection calls talk with a CRI connection to the containerd of the node in dir.
func withRuntimeConnection(dir string, talk func(*grpc.ClientConn) error) error {
	connection, err := grpc.NewClient(
		"unix:"+containerdSocket(dir), grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return fmt.Errorf("connecting to containerd: %w", err)
	}
	defer func() { _ = connection.Close() }()
	return talk(connection)
}

// removePodSandboxes stops and removes all pods by CRI, so that containerd removes their networks,
// mounts and processes.
func removePodSandboxes(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, podRemovalTimeout)
	defer cancel()
	return withRuntimeConnection(dir, func(connection *grpc.ClientConn) error {
		runtime := cri.NewRuntimeServiceClient(connection)
		pods, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil {
			return fmt.Errorf("listing the pods: %w", err)
		}
		var errs []error
		for _, pod := range pods.Items {
			_, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.Id})
			if err == nil {
				_, err = runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.Id})
			}
			if err != nil && status.Code(err) != codes.NotFound { // the kubelet may have removed it
				errs = append(errs, fmt.Errorf("removing the pod %s/%s: %w", pod.Metadata.Namespace, pod.Metadata.Name, err))
			}
		}
		return errors.Join(errs...)
	})
}
