package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// BuildManagerImages builds the images of the manager. progress receives a line for each platform.
func (s Source) BuildManagerImages(
	ctx context.Context, platforms []Platform, progress io.Writer,
) ([]ManagerImage, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var images []ManagerImage
	for _, platform := range platforms {
		if platform.OS != "linux" {
			return nil, fmt.Errorf("the platform %s is not supported: the manager runs on linux", platform)
		}
		built, err := s.buildWithModules(ctx, Manager, platform, filepath.Join(dir, platform.Arch))
		if err != nil {
			return nil, err
		}
		agent, err := s.buildWithModules(ctx, Agent, platform, filepath.Join(dir, platform.Arch+"-agent"))
		if err != nil {
			return nil, err
		}
		image, err := s.BuildImage(built.content, agent.content, platform, built.licenses)
		if err != nil {
			return nil, err
		}
		images = append(images, ManagerImage{Platform: platform, Image: image, SBOM: built.sbom})
		fmt.Fprintf(progress, "built the manager for %s\n", platform)
	}
	return images, nil
}

// builtProgram is a program together with what must accompany it.
type builtProgram struct {
	content  []byte
	licenses []File // of Rollcall and of all modules
	sbom     []byte
}

func (s Source) buildWithModules(
	ctx context.Context, program Program, platform Platform, output string,
) (builtProgram, error) {
	if err := s.BuildProgram(ctx, program, platform, output); err != nil {
		return builtProgram{}, err
	}
	content, err := os.ReadFile(output)
	if err != nil {
		return builtProgram{}, fmt.Errorf("reading the program: %w", err)
	}
	modules, err := s.ReadModules(ctx, output)
	if err != nil {
		return builtProgram{}, err
	}
	sbom, err := s.WriteSBOM(program, platform, modules)
	if err != nil {
		return builtProgram{}, err
	}
	own, err := os.ReadFile(filepath.Join(s.Dir, "LICENSE"))
	if err != nil {
		return builtProgram{}, fmt.Errorf("reading the license: %w", err)
	}
	licenses := []File{{Name: "licenses/LICENSE", Content: own}}
	for _, module := range modules {
		for _, file := range module.Files {
			licenses = append(licenses, File{Name: "licenses/" + file.Name, Content: file.Content})
		}
	}
	return builtProgram{content: content, licenses: licenses, sbom: sbom}, nil
}
