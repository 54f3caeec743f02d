package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// optimizedEnv is the environment variable for optimized programs. Benchmarks set it to true.
const optimizedEnv = "ROLLCALL_OPTIMIZED"

// listGoBuildFlags returns the flags of every build. Builds and tests share packages in the cache of the
// go command only if the compiler flags, CGO_ENABLED, and the versions of all modules are equal
// (components/align.sh). The Makefile has the same flags. Without inlining and debugger information, the
// compiler needs a third less time, and with its first garbage collection at 512 MiB, 7 percent less
// (docs/adr/0018).
func listGoBuildFlags() []string {
	flags := []string{"-buildvcs=false"}
	if os.Getenv(optimizedEnv) != "true" {
		flags = append(flags, "-gcflags=all=-dwarf=false -l -d=gcstart=512")
	}
	return flags
}

// goBuild is the build of a static Go program.
type goBuild struct {
	// dir is a directory in the module of the program.
	dir string
	// pkg is the package of the program as in go build.
	pkg string
	// path is the file to write. It is replaced atomically.
	path string
	// arguments are further arguments of go build.
	arguments []string
}

// BuildProgram builds a static Go program and writes it to path, with the flags of the other builds.
// dir is a directory in the module of the program, and pkg is its package as in go build.
func BuildProgram(ctx context.Context, w io.Writer, dir, pkg, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("creating the directory of the program: %w", err)
	}
	build := goBuild{dir: dir, pkg: pkg, path: path, arguments: []string{"-ldflags=-s -w"}}
	return build.run(ctx, newProgress(w), "building "+pkg)
}

// run builds the program as one step. If the build is long, the step has an estimate of the
// remaining time.
func (b goBuild) run(ctx context.Context, p *progress, what string) error {
	estimate := newBuildEstimate()
	return p.runDescribedStep(what, estimate.describe, func() error {
		listing, stopListing := context.WithCancel(ctx)
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			b.startEstimate(listing, estimate)
		}()
		defer func() { stopListing(); <-listed }()
		// With -v, the go command prints each package that it compiles.
		cmd := b.newGoCommand(ctx, "build", "-v", "-o", b.path+".new")
		output := &buildOutput{estimate: estimate}
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go build %s in %s: %w\n%s", b.pkg, b.dir, err, output.messages.String())
		}
		if err := os.Rename(b.path+".new", b.path); err != nil {
			return fmt.Errorf("renaming the program: %w", err)
		}
		return nil
	})
}

// startEstimate starts the estimate with the packages of a long build. Most builds have nothing to
// compile, and listing their packages would take as long as the build.
func (b goBuild) startEstimate(ctx context.Context, estimate *buildEstimate) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(announceDelay):
	}
	if packages, err := b.listPackages(ctx); err == nil { // otherwise go build reports the error
		estimate.start(packages)
	}
}

// newGoCommand returns a go command with the flags and the environment of the build. arguments are
// its name and more arguments.
func (b goBuild) newGoCommand(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", slices.Concat(arguments, listGoBuildFlags(), b.arguments, []string{b.pkg})...)
	cmd.Dir = b.dir
	// GOFLAGS and the workspace of the user do not apply to this module.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	return cmd
}

// goPackage is a package that a program contains.
type goPackage struct {
	path string
	// size is the size of its Go files in bytes.
	size int64
	// isCompiled reports whether the cache of the go command contains the compiled package.
	isCompiled bool
}

// listPackages returns all packages of the program. It downloads missing modules.
func (b goBuild) listPackages(ctx context.Context) ([]goPackage, error) {
	const format = "-f={{.Stale}}\t{{.ImportPath}}\t{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}"
	out, err := b.newGoCommand(ctx, "list", "-deps", format).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", b.pkg, err)
	}
	var packages []goPackage
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("listing the packages of %s: unexpected line %q", b.pkg, line)
		}
		p := goPackage{path: fields[1], isCompiled: fields[0] != "true"}
		for _, file := range fields[3:] {
			if info, err := os.Stat(filepath.Join(fields[2], file)); err == nil {
				p.size += info.Size()
			}
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// buildOutput is the output of go build -v. It separates the paths of compiled packages from
// messages.
type buildOutput struct {
	estimate *buildEstimate
	line     []byte
	messages bytes.Buffer
}

// Write never fails.
func (o *buildOutput) Write(text []byte) (int, error) {
	o.line = append(o.line, text...)
	for {
		line, rest, ok := bytes.Cut(o.line, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		if bytes.ContainsAny(line, " :#") {
			o.messages.Write(line)
			o.messages.WriteByte('\n')
		} else {
			o.estimate.addCompiled(string(line))
		}
		o.line = rest
	}
}
