package release

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowedLicenses are the SPDX identifiers of licenses that permit to distribute Rollcall's programs
// under the Apache License 2.0 if the license text is included.
var allowedLicenses = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-2-Clause-FreeBSD", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0",
	"Unlicense", "CC0-1.0", "0BSD",
}

// Module is a Go module that is part of a program.
type Module struct {
	// Path and Version are those of the module.
	Path    string
	Version string
	// Sum is the checksum in go.sum.
	Sum string
	// Licenses are the SPDX identifiers of the license files, sorted.
	Licenses []string
	// Files are the license files and notices, as module@version/name.
	Files []File
}

// licenseFile matches the names of files that must accompany a program. documentationLicense matches those
// that apply to documentation only, which is not part of a program. For example, go-digest has both.
var (
	licenseFile          = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-.].*)?$`)
	documentationLicense = regexp.MustCompile(`(?i)[-.]docs?$`)
)

// ReadModules returns the modules that a program consists of, with their licenses, sorted by path. It
// returns an error for a module without a license, or with one that is not permitted.
func (s Source) ReadModules(ctx context.Context, program string) ([]Module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", program, err)
	}
	dirs, err := s.listModuleDirs(ctx)
	if err != nil {
		return nil, err
	}
	var modules []Module
	var errs []error
	for _, dependency := range info.Deps {
		module, err := readModule(dependency, dirs)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		modules = append(modules, module)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, errors.Join(errs...)
}

func readModule(dependency *debug.Module, dirs map[string]string) (Module, error) {
	if dependency.Replace != nil {
		dependency = dependency.Replace
	}
	module := Module{Path: dependency.Path, Version: dependency.Version, Sum: dependency.Sum}
	dir := dirs[module.Path+"@"+module.Version]
	if dir == "" {
		return Module{}, fmt.Errorf("the module %s %s is not in the module cache", module.Path, module.Version)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Module{}, fmt.Errorf("finding the license of %s: %w", module.Path, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !licenseFile.MatchString(name) || documentationLicense.MatchString(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return Module{}, fmt.Errorf("reading the license of %s: %w", module.Path, err)
		}
		module.Files = append(module.Files, File{Name: module.Path + "@" + module.Version + "/" + name, Content: content})
		names, err := classifyLicense(content)
		if err != nil {
			return Module{}, err
		}
		module.Licenses = append(module.Licenses, names...)
	}
	slices.Sort(module.Licenses)
	module.Licenses = slices.Compact(module.Licenses)
	return module, checkLicenses(module)
}

// checkLicenses returns an error if a module has no license, or one that is not permitted.
func checkLicenses(m Module) error {
	if len(m.Licenses) == 0 {
		return fmt.Errorf("the module %s %s has no license file that is known", m.Path, m.Version)
	}
	for _, license := range m.Licenses {
		if !slices.Contains(allowedLicenses, license) {
			return fmt.Errorf("the module %s %s has the license %s; permitted are %s",
				m.Path, m.Version, license, strings.Join(allowedLicenses, ", "))
		}
	}
	return nil
}

// minConfidence is the part of a license text that must be recognized. License texts differ in copyright
// notices and white space.
const minConfidence = 0.9

// loadClassifier returns a classifier of license texts.
var loadClassifier = sync.OnceValues(assets.DefaultClassifier)

// classifyLicense returns the SPDX identifiers of the licenses in a text.
func classifyLicense(text []byte) ([]string, error) {
	c, err := loadClassifier()
	if err != nil {
		return nil, fmt.Errorf("loading license texts: %w", err)
	}
	var names []string
	for _, match := range c.Match(c.Normalize(text)).Matches {
		if match.MatchType == "License" && match.Confidence >= minConfidence {
			names = append(names, match.Name)
		}
	}
	return names, nil
}

// listModuleDirs returns the directories of all modules in the build list, by module@version.
func (s Source) listModuleDirs(ctx context.Context) (map[string]string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-json=Path,Version,Dir,Replace", "all")
	command.Dir = s.Dir
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules: %w", addStderr(err))
	}
	dirs := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var module struct{ Path, Version, Dir string }
		err := decoder.Decode(&module)
		if errors.Is(err, io.EOF) {
			return dirs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the modules: %w", err)
		}
		dirs[module.Path+"@"+module.Version] = module.Dir
	}
}
