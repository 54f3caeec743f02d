package integration

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// maxParallelCases is the number of parallel cases. They mostly wait for back-offs and controllers
// and use little CPU.
const maxParallelCases = 12

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(maxParallelCases)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
