package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// exitUsage is the exit code of an invalid command, and of input that cannot be read.
const exitUsage = 2

// exitError is an error with an exit code. If its text is empty, the command has already printed
// the problem, and main prints nothing.
type exitError struct {
	error
	code int
}

// Unwrap returns the error without the exit code.
func (e exitError) Unwrap() error { return e.error }

// newUsageError gives an error of the command, its flags or its input the exit code [exitUsage]. It
// returns nil for nil.
func newUsageError(err error) error {
	if err == nil {
		return nil
	}
	return exitError{error: err, code: exitUsage}
}

// exitCode returns the exit code of an error: that of an [exitError] in its chain, or 1.
func exitCode(err error) int {
	var e exitError
	if errors.As(err, &e) {
		return e.code
	}
	return 1
}

// executeCommand runs the command line. An error that occurs before a command starts, such as an
// unknown flag, is a usage error.
func executeCommand(root *cobra.Command) error {
	rejectUnknownSubcommands(root)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	err := root.Execute()
	if !started {
		return newUsageError(err)
	}
	return err
}
