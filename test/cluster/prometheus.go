package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	prometheusModule = "github.com/prometheus/prometheus"
	// prometheusTags leave out the service discoveries of all systems except Kubernetes. Some of their clients
	// are modules that the Go proxy does not have.
	prometheusTags = "remove_all_sd,enable_kubernetes_sd"
)

var (
	prometheusComponent = component{
		name: "prometheus", module: prometheusModule, mainPackage: prometheusModule + "/cmd/prometheus",
		tags: prometheusTags,
	}
	promtoolComponent = component{
		name: "promtool", dir: "prometheus", module: prometheusModule, mainPackage: prometheusModule + "/cmd/promtool",
		tags: prometheusTags,
	}
)

// RunPromtool runs promtool in a directory and returns its output, also if it fails. The first call builds it.
// It needs no cluster.
func RunPromtool(ctx context.Context, dir string, args ...string) (string, error) {
	path, err := promtoolComponent.ensureBinary(ctx, newProgress(os.Stderr))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

// StartPrometheus runs Prometheus as a process of this machine, which can reach the pods of real nodes. The
// parameter config is the text of its configuration file, in which paths are relative to the directory of
// the cluster. The first call builds Prometheus. StartPrometheus returns the URL of the server when it
// is ready. Prometheus stops with the cluster.
func (c *Cluster) StartPrometheus(ctx context.Context, config string) (string, error) {
	path, err := prometheusComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.dir, "prometheus")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the directory of Prometheus: %w", err)
	}
	configPath := filepath.Join(c.dir, "prometheus.yaml")
	if err := os.WriteFile(configPath, []byte(config), 0o600); err != nil {
		return "", fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	ports, err := FindFreePorts("127.0.0.1", 1)
	if err != nil {
		return "", err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	server := "http://" + address
	return server, c.progress.runStep("prometheus", func() error {
		err := c.startProgram(program{Name: "prometheus", Path: path, Args: []string{
			"--config.file=" + configPath, "--storage.tsdb.path=" + dir, "--web.listen-address=" + address,
		}})
		if err != nil {
			return err
		}
		return c.waitUntilReady(ctx, "prometheus", time.Minute, func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/-/ready", http.NoBody)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the status is %s", response.Status)
			}
			return nil
		})
	})
}
