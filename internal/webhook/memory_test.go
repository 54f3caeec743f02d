package webhook

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestLimitMemory checks which limit of the heap follows from that of the container.
func TestLimitMemory(t *testing.T) {
	before, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) }()
	for name, c := range map[string]struct{ limit, want int64 }{
		"a quarter remains for the kernel": {limit: 512 << 20, want: 384 << 20},
		"there is no limit":                {limit: math.MaxInt64, want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			debug.SetMemoryLimit(c.limit)
			LimitMemory()
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
			if got := debug.SetGCPercent(100); got != gcPercent {
				t.Errorf("the heap grows by %d percent, want %d", got, gcPercent)
			}
		})
	}
}
