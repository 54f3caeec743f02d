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
	var e exitError
	if !errors.As(err, &e) {
		e = exitError{error: err, code: 1}
	}
	if !e.said {
		fmt.Fprintln(os.Stderr, "rollcall:", err)
	}
	os.Exit(e.code)
}

// exitError is an error with an exit code of its own, for commands whose codes mean
// something to scripts.
type exitError struct {
	error
	code int
	// said is true when the command has told its user already, in a form that another line would break.
	said bool
}

// Unwrap returns the error.
func (e exitError) Unwrap() error { return e.error }
