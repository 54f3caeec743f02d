package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rollcall.training/manifest"
)

// readManifests reads the documents of files and directories, and of standard input
// where one is called "-". Those that can be read are there whatever becomes of the
// others, each of which has an error.
func readManifests(files []string, stdin io.Reader) (docs []*manifest.Document, errs []error) {
	read := func(source string, r io.Reader) {
		got, bad := manifest.ReadAll(source, r)
		docs = append(docs, got...)
		for _, err := range bad {
			errs = append(errs, err)
		}
	}
	for _, name := range files {
		if name == "-" {
			read("standard input", stdin)
			continue
		}
		paths, err := expand(name)
		if err != nil {
			errs = append(errs, err)
		}
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				errs = append(errs, fmt.Errorf("opening a manifest: %w", err))
				continue
			}
			read(path, f)
			errs = appendError(errs, f.Close())
		}
	}
	return docs, errs
}

func appendError(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
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
		return nil, errors.New("listing manifests: " + name + " holds no .yaml, .yml or .json file")
	}
	return paths, nil
}
