package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var kueueComponent = component{name: "kueue", module: "sigs.k8s.io/kueue", mainPackage: ".", coldBuildTime: "2 minutes"}

// kueueConfigTemplate is the configuration of Kueue with the port and the certificate directory of
// its webhook, and the port of its probes.
const kueueConfigTemplate = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
integrations: {frameworks: [batch/job]}
`

// kueueResources are the resources of the objects that are installed from Kueue's manifests.
var kueueResources = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition": {
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	},
	"MutatingWebhookConfiguration": {
		Group:    "admissionregistration.k8s.io",
		Version:  "v1",
		Resource: "mutatingwebhookconfigurations",
	},
	"ValidatingWebhookConfiguration": {
		Group:    "admissionregistration.k8s.io",
		Version:  "v1",
		Resource: "validatingwebhookconfigurations",
	},
}

// StartKueue runs Kueue for plain Jobs as a process of this machine, and returns when it is ready.
// The first call builds Kueue. It installs the CustomResourceDefinitions and webhooks of Kueue's
// manifests, with the webhooks called by URL. Kueue stops with the cluster.
func (c *Cluster) StartKueue(ctx context.Context) error {
	path, err := kueueComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	module, err := kueueComponent.findModuleDir(ctx)
	if err != nil {
		return err
	}
	manifests := filepath.Join(module, "config", "components")
	return c.progress.runStep("Kueue", func() error { return c.installAndRunKueue(ctx, path, manifests) })
}

func (c *Cluster) installAndRunKueue(ctx context.Context, path, manifests string) error {
	ports, err := FindFreePorts(loopback, 2)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "kueue")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of Kueue: %w", err)
	}
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return err
	}
	if err := ca.issueCertificate(identity{name: "tls", user: "kueue", hosts: []string{loopback}}); err != nil {
		return err
	}
	bundle, err := os.ReadFile(ca.certFile(ca.name))
	if err != nil {
		return fmt.Errorf("reading the certificate of Kueue's CA: %w", err)
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, kueueConfigTemplate, ports[0], dir, ports[1]), 0o600); err != nil {
		return fmt.Errorf("writing Kueue's configuration: %w", err)
	}
	server := "https://" + net.JoinHostPort(loopback, strconv.Itoa(ports[0]))
	if err := c.installKueue(ctx, manifests, server, bundle); err != nil {
		return err
	}
	if err := c.waitUntilReady(ctx, "kube-apiserver", startTimeout, c.checkKueueCRDsEstablished); err != nil {
		return err
	}
	if err := c.startProgram(program{
		name: "kueue",
		path: path,
		args: []string{"--config=" + file, "--kubeconfig=" + c.Kubeconfig()},
	}); err != nil {
		return err
	}
	ready := "http://" + net.JoinHostPort(loopback, strconv.Itoa(ports[1])) + "/readyz"
	return c.waitUntilReady(ctx, "kueue", startTimeout, func(ctx context.Context) error {
		return checkHealth(ctx, http.DefaultClient, ready)
	})
}

// installKueue creates Kueue's CustomResourceDefinitions, and its webhooks that the program serves.
func (c *Cluster) installKueue(ctx context.Context, manifests, server string, bundle []byte) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there are no CustomResourceDefinitions in %s", manifests))
	}
	for _, file := range append(files, filepath.Join(manifests, "webhook", "manifests.yaml")) {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading Kueue's manifests: %w", err)
		}
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			if len(o.Object) == 0 {
				continue
			}
			if err := rewriteKueueWebhooks(o, server, bundle); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			resource := client.Resource(kueueResources[o.GetKind()])
			if _, err := resource.Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// checkKueueCRDsEstablished returns nil if the API server serves all of Kueue's
// CustomResourceDefinitions.
func (c *Cluster) checkKueueCRDsEstablished(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	all, err := client.Resource(kueueResources["CustomResourceDefinition"]).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range all.Items {
		conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(conditions, func(condition any) bool {
			c, ok := condition.(map[string]any)
			return ok && c["type"] == "Established" && c["status"] == "True"
		}) {
			return fmt.Errorf("%s is not established", o.GetName())
		}
	}
	return nil
}

// rewriteKueueWebhooks removes the webhooks that the program does not serve, and replaces the
// Service of the others by a URL.
func rewriteKueueWebhooks(o *unstructured.Unstructured, server string, bundle []byte) error {
	hooks, found, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	o.SetName("kueue-" + o.GetName())
	var kept []any
	for _, hook := range hooks {
		hook := hook.(map[string]any)
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !strings.Contains(path, "-kueue-x-k8s-io-") && !strings.HasSuffix(path, "-batch-v1-job") {
			continue
		}
		hook["clientConfig"] = map[string]any{"url": server + path, "caBundle": base64.StdEncoding.EncodeToString(bundle)}
		kept = append(kept, hook)
	}
	return unstructured.SetNestedSlice(o.Object, kept, "webhooks")
}
