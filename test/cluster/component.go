package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/modfile"
)

// component is a program that is built from a module of its own below components/. The version is the one that its
// go.mod requires.
type component struct {
	name   string
	module string
	// pkg is the package to build.
	pkg string
	// cold says how long the build takes with an empty build cache, on two cores.
	cold string
	// variant names a second set of versions of the same program: <variant>.mod instead of go.mod, and the build tag.
	variant string
	// stamp are variables to set to the version by the linker.
	stamp func(version string) []string
}

var (
	kubernetesComponent = component{
		name: "kubernetes", module: "k8s.io/kubernetes", pkg: ".", cold: "5 minutes", stamp: kubernetesStamp,
	}
	floorComponent = component{
		name: "kubernetes", module: "k8s.io/kubernetes", pkg: ".", cold: "5 minutes", stamp: kubernetesStamp, variant: "floor",
	}
	corednsComponent = component{name: "coredns", module: "github.com/coredns/coredns", pkg: ".", cold: "1 minute"}
	kwokComponent    = component{
		name: "kwok", module: "sigs.k8s.io/kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", cold: "1 minute",
	}
	helmComponent = component{
		name: "helm", module: "helm.sh/helm/v4", pkg: "helm.sh/helm/v4/cmd/helm", cold: "1 minute",
		stamp: func(version string) []string { return []string{"helm.sh/helm/v4/internal/version.version=" + version} },
	}
)

// kubernetesStamp gives Kubernetes its version: built as a dependency, it takes itself for v0.0.0, and then compares
// itself with the other components and turns features off.
func kubernetesStamp(version string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	var stamp []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		stamp = append(stamp,
			pkg+".gitVersion="+version, pkg+".gitMajor="+major, pkg+".gitMinor="+minor, pkg+".gitTreeState=clean")
	}
	return stamp
}

// binary returns the path of the component's program, and builds it if need be.
func (c component) binary(ctx context.Context, p *progress) (string, error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	source = filepath.Join(source, "components", c.name)
	version, err := requiredVersion(filepath.Join(source, c.modFile()), c.module)
	if err != nil {
		return "", err
	}
	flags := "-s -w"
	if c.stamp != nil {
		for _, variable := range c.stamp(version) {
			flags += " -X " + variable
		}
	}
	hash, err := sourceHash(source, c.modFile(), c.pkg, flags, runtime.Version(), runtime.GOARCH)
	if err != nil {
		return "", err
	}
	bin, err := cacheDir("bin")
	if err != nil {
		return "", err
	}
	arguments := []string{"-ldflags=" + flags}
	if c.variant != "" {
		arguments = append(arguments, "-modfile="+c.modFile(), "-tags="+c.variant)
	}
	path := filepath.Join(bin, c.name+"-"+hash)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lock(filepath.Join(bin, c.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil // Another process built it while we waited for the lock.
	}
	what := fmt.Sprintf("building %s %s (about %s cold)", c.name, version, c.cold)
	return path, p.do(what, func() error { return goBuild(ctx, source, c.pkg, path, arguments...) })
}

// modFile returns the name of the file that has the versions.
func (c component) modFile() string { return cmp.Or(c.variant, "go") + ".mod" }

// goBuild builds a static program, with further arguments for go build. It appears at path whole or not at all.
func goBuild(ctx context.Context, dir, pkg, path string, arguments ...string) error {
	arguments = slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-o", path + ".new"}, arguments, []string{pkg})
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = dir
	// The user's flags and workspace are for the user's modules.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", pkg, dir, err, output.String())
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keeping the program: %w", err)
	}
	return nil
}

// sourceDir returns the folder of this package's source.
var sourceDir = sync.OnceValues(func() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file), nil
	}
	// Built with -trimpath: then this runs inside the module, as tests do.
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "rollcall.training/test/cluster").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of the components (run inside the module rollcall.training/test): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// requiredVersion returns the version of a module in a go.mod.
func requiredVersion(path, module string) (string, error) {
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

// sourceHash returns a short hash of a module's own files and whatever else decides what is built from it.
func sourceHash(dir, modFile string, more ...string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", fmt.Errorf("listing the source: %w", err)
	}
	hash := sha256.New()
	for _, file := range append(files, filepath.Join(dir, modFile), filepath.Join(dir, strings.TrimSuffix(modFile, ".mod")+".sum")) {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the source: %w", err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n", filepath.Base(file), len(data)) // A hash never fails.
		_, _ = hash.Write(data)
	}
	_, _ = io.WriteString(hash, strings.Join(more, "\n"))
	return shortHash(hash.Sum(nil)), nil
}

// shortHash is 48 bits: enough for a handful of files, short enough for a name.
func shortHash(sum []byte) string { return hex.EncodeToString(sum[:6]) }
