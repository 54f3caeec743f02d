package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSupportedVersions checks that the page has the versions that the tests run, and lists each component of the
// clusters of the tests.
func TestSupportedVersions(t *testing.T) {
	t.Parallel()
	page := readText(t, "reference/supported-versions.md")
	const components = "../test/cluster/components/"
	read := map[string]bool{}
	for software, source := range map[string]struct{ file, name string }{
		"Argo CD":      {"../test/gitops/argocd/go.mod", "github.com/argoproj/argo-cd/v3"},
		"cert-manager": {components + "cert-manager/go.mod", "github.com/cert-manager/cert-manager"},
		"containerd":   {components + "containerd/go.mod", "github.com/containerd/containerd/v2"},
		"CoreDNS":      {components + "coredns/go.mod", "github.com/coredns/coredns"},
		"etcd":         {components + "kubernetes/go.mod", "go.etcd.io/etcd/server/v3"},
		"Flux":         {"../test/go.mod", "github.com/fluxcd/helm-controller/api"},
		"Helm":         {components + "helm/go.mod", "helm.sh/helm/v4"},
		"JobSet":       {components + "jobset/go.mod", "sigs.k8s.io/jobset"},
		"Kueue":        {components + "kueue/go.mod", "sigs.k8s.io/kueue"},
		"KAI":          {components + "kai/go.mod", "github.com/NVIDIA/KAI-scheduler"},
		"kube-router":  {components + "kube-router/go.mod", "github.com/cloudnativelabs/kube-router/v2"},
		"kwok":         {components + "kwok/go.mod", "sigs.k8s.io/kwok"},
		"mpi-operator": {components + "mpi-operator/go.mod", "github.com/kubeflow/mpi-operator"},
		"newest":       {components + "kubernetes/go.mod", "k8s.io/kubernetes"},
		"oldest":       {components + "kubernetes/oldest.mod", "k8s.io/kubernetes"},
		"openreports":  {"../test/go.mod", "github.com/openreports/reports-api"},
		"Prometheus":   {components + "prometheus/go.mod", "github.com/prometheus/prometheus"},
		"scheduler":    {components + "coscheduling/go.mod", "sigs.k8s.io/scheduler-plugins"},
		"Trainer":      {components + "trainer/go.mod", "github.com/kubeflow/trainer/v2"},
		"Volcano":      {components + "volcano/go.mod", "volcano.sh/volcano"},
		"YuniKorn":     {components + "yunikorn/go.mod", "github.com/apache/yunikorn-k8shim"},

		"accelerate":    {"../test/cluster/recipes.go", "accelerate"},
		"DeepSpeed":     {"../test/cluster/recipes.go", "deepspeed"},
		"Horovod":       {"../test/cluster/recipes.go", "horovod"},
		"JAX":           {"../test/cluster/recipes.go", "jax"},
		"LightGBM":      {"../test/cluster/recipes.go", "lightgbm"},
		"Lightning":     {"../test/cluster/recipes.go", "pytorch-lightning"},
		"Paddle":        {"../test/cluster/recipes.go", "paddlepaddle"},
		"Python client": {"../python/requirements-test.txt", "kubernetes"},
		"TensorFlow":    {"../test/cluster/recipes.go", "tensorflow-cpu"},
		"XGBoost":       {"../test/cluster/recipes.go", "xgboost-cpu"},
	} {
		read[source.file] = true
		version := regexp.MustCompile(`\b` + regexp.QuoteMeta(source.name) + `(?: v|==)([\d.]+)`)
		match := version.FindStringSubmatch(readText(t, source.file))
		if match == nil {
			t.Errorf("%s does not require %s (%s)", source.file, source.name, software)
			continue
		}
		want := match[1]
		if software == "Prometheus" { // v0.316.0 is the module of Prometheus 3.16.0
			want = regexp.MustCompile(`^0\.(\d)(\d+)\.`).ReplaceAllString(want, "$1.$2.")
		}
		if !regexp.MustCompile(`\s` + regexp.QuoteMeta(want) + `[\s,.]`).MatchString(page) {
			t.Errorf("the page does not contain %s %s", software, want)
		}
	}
	versions := regexp.MustCompile(`(?m)^VERSIONS \?= (.*)$`).FindStringSubmatch(readText(t, "../Makefile"))
	if versions == nil {
		t.Fatal("the Makefile has no VERSIONS")
	}
	for version := range strings.FieldsSeq(versions[1]) {
		if !strings.Contains(page, strings.TrimPrefix(version, "v")) {
			t.Errorf("the page does not contain Kubernetes %s", version)
		}
	}
	modules, err := filepath.Glob(components + "*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("finding components: %v, %v", modules, err)
	}
	for _, path := range modules {
		if !read[path] {
			t.Errorf("the test knows no software of %s", path)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
