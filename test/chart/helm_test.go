package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// chartDir is the folder of the chart.
const chartDir = "../../charts/rollcall"

// values are values of the chart, as in a values file.
type values map[string]any

// helmPath is the path of helm.
var helmPath string

func TestMain(m *testing.M) {
	path, err := cluster.FindHelm(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	helmPath = path
	os.Exit(m.Run())
}

// runHelm runs helm with its configuration in a temporary folder and returns its output. The error contains
// the standard error of helm.
func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), helmPath, args...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// template returns the manifests of the chart with values.
func template(t *testing.T, v values) (string, error) {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return runHelm(t, append(templateArgs(), "--values", path)...)
}

// templateArgs returns the arguments that render the chart with the only value that it requires.
func templateArgs() []string {
	return []string{
		"template", installation.Release, chartDir, "--namespace", installation.Namespace, installation.ImageArg,
	}
}

// templateValid returns the manifests of the chart with valid values.
func templateValid(t *testing.T, v values) string {
	t.Helper()
	manifests, err := template(t, v)
	if err != nil {
		t.Fatalf("rendering the chart with %v: %v", v, err)
	}
	return manifests
}

// render returns the objects of the chart with valid values.
func render(t *testing.T, v values) []runtime.Object {
	t.Helper()
	return decode(t, templateValid(t, v))
}

// decode decodes manifests strictly: an unknown field fails the test.
func decode(t *testing.T, manifests string) []runtime.Object {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, certmanagerv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for manifest := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		if strings.TrimSpace(manifest) == "" {
			continue
		}
		object, _, err := decoder.Decode([]byte(manifest), nil, nil)
		if err != nil {
			t.Fatalf("decoding a rendered object: %v\n%s", err, manifest)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Fatal("the chart rendered nothing")
	}
	return objects
}

// newValues returns the values of paths such as webhook.port.
func newValues(byPath map[string]any) values {
	out := values{}
	for path, value := range byPath {
		out.set(path, value)
	}
	return out
}

// set changes the value of a path.
func (v values) set(path string, value any) {
	key, rest, nested := strings.Cut(path, ".")
	if !nested {
		v[key] = value
		return
	}
	inner, ok := v[key].(values)
	if !ok {
		inner = values{}
		v[key] = inner
	}
	inner.set(rest, value)
}
