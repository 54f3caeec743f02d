package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
