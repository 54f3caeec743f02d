package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// deviceName is the resource of the devices in this file. A container finds its device in the variable DEVICE.
const deviceName = "example.com/device"

// deviceServer is a device plugin. It advertises devices until a test calls markUnhealthy.
type deviceServer struct {
	deviceplugin.UnimplementedDevicePluginServer
	changes chan struct{}

	mu        sync.Mutex
	devices   []*deviceplugin.Device
	allocated []string
}

// startDevicePlugin registers a number of devices with the kubelet that was started last. All kubelets of a cluster use
// the same socket.
func startDevicePlugin(t *testing.T, devices int) *deviceServer {
	t.Helper()
	s := &deviceServer{changes: make(chan struct{}, 1)}
	for i := range devices {
		s.devices = append(s.devices, &deviceplugin.Device{ID: fmt.Sprintf("device-%d", i), Health: deviceplugin.Healthy})
	}
	socket := filepath.Join(deviceplugin.DevicePluginPath, "example.sock")
	if err := os.RemoveAll(socket); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix://"+deviceplugin.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(t.Context(), &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: filepath.Base(socket), ResourceName: deviceName,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// GetDevicePluginOptions implements [deviceplugin.DevicePluginServer].
func (s *deviceServer) GetDevicePluginOptions(
	context.Context, *deviceplugin.Empty,
) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch implements [deviceplugin.DevicePluginServer].
func (s *deviceServer) ListAndWatch(
	_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse],
) error {
	for {
		if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: s.listDevices()}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.changes:
		}
	}
}

func (s *deviceServer) listDevices() []*deviceplugin.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices)
}

// Allocate implements [deviceplugin.DevicePluginServer].
func (s *deviceServer) Allocate(
	_ context.Context, r *deviceplugin.AllocateRequest,
) (*deviceplugin.AllocateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &deviceplugin.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		s.allocated = append(s.allocated, c.DevicesIds...)
		out.ContainerResponses = append(out.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"DEVICE": strings.Join(c.DevicesIds, ",")},
		})
	}
	return out, nil
}

// firstAllocated returns the ID of the first allocated device.
func (s *deviceServer) firstAllocated(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.allocated) == 0 {
		t.Fatal("no device is allocated")
	}
	return s.allocated[0]
}

// markUnhealthy reports a device as unhealthy.
func (s *deviceServer) markUnhealthy(id string) {
	s.mu.Lock()
	for i, d := range s.devices {
		if d.ID == id {
			s.devices[i] = &deviceplugin.Device{ID: id, Health: deviceplugin.Unhealthy}
		}
	}
	s.mu.Unlock()
	s.changes <- struct{}{}
}

// TestUnhealthyDevice checks that a gang restarts after the kubelet has reported for 10 s that a device is unhealthy.
// The program does not notice it. The next attempt gets other devices, and no restart is used up.
func TestUnhealthyDevice(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	node := s.addNode(t)
	plugin := startDevicePlugin(t, 4)
	s.waitForDevices(t, node, 4)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.sh",
		`echo "attempt $ROLLCALL_ATTEMPT has $DEVICE"; [ "$ROLLCALL_ATTEMPT" != 0 ] || exec sleep 600`)
	spec := s.newPodSpec("sh", "train.sh")
	spec.Containers[0].Resources.Limits = corev1.ResourceList{deviceName: resource.MustParse("1")}
	s.createJob(t, ns, "train", 2, nil, spec)
	s.waitForGangStatus(t, ns, "train", lifecycle.Running, 0)
	id, victim := plugin.firstAllocated(t), ""
	for pod, log := range s.readLogsByPod(t, ns, "train") {
		if strings.Contains(log, "attempt 0 has "+id) {
			victim = pod
		}
	}
	start := time.Now()
	plugin.markUnhealthy(id)

	status := s.waitForGangStatus(t, ns, "train", lifecycle.Succeeded, 1)
	t.Logf("succeeded %.0f s after the device was reported: %s", time.Since(start).Seconds(), status.FirstFailure)
	f := status.FirstFailure
	if f.Reason != failure.ReasonDeviceUnhealthy || f.Pod != victim || f.Node != node || status.Restarts != 0 {
		t.Errorf("%d restarts, first failure %+v, want an unhealthy device of pod %s", status.Restarts, f, victim)
	}
	for pod, log := range s.readLogsByPod(t, ns, "train") {
		if strings.Contains(log, "attempt 1 has "+id) {
			t.Errorf("the pod %s of the second attempt got the unhealthy device", pod)
		}
	}
	s.logStatus(t, ns, "train")
}

// waitForDevices waits until a node has a number of devices.
func (s *testCluster) waitForDevices(t *testing.T, node string, count int64) {
	t.Helper()
	wait.For(t, "the node to have devices", func(ctx context.Context) error {
		n, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Status.Allocatable[deviceName]; got.Value() != count {
			return fmt.Errorf("%s devices", got.String())
		}
		return nil
	})
}
