package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"rollcall.training/test/installation"
)

// installationDir is the folder with a file for each tool that installs the chart.
const installationDir = "../../examples/installation"

// declaredRelease is what a file of a tool installs.
type declaredRelease struct {
	repository, chart, version, name, namespace string
	// valuesFiles are files of the chart. values override them.
	valuesFiles []string
	values      map[string]any
}

// TestDeclaredReleases checks that each tool installs the same release, and that the chart accepts its values and has
// the values files.
func TestDeclaredReleases(t *testing.T) {
	image := map[string]any{"repository": "registry.example.com/rollcall/manager"}
	for tool, c := range map[string]struct {
		read       func(*testing.T) declaredRelease
		wantValues map[string]any
	}{
		"Argo CD":   {readApplication, map[string]any{"image": image, "rankOffset": map[string]any{"mode": "policy"}}},
		"Flux":      {readHelmRelease, map[string]any{"image": image}},
		"Terraform": {readTerraform, map[string]any{"image": image}},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			got := c.read(t)
			want := declaredRelease{
				repository: "oci://registry.example.com/rollcall/charts", chart: "rollcall", version: "0.2.0",
				name: installation.Release, namespace: installation.Namespace,
				valuesFiles: []string{"ci/ha-values.yaml"}, values: c.wantValues,
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(declaredRelease{})); diff != "" {
				t.Errorf("the release: -want, +got:\n%s", diff)
			}
			checkDeclaredRelease(t, got)
		})
	}
}

// checkDeclaredRelease renders the chart as a tool would.
func checkDeclaredRelease(t *testing.T, r declaredRelease) {
	t.Helper()
	text, err := yaml.Marshal(r.values)
	if err != nil {
		t.Fatal(err)
	}
	overrides := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(overrides, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"template", r.name, chartDir, "--namespace", r.namespace}
	for _, path := range r.valuesFiles {
		args = append(args, "--values", filepath.Join(chartDir, path))
	}
	manifests, err := runHelm(t, append(args, "--values", overrides)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range findDeployments(t, decode(t, manifests)) {
		image := d.Spec.Template.Spec.Containers[0].Image
		if !strings.HasPrefix(image, "registry.example.com/rollcall/manager:") {
			t.Errorf("%s has the image %s", d.Name, image)
		}
	}
}

// readApplication returns what Argo CD installs. Its types require other versions of the libraries of Kubernetes.
func readApplication(t *testing.T) declaredRelease {
	t.Helper()
	var app struct {
		Metadata struct{ Finalizers []string }
		Spec     struct {
			Source struct {
				RepoURL, Chart, TargetRevision string
				Helm                           struct {
					ReleaseName  string
					ValueFiles   []string
					ValuesObject map[string]any
				}
			}
			Destination struct{ Namespace string }
		}
	}
	if err := yaml.Unmarshal(readInstallation(t, "argocd.yaml"), &app); err != nil {
		t.Fatal(err)
	}
	// Without it, a deletion runs the hook that detaches gangs, but deletes no object.
	if diff := cmp.Diff([]string{"resources-finalizer.argocd.argoproj.io"}, app.Metadata.Finalizers); diff != "" {
		t.Errorf("the finalizers: -want, +got:\n%s", diff)
	}
	source := app.Spec.Source
	return declaredRelease{
		repository: "oci://" + source.RepoURL, chart: source.Chart, version: source.TargetRevision,
		name: source.Helm.ReleaseName, namespace: app.Spec.Destination.Namespace,
		valuesFiles: source.Helm.ValueFiles, values: source.Helm.ValuesObject,
	}
}

// TestApplicationFields checks the Application against the schema of Argo CD, which is a file of its module.
func TestApplicationFields(t *testing.T) {
	const variable = "ROLLCALL_TEST_ARGOCD"
	if os.Getenv(variable) == "" {
		t.Skipf("set %s=true to download Argo CD, or run make gitops", variable)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3")
	list.Dir = filepath.Join("..", "gitops", "argocd")
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("finding the module of Argo CD: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "manifests", "crds", "application-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	findMistakes := func(manifest []byte) []string {
		var app map[string]any
		if err := yaml.Unmarshal(manifest, &app); err != nil {
			t.Fatal(err)
		}
		var mistakes []string
		for _, err := range validation.ValidateCustomResource(nil, app, validator) {
			mistakes = append(mistakes, err.Error())
		}
		options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
		return append(mistakes, pruning.PruneWithOptions(app, structural, true, options)...)
	}
	manifest := readInstallation(t, "argocd.yaml")
	if got := findMistakes(manifest); len(got) > 0 {
		t.Errorf("the Application has the mistakes %q", got)
	}
	manifest = bytes.Replace(manifest, []byte("valueFiles:"), []byte("valuesFiles:"), 1)
	if got := findMistakes(manifest); len(got) != 1 || got[0] != "spec.source.helm.valuesFiles" {
		t.Errorf("an unknown field gives the mistakes %q", got)
	}
}

// readHelmRelease returns what Flux installs.
func readHelmRelease(t *testing.T) declaredRelease {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, helmv2.AddToScheme, sourcev1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var out declaredRelease
	var namespace, repository string
	for manifest := range strings.SplitSeq(string(readInstallation(t, "flux.yaml")), "\n---\n") {
		object, _, err := decoder.Decode([]byte(manifest), nil, nil)
		if err != nil {
			t.Fatalf("decoding an object of Flux: %v\n%s", err, manifest)
		}
		switch o := object.(type) {
		case *corev1.Namespace:
			namespace = o.Name
			if o.Annotations["kustomize.toolkit.fluxcd.io/prune"] != "disabled" {
				t.Error("Flux deletes the namespace before Helm has detached gangs")
			}
		case *sourcev1.HelmRepository:
			repository, out.repository = o.Name, o.Spec.URL
		case *helmv2.HelmRelease:
			chart := o.Spec.Chart.Spec
			out.chart, out.version, out.valuesFiles = chart.Chart, chart.Version, chart.ValuesFiles
			out.name, out.namespace = o.Spec.ReleaseName, o.Namespace
			if chart.SourceRef.Name != repository || o.Namespace != namespace {
				t.Errorf("the HelmRelease refers to %v in %s, not to the objects before it", chart.SourceRef, o.Namespace)
			}
			if err := yaml.Unmarshal(o.Spec.Values.Raw, &out.values); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// readTerraform returns what Terraform installs. No parser of its language is a requirement of the tests, so this reads
// the lines with a text. The file of values is a copy of one of the chart.
func readTerraform(t *testing.T) declaredRelease {
	t.Helper()
	_, resource, _ := strings.Cut(string(readInstallation(t, "main.tf")), `resource "helm_release"`)
	fields := map[string][]string{}
	for _, match := range regexp.MustCompile(`(?m)^ +(\w+) += "([^"]*)"`).FindAllStringSubmatch(resource, -1) {
		fields[match[1]] = append(fields[match[1]], match[2])
	}
	// The second repository is that of the image.
	if len(fields["repository"]) != 2 {
		t.Fatalf("the release has the repositories %v, want those of the chart and of the image", fields["repository"])
	}
	out := declaredRelease{
		repository: fields["repository"][0],
		values:     map[string]any{"image": map[string]any{"repository": fields["repository"][1]}},
	}
	for key, target := range map[string]*string{
		"chart": &out.chart, "version": &out.version, "name": &out.name, "namespace": &out.namespace,
	} {
		if len(fields[key]) == 1 {
			*target = fields[key][0]
		}
	}
	for _, match := range regexp.MustCompile(`file\("\$\{path\.module\}/([^"]*)"\)`).FindAllStringSubmatch(resource, -1) {
		out.valuesFiles = append(out.valuesFiles, "ci/"+match[1])
	}
	return out
}

func readInstallation(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(installationDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestHighAvailabilityPriority checks that the pods of the preset have a class of the release: GKE admits pods of
// system-cluster-critical only in namespaces with a quota for the class.
func TestHighAvailabilityPriority(t *testing.T) {
	objects := renderFile(t, "ha-values.yaml")
	var class *schedulingv1.PriorityClass
	for _, object := range objects {
		if c, ok := object.(*schedulingv1.PriorityClass); ok {
			class = c
		}
	}
	// schedulingv1 has no name for the maximum (pkg/apis/scheduling: HighestUserDefinablePriority).
	if class == nil || class.Value != 1_000_000_000 || class.GlobalDefault {
		t.Fatalf("the preset has the class %v, want one with the highest priority of users", class)
	}
	for _, d := range findDeployments(t, objects) {
		if got := d.Spec.Template.Spec.PriorityClassName; got != class.Name {
			t.Errorf("%s has the priority class %q, want %q", d.Name, got, class.Name)
		}
	}
}
