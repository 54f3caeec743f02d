package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// divideCores lets the webhook and this program, its client, run on the second half of the cores, and all other
// children on the first half, until the returned function is called. A control plane and a webhook usually run on
// different nodes.
func divideCores(t *testing.T, webhookPID int) (reunite func()) {
	t.Helper()
	var all, ofCluster, ofWebhook unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatalf("reading the cores of this process: %v", err)
	}
	seen, half := 0, all.Count()/2
	for cpu := range len(all) * strconv.IntSize {
		switch {
		case !all.IsSet(cpu):
			continue
		case seen < half:
			ofCluster.Set(cpu)
		default:
			ofWebhook.Set(cpu)
		}
		seen++
	}
	var processes []int
	for _, c := range listChildren(t) {
		processes = append(processes, c.pid)
	}
	if !slices.Contains(processes, webhookPID) {
		t.Fatalf("the webhook, process %d, does not run", webhookPID)
	}
	processes = append(processes, os.Getpid())
	for _, pid := range processes {
		cores := &ofCluster
		if pid == webhookPID || pid == os.Getpid() {
			cores = &ofWebhook
		}
		setCores(t, pid, cores)
	}
	return func() {
		t.Helper()
		for _, pid := range processes {
			setCores(t, pid, &all)
		}
	}
}

// setCores restricts all threads of a process to cores. Threads that they start later have the same ones.
func setCores(t *testing.T, pid int, cores *unix.CPUSet) {
	t.Helper()
	for range 2 { // a thread may start another while the first list is read
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.SchedSetaffinity(thread, cores); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatalf("restricting process %d to %d of %d cores: %v", pid, cores.Count(), runtime.NumCPU(), err)
			}
		}
	}
}
