package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Status is the externally visible state of a cluster.
type Status struct {
	Name   string
	Dir    string
	Nodes  NodeKind
	Server string
	// Running is false if the owner crashed. Clean removes such a cluster.
	Running bool
	// Processes and Exited are the names of the running and the exited components.
	Processes, Exited []string
}

// List returns all clusters of this user.
func List() ([]Status, error) {
	dirs, err := listClusterDirs()
	if err != nil {
		return nil, err
	}
	var list []Status
	for _, dir := range dirs {
		s, err := loadState(dir)
		if isNotExist(err) {
			continue // another process is creating or removing it
		}
		if err != nil {
			return nil, err
		}
		status := Status{Name: s.Name, Dir: dir, Nodes: s.Nodes, Server: s.Server, Running: s.isInUse()}
		for _, process := range s.Processes {
			if process.isAlive() {
				status.Processes = append(status.Processes, process.Name)
			} else {
				status.Exited = append(status.Exited, process.Name)
			}
		}
		list = append(list, status)
	}
	return list, nil
}

// Down stops the cluster of that name, even if it never became ready, and returns when it is
// removed. It reports its progress to w.
func Down(ctx context.Context, name string, w io.Writer) error {
	base, err := ensureCacheDir("clusters")
	if err != nil {
		return err
	}
	dir := filepath.Join(base, name)
	s, err := loadState(dir)
	if isNotExist(err) {
		return fmt.Errorf("cluster %s does not exist", name)
	}
	if err != nil {
		return err
	}
	c := &Cluster{dir: dir, state: s, progress: newProgress(w)}
	return c.Down(ctx)
}

// Purge removes all cached files: programs, images and logs. It returns an error if a cluster
// exists.
func Purge(w io.Writer) error {
	list, err := List()
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("cluster %s still exists: stop it first", list[0].Name)
	}
	p := newProgress(w)
	var errs []error
	base, err := ensureCacheDir("")
	if err != nil {
		return err
	}
	// Each further node has an image store of its own.
	dirs, err := filepath.Glob(filepath.Join(base, "containerd*"))
	if err != nil {
		return fmt.Errorf("listing the image stores: %w", err)
	}
	for _, sub := range []string{"bin", "images", "failed"} {
		dirs = append(dirs, filepath.Join(base, sub))
	}
	for _, dir := range dirs {
		errs = append(errs, p.runStep("removing "+dir, func() error { return os.RemoveAll(dir) }))
	}
	return errors.Join(errs...)
}
