package bench

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// child is a process that this process has started: a component of the cluster, the webhook or the controller.
type child struct {
	pid int
	// name is that of the program.
	name string
	// cpuSeconds is the CPU time that it has used so far.
	cpuSeconds float64
}

// listChildren returns the running children of this process.
func listChildren(t *testing.T) []child {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []child
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the process has just exited
		}
		// proc_pid_stat(5) describes the fields after the program name. The name is in parentheses
		// and may contain any character.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		const parent, user, system = 1, 11, 12
		if len(fields) <= system || fields[parent] != strconv.Itoa(os.Getpid()) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(string(command), "\x00")
		c := child{name: filepath.Base(name)}
		if c.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path))); err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}
		for _, field := range []int{user, system} {
			ticks, err := strconv.ParseUint(fields[field], 10, 64)
			if err != nil {
				t.Fatalf("reading %s: %v", path, err)
			}
			c.cpuSeconds += float64(ticks) / clockTicksPerSecond
		}
		children = append(children, c)
	}
	return children
}

// readCPUSeconds returns the CPU seconds that each component of the cluster and the manager have
// used so far, by program name.
func readCPUSeconds(t *testing.T) map[string]float64 {
	t.Helper()
	seconds := map[string]float64{}
	for _, c := range listChildren(t) {
		seconds[c.name] += c.cpuSeconds
	}
	return seconds
}

// clockTicksPerSecond is the kernel's USER_HZ, the unit of CPU times in /proc. It is 100 on every
// architecture that Go supports.
const clockTicksPerSecond = 100

// subtractCPUSeconds returns the CPU time of each program between two readings.
func subtractCPUSeconds(after, before map[string]float64) map[string]float64 {
	used := map[string]float64{}
	for name, seconds := range after {
		used[name] = seconds - before[name]
	}
	return used
}

// listPrograms returns the names of the programs in alphabetical order.
func listPrograms(seconds map[string]float64) []string { return slices.Sorted(maps.Keys(seconds)) }
