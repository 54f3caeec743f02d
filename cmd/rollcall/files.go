package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rollcall.training/manifest"
)

// filesUsage explains the flag --filename.
const filesUsage = "file or directory with manifests, - for standard input; may be given several times"

// readManifests reads files, directories and standard input, as the flag --filename names
// them. Documents that cannot be read do not keep the others from being read; the error is
// for a file that is not there.
func readManifests(names []string, stdin io.Reader) ([]*manifest.Document, []*manifest.Error, error) {
	var docs []*manifest.Document
	var unreadable []*manifest.Error
	for _, name := range names {
		if name == "-" {
			got, bad := manifest.ReadAll("standard input", stdin)
			docs, unreadable = append(docs, got...), append(unreadable, bad...)
			continue
		}
		paths, err := expand(name)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			got, bad, err := readFile(path)
			if err != nil {
				return nil, nil, err
			}
			docs, unreadable = append(docs, got...), append(unreadable, bad...)
		}
	}
	return docs, unreadable, nil
}

func readFile(path string) ([]*manifest.Document, []*manifest.Error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a manifest: %w", err)
	}
	docs, bad := manifest.ReadAll(path, f)
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("closing a manifest: %w", err)
	}
	return docs, bad, nil
}

// expand lists the manifests of a directory, by the endings that kubectl reads;
// a file stands for itself whatever its name.
func expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("opening a manifest: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("listing manifests: %s holds no .yaml, .yml or .json file", name)
	}
	return paths, nil
}
