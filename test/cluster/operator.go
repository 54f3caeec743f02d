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

// operator is a controller with CustomResourceDefinitions and webhooks that runs as a process of this
// machine.
type operator struct {
	component
	// manifests are patterns of the files of its module that define the CustomResourceDefinitions and the
	// webhooks.
	manifests []string
	// config is the configuration, with verbs for the port and the certificate directory of the webhook,
	// and the port of the probes.
	config string
	// certDir is the directory of the webhook's certificate below the directory for temporary files. It is
	// empty if the configuration names the directory.
	certDir string
	// editWebhook may change a webhook of the manifests, and reports whether the program serves it.
	editWebhook func(webhook map[string]any, path string) bool
}

// operatorManifests are the manifests of an operator in the layout of Kueue and JobSet.
var operatorManifests = []string{"config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"}

// operatorResources are the resources of the objects that are installed from the manifests of an operator.
var operatorResources = map[string]schema.GroupVersionResource{
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

// startOperator runs an operator, and returns when it is ready. The first call builds it. Its webhooks are
// called by URL. It stops with the cluster.
func (c *Cluster) startOperator(ctx context.Context, o operator) error {
	path, err := o.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	module, err := o.findModuleDir(ctx)
	if err != nil {
		return err
	}
	manifests, err := o.findManifests(module)
	if err != nil {
		return err
	}
	return c.progress.runStep(o.name, func() error { return c.installAndRunOperator(ctx, o, path, manifests) })
}

// findManifests returns the files of the module that match the patterns, in their order.
func (o operator) findManifests(module string) ([]string, error) {
	var files []string
	for _, pattern := range o.manifests {
		matching, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(pattern)))
		if err != nil || len(matching) == 0 {
			return nil, errors.Join(err, fmt.Errorf("finding the manifests of %s: no file matches %s", o.name, pattern))
		}
		files = append(files, matching...)
	}
	return files, nil
}

func (c *Cluster) installAndRunOperator(ctx context.Context, o operator, path string, manifests []string) error {
	ports, err := FindFreePorts(loopback, 2)
	if err != nil {
		return err
	}
	tempDir := filepath.Join(c.dir, o.name)
	dir := filepath.Join(tempDir, o.certDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of %s: %w", o.name, err)
	}
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return err
	}
	if err := ca.issueCertificate(identity{name: "tls", user: o.name, hosts: []string{loopback}}); err != nil {
		return err
	}
	bundle, err := os.ReadFile(ca.certFile(ca.name))
	if err != nil {
		return fmt.Errorf("reading the certificate of the CA of %s: %w", o.name, err)
	}
	file := filepath.Join(tempDir, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, o.config, ports[0], dir, ports[1]), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of %s: %w", o.name, err)
	}
	server := "https://" + net.JoinHostPort(loopback, strconv.Itoa(ports[0]))
	if err := c.installOperator(ctx, o, manifests, server, bundle); err != nil {
		return err
	}
	if err := c.WaitForDefinitions(ctx); err != nil {
		return err
	}
	if err := c.startProgram(program{
		Name:    o.name,
		Path:    path,
		Args:    []string{"--config=" + file, "--kubeconfig=" + c.Kubeconfig()},
		TempDir: tempDir,
	}); err != nil {
		return err
	}
	ready := "http://" + net.JoinHostPort(loopback, strconv.Itoa(ports[1])) + "/readyz"
	return c.waitUntilReady(ctx, o.name, startTimeout, func(ctx context.Context) error {
		return checkHealth(ctx, http.DefaultClient, ready)
	})
}

// installOperator creates the CustomResourceDefinitions, and the webhooks that the program serves.
func (c *Cluster) installOperator(
	ctx context.Context, o operator, manifests []string, server string, bundle []byte,
) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for _, file := range manifests {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the manifests of %s: %w", o.name, err)
		}
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if err := o.rewriteWebhooks(object, server, bundle); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			resource := client.Resource(operatorResources[object.GetKind()])
			_, err := resource.Create(ctx, object, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

// WaitForDefinitions waits until the API server serves all CustomResourceDefinitions. "kubectl wait" fails if the
// status of a new definition has no conditions yet.
func (c *Cluster) WaitForDefinitions(ctx context.Context) error {
	return c.waitUntilReady(ctx, "kube-apiserver", startTimeout, c.checkCRDsEstablished)
}

// checkCRDsEstablished returns nil if the API server serves all CustomResourceDefinitions.
func (c *Cluster) checkCRDsEstablished(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	all, err := client.Resource(operatorResources["CustomResourceDefinition"]).List(ctx, metav1.ListOptions{})
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

// rewriteWebhooks removes the webhooks that the program does not serve, and replaces the Service of the
// others by a URL.
func (o operator) rewriteWebhooks(object *unstructured.Unstructured, server string, bundle []byte) error {
	hooks, found, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	object.SetName(o.name + "-" + object.GetName())
	var kept []any
	for _, hook := range hooks {
		hook := hook.(map[string]any)
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !o.editWebhook(hook, path) {
			continue
		}
		hook["clientConfig"] = map[string]any{"url": server + path, "caBundle": base64.StdEncoding.EncodeToString(bundle)}
		kept = append(kept, hook)
	}
	return unstructured.SetNestedSlice(object.Object, kept, "webhooks")
}
