package e2e

import (
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/installation"
)

// TestInstallRelease builds a release, pushes it to a registry and installs its chart. The node pulls the
// image by the digest in the chart.
func TestInstallRelease(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	host := startRegistry(t)
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/release", "build", "--version=v0.0.1",
		"--repository="+host+"/rollcall/manager", "--chart-repository="+host+"/rollcall/charts/rollcall",
		"--image-platforms=linux/"+runtime.GOARCH, "--command-platforms=linux/"+runtime.GOARCH,
		"--output="+filepath.Join(t.TempDir(), "dist"), "--push", "--insecure", "--allow-uncommitted")
	build.Dir = filepath.Join(repositoryRoot, "release")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the release: %v\n%s", err, out)
	}
	s.uninstallChart(t)
	start := time.Now()
	if out, err := s.Helm(t.Context(), "install", installation.Release, "oci://"+host+"/rollcall/charts/rollcall",
		"--version=0.0.1", "--plain-http", "--namespace="+installation.Namespace, "--wait", "--timeout=3m"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	suspended := newLabeledJob()
	suspended.Spec.Suspend = ptr.To(true)
	job, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), suspended, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("from helm install to the first admitted Job: %.1f s", time.Since(start).Seconds())
	if job.Annotations[gang.AnnotationInjected] == "" {
		t.Error("the Job was not injected")
	}
	pods, err := s.client.CoreV1().Pods(installation.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pulled := 0
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue // a pod of the previous release
		}
		pulled++
		image := pod.Spec.Containers[0].Image
		if !strings.HasPrefix(image, host+"/rollcall/manager@sha256:") {
			t.Errorf("the image of pod %s is %s", pod.Name, image)
		}
		out, err := s.Kubectl(t.Context(), "--namespace", pod.Namespace, "logs", pod.Name)
		if err != nil || !strings.Contains(out, "v0.0.1") {
			t.Errorf("the log of pod %s does not contain the version: %v\n%s", pod.Name, err, out)
		}
	}
	if want := 4; pulled != want { // two of the webhook, two of the controller
		t.Errorf("the release has %d pods, want %d", pulled, want)
	}
}

// startRegistry starts a registry on the loopback interface, and returns its address. containerd and Helm
// use HTTP for such a registry.
func startRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}
