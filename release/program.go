package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Platform is an operating system and an architecture, in the words of Go and OCI.
type Platform struct {
	OS   string
	Arch string
}

// String returns os/arch, such as linux/amd64.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// ParsePlatforms parses a list such as "linux/amd64,linux/arm64".
func ParsePlatforms(text string) ([]Platform, error) {
	var platforms []Platform
	for item := range strings.SplitSeq(text, ",") {
		operatingSystem, arch, ok := strings.Cut(item, "/")
		if !ok || operatingSystem == "" || arch == "" || strings.Contains(arch, "/") {
			return nil, fmt.Errorf("the platform %q must be os/arch, such as linux/amd64", item)
		}
		platform := Platform{OS: operatingSystem, Arch: arch}
		if slices.Contains(platforms, platform) {
			return nil, fmt.Errorf("the platform %q is listed twice", item)
		}
		platforms = append(platforms, platform)
	}
	return platforms, nil
}

// Program is a command of the repository.
type Program struct {
	// Name is the name of the executable without an extension.
	Name string
	// Package is the package relative to the root of the repository.
	Package string
}

// The programs of a release.
var (
	Manager = Program{Name: "manager", Package: "./cmd/manager"}
	Command = Program{Name: "rollcall", Package: "./cmd/rollcall"}
	// Agent is a second program in the image of the manager. It consists only of code that the manager
	// contains, too.
	Agent = Program{Name: "agent", Package: "./cmd/agent"}
)

// buildinfoPackage contains the variables that the linker sets.
const buildinfoPackage = "rollcall.training/internal/buildinfo"

// BuildProgram compiles a static program to the file output. The same source and toolchain give the
// same file on every machine.
func (s Source) BuildProgram(ctx context.Context, program Program, platform Platform, output string) error {
	linkerFlags := fmt.Sprintf("-s -w -buildid= -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s",
		buildinfoPackage, s.Version, s.Commit)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags="+linkerFlags, "-o", output, program.Package)
	command.Dir = s.Dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOOS="+platform.OS, "GOARCH="+platform.Arch,
		// The defaults of the toolchain, whatever the user has set.
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", program.Name, platform, err, out)
	}
	return nil
}
