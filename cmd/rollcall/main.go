// Command rollcall is Rollcall's command line: what the webhook would do, told
// without a cluster, and how gangs stand that live in one.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "rollcall:", err)
		os.Exit(1)
	}
}
