package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// shareImages makes the image store of a further node a copy of that of the first node. Both are links to the
// same files, because containerd never changes a file of an image. It does nothing if the node has all images
// already. The first node may have no pods, and the containerd of the further node must not run.
func (c *Cluster) shareImages(n realNode) error {
	first := c.state.Machine.ImageStore
	store := n.imageStore(first)
	if hasAllBlobs(store, first) {
		return nil
	}
	return c.progress.runStep("sharing the images with "+n.name(), func() error {
		// Databases are changed in place. containerd must not write to them meanwhile.
		if err := c.SignalProgram(containerdName, syscall.SIGSTOP); err != nil {
			return err
		}
		err := linkImageStore(first, store)
		return errors.Join(err, c.SignalProgram(containerdName, syscall.SIGCONT))
	})
}

// hasAllBlobs reports whether an image store has all blobs of another.
func hasAllBlobs(store, other string) bool {
	const blobs = "io.containerd.content.v1.content/blobs/sha256"
	entries, err := os.ReadDir(filepath.Join(other, blobs))
	if err != nil {
		return isNotExist(err)
	}
	for _, entry := range entries {
		if !isFile(filepath.Join(store, blobs, entry.Name())) {
			return false
		}
	}
	return true
}

// linkImageStore replaces store with a copy of first: hard links to its files, and copies of its databases.
func linkImageStore(first, store string) error {
	incomplete := store + ".new"
	for _, dir := range []string{incomplete, store} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the image store: %w", err)
		}
	}
	if _, err := runCommand("cp", "--archive", "--link", first, incomplete); err != nil {
		return fmt.Errorf("linking the image store: %w", err)
	}
	databases, err := filepath.Glob(filepath.Join(incomplete, "*", "*.db"))
	if err != nil {
		return fmt.Errorf("finding the databases of the image store: %w", err)
	}
	for _, path := range databases {
		data, err := os.ReadFile(path)
		if err := errors.Join(err, os.Remove(path), os.WriteFile(path, data, 0o600)); err != nil {
			return fmt.Errorf("copying the databases of the image store: %w", err)
		}
	}
	if err := os.Rename(incomplete, store); err != nil {
		return fmt.Errorf("linking the image store: %w", err)
	}
	return nil
}
