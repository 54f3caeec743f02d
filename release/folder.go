package release

import (
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

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Options are what a release needs besides its source.
type Options struct {
	// Repository is the repository of the image, such as registry.example.com/rollcall/manager. The
	// chart names it.
	Repository string
	// ImagePlatforms are the platforms of the manager.
	ImagePlatforms []Platform
	// CommandPlatforms are the platforms of the command line.
	CommandPlatforms []Platform
	// DownloadURL is the URL of the folder that will contain the archives. The files that install the command
	// line name it. If it is empty, the release has no such files.
	DownloadURL string
	// Signer signs the checksums; nil if the release is not signed.
	Signer *Signer
	// Dir is the folder to write. It must not exist or be empty.
	Dir string
	// Progress receives one line for each step.
	Progress io.Writer
}

// Release is what [Source.WriteRelease] wrote.
type Release struct {
	Images []ManagerImage
	Chart  Chart
}

// commandArchive is an archive with the command line for one platform.
type commandArchive struct {
	platform Platform
	fileName string
	content  []byte
}

// WriteRelease writes everything that belongs to a release into one folder:
//
//	images/manager             OCI image layout with all platforms
//	rollcall-VERSION.tgz       the chart, with the digest of the image
//	rollcall_VERSION_OS_ARCH   archives of the command line with licenses and completions
//	rollcall.yaml              manifest for krew, with a download URL
//	rollcall.rb                formula for Homebrew, with a download URL
//	install.sh                 script that verifies and installs the command line, with a download URL
//	*.spdx.json                bills of materials
//	release-notes.md           the changes
//	provenance.json            SLSA provenance of all files above and of the image, as an in-toto statement
//	checksums.txt              SHA-256 of all files above, except the layout, which is addressed by digest
//	checksums.txt.sigstore.json  the signature of the checksums, with a signer
func (s Source) WriteRelease(ctx context.Context, o Options) (Release, error) {
	if err := createEmptyDir(o.Dir); err != nil {
		return Release{}, err
	}
	images, err := s.BuildManagerImages(ctx, o.ImagePlatforms, o.Progress)
	if err != nil {
		return Release{}, err
	}
	index := s.BuildIndex(images)
	if _, err := layout.Write(filepath.Join(o.Dir, "images", Manager.Name), index); err != nil {
		return Release{}, fmt.Errorf("writing the images: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return Release{}, fmt.Errorf("computing the digest of the image: %w", err)
	}
	chart, err := s.PackageChart(o.Repository, digest)
	if err != nil {
		return Release{}, err
	}
	files := []File{{Name: chart.FileName, Content: chart.Content}}
	for _, image := range images {
		files = append(files, File{Name: s.formatFileName(Manager, image.Platform) + ".spdx.json", Content: image.SBOM})
	}
	commandFiles, err := s.buildCommandFiles(ctx, o)
	if err != nil {
		return Release{}, err
	}
	files = append(files, commandFiles...)
	changelog, err := os.ReadFile(filepath.Join(s.Dir, "CHANGELOG.md"))
	if err != nil {
		return Release{}, fmt.Errorf("reading the changelog: %w", err)
	}
	notes, err := ExtractNotes(string(changelog), s.Version)
	if err != nil {
		return Release{}, err
	}
	files = append(files, File{Name: "release-notes.md", Content: []byte(notes)})
	subjects := []subject{newSubject(o.Repository, digest.Hex)}
	for _, file := range files {
		subjects = append(subjects, newSubject(file.Name, hashSHA256(file.Content)))
	}
	provenance, err := s.writeProvenance(subjects...)
	if err != nil {
		return Release{}, err
	}
	files = append(files, File{Name: "provenance.json", Content: provenance})
	return Release{Images: images, Chart: chart}, writeFiles(o.Dir, files, o.Signer)
}

// writeFiles writes files with their checksums, and the signature of the checksums if there is a signer.
func writeFiles(dir string, files []File, signer *Signer) error {
	checksums := File{Name: "checksums.txt", Content: writeChecksums(files)}
	files = append(files, checksums)
	if signer != nil {
		signature, err := signer.SignFile(checksums.Content)
		if err != nil {
			return err
		}
		files = append(files, File{Name: checksums.Name + ".sigstore.json", Content: signature})
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file.Name), file.Content, 0o644); err != nil {
			return fmt.Errorf("writing the release: %w", err)
		}
	}
	return nil
}

func createEmptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the release: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder of the release: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder %s is not empty: remove it, or choose another one", dir)
	}
	return nil
}

// buildCommandFiles returns the archives of the command line, their bills of materials, and the files that install it.
func (s Source) buildCommandFiles(ctx context.Context, o Options) ([]File, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	completions, err := s.writeCompletions(ctx, dir)
	if err != nil {
		return nil, err
	}
	var files []File
	var archives []commandArchive
	for _, platform := range o.CommandPlatforms {
		built, err := s.buildWithModules(ctx, Command, platform, filepath.Join(dir, "program"))
		if err != nil {
			return nil, err
		}
		archive, err := s.archiveCommand(platform, built, completions)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
		files = append(files,
			File{Name: archive.fileName, Content: archive.content},
			File{Name: s.formatFileName(Command, platform) + ".spdx.json", Content: built.sbom})
		fmt.Fprintf(o.Progress, "built the command for %s\n", platform)
	}
	installers, err := s.writeInstallers(archives, o.DownloadURL)
	return append(files, installers...), err
}

// writeCompletions returns the completion scripts of all shells.
func (s Source) writeCompletions(ctx context.Context, dir string) ([]File, error) {
	program := filepath.Join(dir, "host")
	if err := s.BuildProgram(ctx, Command, Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, program); err != nil {
		return nil, err
	}
	var files []File
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script, err := exec.CommandContext(ctx, program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("writing the completion for %s: %w", shell, addStderr(err))
		}
		files = append(files, File{Name: "completions/rollcall." + shell, Content: script})
	}
	return files, nil
}

// archiveCommand puts the command line, its licenses and completions into a zip for Windows and into a
// compressed tar for other systems.
func (s Source) archiveCommand(platform Platform, built builtProgram, completions []File) (commandArchive, error) {
	name := Command.Name + executableExtension(platform)
	files := []File{
		{Name: name, Executable: true, Content: built.content},
		{Name: "LICENSE", Content: built.licenses[0].Content},
	}
	files = slices.Concat(files, completions, built.licenses[1:])
	archive := commandArchive{platform: platform, fileName: s.formatFileName(Command, platform) + ".tar.gz"}
	write := writeTarGzip
	if platform.OS == "windows" {
		archive.fileName = s.formatFileName(Command, platform) + ".zip"
		write = writeZip
	}
	content, err := write(files, s.Time)
	archive.content = content
	return archive, err
}

func executableExtension(platform Platform) string {
	if platform.OS == "windows" {
		return ".exe"
	}
	return ""
}

// formatFileName returns program_version_os_arch.
func (s Source) formatFileName(program Program, platform Platform) string {
	return strings.Join([]string{program.Name, strings.TrimPrefix(s.Version, "v"), platform.OS, platform.Arch}, "_")
}

// writeChecksums returns the checksums in the format of sha256sum.
func writeChecksums(files []File) []byte {
	var text []byte
	for _, file := range files {
		text = fmt.Appendf(text, "%s  %s\n", hashSHA256(file.Content), file.Name)
	}
	return text
}

func hashSHA256(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// unreleased is the heading of the changes since the last release.
const unreleased = "[Unreleased]"

// ExtractNotes returns the section of a version in a changelog in the format of Keep a Changelog. A
// version without a section has the notes of the section [Unreleased]. It returns an error if both are
// absent.
func ExtractNotes(changelog, version string) (string, error) {
	wanted := "[" + strings.TrimPrefix(version, "v") + "]"
	sections := splitSections(changelog)
	for _, heading := range []string{wanted, unreleased} {
		if notes, ok := sections[heading]; ok {
			return "# Rollcall " + version + "\n\n" + strings.TrimSpace(notes) + "\n", nil
		}
	}
	return "", fmt.Errorf("the changelog has neither a section %s nor %s", wanted, unreleased)
}

// splitSections returns the text of the sections by the first word of their headings.
func splitSections(changelog string) map[string]string {
	sections := map[string]string{}
	current := ""
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			current, _, _ = strings.Cut(strings.TrimSpace(heading), " ")
			sections[current] = ""
			continue
		}
		if current != "" {
			sections[current] += line
		}
	}
	return sections
}
