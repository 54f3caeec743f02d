package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

// outputFlags are the flags of files that a migration writes.
type outputFlags struct {
	dir       string
	overwrite bool
}

func (o *outputFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.dir, "output-dir", "", "directory for one file per input file, instead of standard output")
	f.BoolVar(&o.overwrite, "overwrite", false, "existing files in --output-dir are replaced")
	if err := cmd.MarkFlagDirname("output-dir"); err != nil {
		panic(err)
	}
}

// write writes documents to files of the directory and returns the number of files. Each file has the path of its
// source below the argument of --filename, and each object of a cluster has its own file. Before it writes the first
// file, write checks that no file exists. It does not follow links that leave the directory.
func (o outputFlags) write(format string, files []string, docs []*manifest.Document) (int, error) {
	byPath, err := groupByPath(files, docs)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return 0, fmt.Errorf("--output-dir: %w", err)
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return 0, fmt.Errorf("--output-dir: %w", err)
	}
	defer func() { _ = root.Close() }() // the files are closed
	paths := slices.Sorted(maps.Keys(byPath))
	if err := o.checkTargets(root, paths); err != nil {
		return 0, err
	}
	for i, path := range paths {
		var text bytes.Buffer
		pathFormat := manifest.Format(format)
		if filepath.Ext(path) == ".json" {
			pathFormat = manifest.JSON
		}
		if err := manifest.Write(&text, pathFormat, byPath[path]); err != nil {
			return i, err
		}
		err := root.MkdirAll(filepath.Dir(path), 0o750)
		if err == nil {
			err = root.WriteFile(path, text.Bytes(), 0o640)
		}
		if err != nil {
			return i, fmt.Errorf("--output-dir: %w", err)
		}
	}
	return len(paths), nil
}

// checkTargets checks that no file exists, or with --overwrite, that no directory does.
func (o outputFlags) checkTargets(root *os.Root, paths []string) error {
	for _, path := range paths {
		info, err := root.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && o.overwrite && !info.IsDir():
		case err != nil:
			return fmt.Errorf("--output-dir: %w", err)
		case info.IsDir():
			return fmt.Errorf("--output-dir: %s is a directory, and no file was written", filepath.Join(o.dir, path))
		default:
			return fmt.Errorf("--output-dir: %s exists already, and no file was written; set --overwrite to replace it",
				filepath.Join(o.dir, path))
		}
	}
	return nil
}

// groupByPath returns the documents by the path of their file, relative to the directory of the output. Two sources
// with the same path are an error.
func groupByPath(files []string, docs []*manifest.Document) (map[string][]*manifest.Document, error) {
	byPath, sources := map[string][]*manifest.Document{}, map[string]string{}
	for _, d := range docs {
		path, source := relativeToInput(files, d.Source), d.Source
		if d.Source == clusterSourceName {
			path = pathOfObject(d)
			source = path
		}
		if other, ok := sources[path]; ok && other != source {
			return nil, fmt.Errorf("--output-dir: %s and %s have the same path %s; use a call for each of them",
				other, source, path)
		}
		sources[path] = source
		byPath[path] = append(byPath[path], d)
	}
	return byPath, nil
}

// relativeToInput returns the path of a source below the argument of --filename that contains it.
func relativeToInput(files []string, source string) string {
	for _, arg := range files {
		if arg == source {
			return filepath.Base(source)
		}
		path, err := filepath.Rel(arg, source)
		if err == nil && filepath.IsLocal(path) {
			return path
		}
	}
	return "stdin.yaml"
}

// pathOfObject returns the path of an object of a cluster, such as research/job-train.yaml.
func pathOfObject(d *manifest.Document) string {
	path := ""
	for _, o := range d.Objects() {
		path = filepath.Join(o.Namespace, strings.ToLower(o.Kind)+"-"+o.Name+".yaml")
	}
	return path
}

const keptNameNote = "not renamed by --name-suffix: kubectl apply changes the object of the former jobs, and " +
	"kubectl delete -f deletes it; remove it from the output"

// reportKeptNames returns a report for each object of the output that is also in the input, although the suffix was to
// give the output other names.
func (o *migrateOptions) reportKeptNames(input, output []*manifest.Document) []migrate.Report {
	if o.nameSuffix == "" {
		return nil
	}
	former := sets.Set[string]{}
	for _, object := range manifest.ListObjects(input) {
		former.Insert(object.APIGroup() + " " + migrate.DescribeObject(object))
	}
	var reports []migrate.Report
	for _, object := range manifest.ListObjects(output) {
		name := migrate.DescribeObject(object)
		if object.Name != "" && former.Has(object.APIGroup()+" "+name) {
			reports = append(reports, migrate.Report{
				Source: object.Document.Source, Document: object.Document.Number, Object: name, Passthrough: true,
				Note: keptNameNote,
			})
		}
	}
	return reports
}
