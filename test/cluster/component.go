package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/mod/modfile"
)

// component is a program with its own Go module below components/. The go.mod of that module
// requires its version.
type component struct {
	name   string
	module string
	// dir is the name of the directory with the Go module; empty for the name of the component.
	dir string
	// mainPackage is the package to build.
	mainPackage string
	// variant selects other versions of the same program: the file <variant>.mod instead of go.mod,
	// and the build tag of that name.
	variant string
	// tags are build tags, separated by commas.
	tags string
	// linkerVariables returns variables that the linker sets, as name=value. It may be nil.
	linkerVariables func(version string) []string
}

var (
	kubernetesComponent = component{
		name:            "kubernetes",
		module:          "k8s.io/kubernetes",
		mainPackage:     ".",
		linkerVariables: kubernetesVersionVariables,
	}
	corednsComponent = component{
		name:        "coredns",
		module:      "github.com/coredns/coredns",
		mainPackage: ".",
	}
	kwokComponent = component{
		name: "kwok", module: "sigs.k8s.io/kwok", mainPackage: "sigs.k8s.io/kwok/cmd/kwok",
	}
	helmComponent = component{
		name: "helm", module: "helm.sh/helm/v4", mainPackage: "helm.sh/helm/v4/cmd/helm",
		linkerVariables: func(version string) []string {
			return []string{"helm.sh/helm/v4/internal/version.version=" + version}
		},
	}
)

// kubernetesVersionVariables sets the version of Kubernetes. Built as a dependency, Kubernetes
// would report v0.0.0, compare that with the other components and disable features.
func kubernetesVersionVariables(version string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	var stamp []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		stamp = append(stamp,
			pkg+".gitVersion="+version, pkg+".gitMajor="+major, pkg+".gitMinor="+minor, pkg+".gitTreeState=clean")
	}
	return stamp
}

// ensureBinary returns the path of the program and builds it if necessary.
func (c component) ensureBinary(ctx context.Context, p *progress) (string, error) {
	source, err := c.sourceDir()
	if err != nil {
		return "", err
	}
	version, err := c.requiredVersion()
	if err != nil {
		return "", err
	}
	flags := "-s -w"
	if c.linkerVariables != nil {
		for _, variable := range c.linkerVariables(version) {
			flags += " -X " + variable
		}
	}
	inputs := append(listGoBuildFlags(), c.mainPackage, flags, runtime.Version(), runtime.GOARCH)
	if c.tags != "" {
		inputs = append(inputs, c.tags)
	}
	hash, err := hashSource(source, c.modFileName(), inputs...)
	if err != nil {
		return "", err
	}
	bin, err := ensureCacheDir("bin")
	if err != nil {
		return "", err
	}
	arguments := []string{"-ldflags=" + flags}
	if c.variant != "" {
		arguments = append(arguments, "-modfile="+c.modFileName(), "-tags="+c.variant)
	}
	if c.tags != "" {
		arguments = append(arguments, "-tags="+c.tags)
	}
	path := filepath.Join(bin, c.name+"-"+hash)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := acquireLock(filepath.Join(bin, c.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil // another process built it while this one waited for the lock
	}
	build := goBuild{dir: source, pkg: c.mainPackage, path: path, arguments: arguments}
	return path, build.run(ctx, p, fmt.Sprintf("building %s %s", c.name, version))
}

// sourceDir returns the directory of the Go module of the component.
func (c component) sourceDir() (string, error) {
	source, err := findSourceDir()
	return filepath.Join(source, "components", cmp.Or(c.dir, c.name)), err
}

// requiredVersion returns the version of the component.
func (c component) requiredVersion() (string, error) {
	source, err := c.sourceDir()
	if err != nil {
		return "", err
	}
	return readRequiredVersion(filepath.Join(source, c.modFileName()), c.module)
}

// modFileName returns the name of the module file with the versions.
func (c component) modFileName() string { return cmp.Or(c.variant, "go") + ".mod" }

// findModuleDir returns the directory of the component's module, which also contains its manifests.
func (c component) findModuleDir(ctx context.Context) (string, error) {
	source, err := c.sourceDir()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", c.module)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of %s: %w: %s", c.name, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("finding the module of %s: %w", c.name, err)
	}
	return module.Dir, nil
}

// findSourceDir returns the directory of this package's source.
var findSourceDir = sync.OnceValues(func() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file), nil
	}
	// The program was built with -trimpath. Like tests, it must run inside the module.
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "rollcall.training/test/cluster").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of the components (run inside the module rollcall.training/test): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// readRequiredVersion returns the version of a module in a go.mod file.
func readRequiredVersion(path, module string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a component's version: %w", err)
	}
	file, err := modfile.Parse(path, data, nil)
	if err != nil {
		return "", fmt.Errorf("reading a component's version: %w", err)
	}
	for _, require := range file.Require {
		if require.Mod.Path == module {
			return require.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("reading a component's version: %s does not require %s", path, module)
}

// hashSource returns a short hash of a module's source files and of all other inputs of its build.
func hashSource(dir, modFile string, more ...string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", fmt.Errorf("listing the source: %w", err)
	}
	hash := sha256.New()
	for _, file := range append(
		files, filepath.Join(dir, modFile), filepath.Join(dir, strings.TrimSuffix(modFile, ".mod")+".sum"),
	) {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the source: %w", err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n", filepath.Base(file), len(data)) // a hash never fails
		_, _ = hash.Write(data)
	}
	_, _ = io.WriteString(hash, strings.Join(more, "\n"))
	return formatShortHash(hash.Sum(nil)), nil
}

// formatShortHash returns the first 48 bits in hexadecimal. They are unique among a few files, and
// short enough for a file name.
func formatShortHash(sum []byte) string { return hex.EncodeToString(sum[:6]) }
