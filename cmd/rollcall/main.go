// Command rollcall is Rollcall's command line: what the webhook would do, told
// without a cluster, and how gangs stand that live in one.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	err := newRoot().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "rollcall:", err)
	var e exitError
	if errors.As(err, &e) {
		os.Exit(e.code)
	}
	os.Exit(1)
}

// exitError is an error with an exit code of its own, for commands whose codes mean
// something to scripts.
type exitError struct {
	error
	code int
}

// Unwrap returns the error.
func (e exitError) Unwrap() error { return e.error }
