package webhook

import (
	"math"
	"os"
	"runtime/debug"
)

// gcPercent is the growth of the heap until the next garbage collection, in percent. The live heap is 10 MiB, so a
// call costs a tenth less CPU time for 40 MiB more memory. The limit still bounds the heap. make bench has the same
// value.
const gcPercent = 400

// LimitMemory sets the garbage collection of a process that serves the webhooks. It reduces the limit of the
// environment variable GOMEMLIMIT by a quarter. The chart sets the variable to the limit of the container, which also
// includes what the kernel buffers for connections. The variable GOGC has precedence over the value of Rollcall.
func LimitMemory() {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit - limit/4)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
