package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Status is what is known of a cluster from outside.
type Status struct {
	Name   string
	Dir    string
	Nodes  Nodes
	Server string
	// Running is false for one whose owner crashed: Clean removes it.
	Running bool
	// Processes are the components that run, and Ended those that have ended, by name.
	Processes, Ended []string
}

// List returns all clusters of this user.
func List() ([]Status, error) {
	dirs, err := clusters()
	if err != nil {
		return nil, err
	}
	var list []Status
	for _, dir := range dirs {
		s, err := loadState(dir)
		if missing(err) {
			continue // It is being made, or removed, at this moment.
		}
		if err != nil {
			return nil, err
		}
		status := Status{Name: s.Name, Dir: dir, Nodes: s.Nodes, Server: s.Server, Running: s.running()}
		for _, process := range s.Processes {
			if process.alive() {
				status.Processes = append(status.Processes, process.Name)
			} else {
				status.Ended = append(status.Ended, process.Name)
			}
		}
		list = append(list, status)
	}
	return list, nil
}

// Down stops the cluster of that name, also one that never became ready, and returns when it is gone.
func Down(ctx context.Context, name string, w io.Writer) error {
	base, err := cacheDir("clusters")
	if err != nil {
		return err
	}
	dir := filepath.Join(base, name)
	s, err := loadState(dir)
	if missing(err) {
		return fmt.Errorf("no cluster is named %s", name)
	}
	if err != nil {
		return err
	}
	c := &Cluster{dir: dir, state: s, progress: &progress{w: w}}
	return c.Down(ctx)
}

// Purge removes everything that is kept between runs: programs, images, logs. It refuses while a cluster is there.
func Purge(w io.Writer) error {
	list, err := List()
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("the cluster %s is still there: stop it first", list[0].Name)
	}
	p := &progress{w: w}
	var errs []error
	for _, sub := range []string{"bin", "images", "containerd", "failed"} {
		dir, err := cacheDir(sub)
		if err != nil {
			return err
		}
		errs = append(errs, p.do("removing "+dir, func() error { return os.RemoveAll(dir) }))
	}
	return errors.Join(errs...)
}
