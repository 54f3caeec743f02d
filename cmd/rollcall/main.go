// Command rollcall is Rollcall's command line: what the webhook would do, told
// without a cluster, and how gangs stand that live in one.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "rollcall:", text)
		}
		os.Exit(exitCode(err))
	}
}
