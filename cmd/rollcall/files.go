package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/internal/manifest"
)

// filenameUsage is the help of the flag --filename.
const filenameUsage = "file or directory of manifests, or - for standard input; repeatable"

// manifestExtensions are the extensions of the files that are read from a directory, as in kubectl.
var manifestExtensions = []string{"yaml", "yml", "json"}

// addFilenameFlag adds the flag --filename, or another flag for manifests.
func addFilenameFlag(cmd *cobra.Command, target *[]string, name, shorthand, usage string) {
	cmd.Flags().StringArrayVarP(target, name, shorthand, nil, usage)
	mustMarkFilename(cmd, name, manifestExtensions...)
}

// readManifests reads the files and directories of the flag --filename, and standard input for "-".
// It reports documents that cannot be read and continues with the others. The error is that of a
// file that cannot be opened.
func readManifests(names []string, stdin io.Reader) ([]*manifest.Document, []*manifest.Error, error) {
	var docs []*manifest.Document
	var unreadable []*manifest.Error
	for _, name := range names {
		paths, err := listManifestFiles(name)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			source, in, err := openInput(path, stdin)
			if err != nil {
				return nil, nil, err
			}
			fileDocs, fileErrs := manifest.ReadAll(source, in)
			_ = in.Close() // the file is only read
			docs, unreadable = append(docs, fileDocs...), append(unreadable, fileErrs...)
		}
	}
	return docs, unreadable, nil
}

// openInput opens a file, or standard input for "-", and returns its name in messages.
func openInput(path string, stdin io.Reader) (source string, in io.ReadCloser, err error) {
	if path == "-" {
		return "standard input", io.NopCloser(stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return path, nil, fmt.Errorf("opening input: %w", err)
	}
	return path, f, nil
}

// listManifestFiles lists the files of a directory and its subdirectories that have an extension of
// manifests. For a file or "-", it returns the name, whatever its extension.
func listManifestFiles(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("opening input: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(manifestExtensions, strings.TrimPrefix(filepath.Ext(path), ".")) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("listing manifests: directory %s has no .yaml, .yml or .json file", name)
	}
	return paths, nil
}
