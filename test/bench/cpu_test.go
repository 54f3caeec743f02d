package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cpu reads the seconds that each program of the cluster, and Rollcall's, has computed so far. All are children of
// this process.
func cpu(t *testing.T) map[string]float64 {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	seconds := map[string]float64{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// What follows the name, which is in parentheses and may hold anything, is in proc_pid_stat(5).
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
		for _, field := range []int{user, system} {
			ticks, err := strconv.ParseUint(fields[field], 10, 64)
			if err != nil {
				t.Fatalf("reading %s: %v", path, err)
			}
			seconds[filepath.Base(name)] += float64(ticks) / clockTicks
		}
	}
	return seconds
}

// clockTicks is the kernel's USER_HZ, in which /proc counts: 100 on every architecture that Go runs on.
const clockTicks = 100
