package integration

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// atOnce is how many cases run at once. They wait for back-offs and for controllers, and hardly compute.
const atOnce = 12

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
